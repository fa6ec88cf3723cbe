"""`regard predict`, by its own search or by CTranslate2 as regard calls it."""

from pathlib import Path

import torch
from protocol import OPTIONS, serve

import regard
from regard.layers.allocator import keep_pages


def main():
    torch.set_num_threads(OPTIONS["threads"])
    keep_pages()  # as the command line does
    model = regard.load(
        OPTIONS["run"],
        engine=OPTIONS["engine"],
        quantization=OPTIONS["quantization"],
        shortlist=OPTIONS["shortlist"],
    )
    lines = Path(OPTIONS["sentences"]).read_text(encoding="utf-8").splitlines()

    def work():
        if OPTIONS["one_by_one"]:
            return sum(len(model.predict([line], beams=OPTIONS["beams"])) for line in lines)
        return len(model.predict(lines, beams=OPTIONS["beams"], batch=OPTIONS["batch"]))

    serve(work)


main()
