"""regard's word2vec with the benchmark's settings: rounds on a part of the text, or all of it."""

import json
import shutil
import sys
from pathlib import Path

from protocol import OPTIONS, serve

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from regard.word2vec import folder, training
from regard.word2vec.corpus import Source
from regard.word2vec.settings import Settings
from regard.word2vec.space import Space, export


def made():
    own = OPTIONS["settings"] | {"threads": OPTIONS["threads"], "seed": OPTIONS["seed"]}
    place = Path(OPTIONS["run"])
    shutil.rmtree(place, ignore_errors=True)
    return folder.create(place, Source([Path(OPTIONS["text"])]), Settings(**own))[0]


def rounds():
    trainer = training.Trainer(made())
    tables = training.Tables.drawn(trainer.size, trainer.settings)
    known = pieces = 0
    part = OPTIONS["lines"] / OPTIONS["all_lines"] * trainer.corpus.words
    while pieces < len(trainer.corpus) and known < part:
        known += len(trainer.corpus.piece(pieces).tokens)
        pieces += 1

    def work():
        trainer.epoch(0, tables, lambda words: None, lambda: False, pieces)
        return known

    serve(work, words=trainer.size, known=known)


def whole():
    run = made()
    done = training.train(run.path, lambda record: None, lambda words, speed: None)
    Path(OPTIONS["save"]).unlink(missing_ok=True)
    export(Space.load(run.path), Path(OPTIONS["save"]))
    answer = {"seconds": done.seconds, "cpu_seconds": done.cpu_seconds, "tokens": done.tokens}
    print(json.dumps(answer))


whole() if OPTIONS.get("save") else rounds()
