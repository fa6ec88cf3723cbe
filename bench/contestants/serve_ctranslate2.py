"""A plain server, as one would write it in an afternoon: FastAPI, and CTranslate2 on threads."""

import ctranslate2
import uvicorn
from fastapi import FastAPI
from protocol import OPTIONS
from pydantic import BaseModel

from regard import load


class Asked(BaseModel):
    q: str | list[str]
    source: str
    target: str


def main():
    by = load(OPTIONS["run"]).task.source.tokenizer
    write = load(OPTIONS["run"]).task.target.tokenizer
    translator = ctranslate2.Translator(
        OPTIONS["model"], inter_threads=OPTIONS["threads"], intra_threads=1
    )
    app = FastAPI()

    @app.get("/ready")
    def ready():
        return {}

    @app.post("/translate")
    def translate(asked: Asked):
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        tokens = by.encode(texts)
        found = translator.translate_batch(
            [[str(n) for n in (*row, by.end)] for row in tokens],
            beam_size=OPTIONS["beams"],
            max_batch_size=16,
            max_decoding_length=int(OPTIONS["factor"] * max(map(len, tokens))) + OPTIONS["extra"],
            min_decoding_length=0,
            max_input_length=0,
        )
        said = [write.decode([int(n) for n in each.hypotheses[0]]) for each in found]
        return {"translatedText": said[0] if isinstance(asked.q, str) else said}

    uvicorn.run(app, port=OPTIONS["port"], log_level="error", access_log=False)


main()
