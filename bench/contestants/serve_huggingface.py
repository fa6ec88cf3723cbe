"""A plain server: FastAPI, and for each request Hugging Face's `generate`.

`transformers.pipeline` has no task for models that translate since version 5; its pipeline for
translation did what is done here: tokens, `generate`, a text, one request at a time.
"""

import threading

import torch
import uvicorn
from fastapi import FastAPI
from protocol import OPTIONS
from pydantic import BaseModel
from transformers import PegasusForConditionalGeneration

from regard import load


class Asked(BaseModel):
    q: str | list[str]
    source: str
    target: str


def main():
    torch.set_num_threads(OPTIONS["threads"])
    by = load(OPTIONS["run"]).task.source.tokenizer
    write = load(OPTIONS["run"]).task.target.tokenizer
    model = PegasusForConditionalGeneration.from_pretrained(OPTIONS["model"]).eval()
    app, one = FastAPI(), threading.Lock()  # each call has all cores

    @app.get("/ready")
    def ready():
        return {}

    @app.post("/translate")
    def translate(asked: Asked):
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        rows = [[*row, by.end] for row in by.encode(texts)]
        longest = max(map(len, rows))
        symbols = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        with one, torch.inference_mode():
            found = model.generate(
                input_ids=symbols,
                attention_mask=(symbols != 0).long(),
                num_beams=OPTIONS["beams"],
                max_new_tokens=int(OPTIONS["factor"] * longest + OPTIONS["extra"]),
                do_sample=False,
            )
        said = [write.decode([n for n in row if n > 2]) for row in found.tolist()]
        return {"translatedText": said[0] if isinstance(asked.q, str) else said}

    uvicorn.run(app, port=OPTIONS["port"], log_level="error", access_log=False)


main()
