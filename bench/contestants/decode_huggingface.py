"""Hugging Face's `generate` with the same weights; tokens are given, sorted by length."""

import json
from pathlib import Path

import torch
from protocol import OPTIONS, serve
from transformers import PegasusForConditionalGeneration


def main():
    torch.set_num_threads(OPTIONS["threads"])
    model = PegasusForConditionalGeneration.from_pretrained(OPTIONS["model"]).eval()
    sources = sorted(json.loads(Path(OPTIONS["symbols"]).read_text(encoding="utf-8")), key=len)
    size = OPTIONS["batch"]
    batches = [sources[n : n + size] for n in range(0, len(sources), size)]

    def work():
        for batch in batches:
            longest = max(map(len, batch))
            symbols = torch.tensor([row + [0] * (longest - len(row)) for row in batch])
            with torch.inference_mode():
                model.generate(
                    input_ids=symbols,
                    attention_mask=(symbols != 0).long(),
                    num_beams=OPTIONS["beams"],
                    max_new_tokens=2 * longest + 10,
                    do_sample=False,
                )
        return len(sources)

    serve(work)


main()
