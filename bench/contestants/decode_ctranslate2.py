"""CTranslate2 called directly, with the same model, at its best setting; tokens are given."""

import json
from pathlib import Path

import ctranslate2
from protocol import OPTIONS, serve


def main():
    translator = ctranslate2.Translator(
        OPTIONS["model"],
        inter_threads=OPTIONS["workers"],
        intra_threads=OPTIONS["threads"] // OPTIONS["workers"],
    )
    sources = json.loads(Path(OPTIONS["symbols"]).read_text(encoding="utf-8"))
    tokens = [[str(symbol) for symbol in source] for source in sources]

    def translate(batch):
        return translator.translate_batch(
            batch,
            beam_size=OPTIONS["beams"],
            max_batch_size=16,
            max_decoding_length=OPTIONS["cap"],
            min_decoding_length=0,
            max_input_length=0,
        )

    def work():
        if OPTIONS["one_by_one"]:
            return sum(len(translate([source])) for source in tokens)
        return len(translate(tokens))

    serve(work)


main()
