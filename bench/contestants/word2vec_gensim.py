"""gensim's Word2Vec with the settings of the benchmark: rounds on a part of the text, or all of it.

`form` says how it gets the text: `sentences`, lists of words in memory, or `corpus_file`.
"""

import itertools
import json
import time
from pathlib import Path

from gensim.models import Word2Vec
from protocol import OPTIONS, serve


def words(path, most=None):
    with Path(path).open(encoding="utf-8") as file:
        return [line.split() for line in itertools.islice(file, most)]


def model():
    own = OPTIONS["settings"]
    return Word2Vec(
        vector_size=own["dim"], window=own["window"], negative=own["negatives"],
        sg=int(own["model"] == "skip-gram"), hs=0, sample=own["subsample"],
        min_count=own["min_frequency"], alpha=own["learning_rate"], min_alpha=1e-4,
        workers=OPTIONS["threads"], seed=OPTIONS["seed"], epochs=own["epochs"], cbow_mean=1,
    )  # fmt: skip


def rounds():
    made, text = model(), words(OPTIONS["text"])
    made.build_vocab(text)
    part = text[: OPTIONS["lines"]]
    known = sum(word in made.wv.key_to_index for line in part for word in line)
    total = sum(map(len, part))
    if OPTIONS["form"] == "corpus_file":
        del text, part
        source = {"corpus_file": OPTIONS["part"]}
    else:
        del text
        source = {"corpus_iterable": part}

    def work():
        made.train(
            **source, total_examples=OPTIONS["lines"], total_words=total, epochs=1,
            start_alpha=0.025, end_alpha=0.02,
        )  # fmt: skip
        return known

    serve(work, words=len(made.wv), known=known)


def whole():
    """All epochs; how long they took, without reading and counting."""
    made, text = model(), words(OPTIONS["text"])
    made.build_vocab(text)
    total = sum(map(len, text))
    known = sum(word in made.wv.key_to_index for line in text for word in line)
    cpu, start = time.process_time(), time.perf_counter()
    if OPTIONS["form"] == "corpus_file":
        source = {"corpus_file": OPTIONS["text"]}
    else:
        source = {"corpus_iterable": text}
    epochs = OPTIONS["settings"]["epochs"]
    made.train(**source, total_examples=len(text), total_words=total, epochs=epochs)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    made.wv.save_word2vec_format(OPTIONS["save"], binary=True)
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "tokens": known * epochs}))


whole() if OPTIONS.get("save") else rounds()
