"""What a language model writes, shown while it writes; and the words that may follow."""

from typing import TYPE_CHECKING, Any

from regard.console.streams import warn
from regard.errors import RecipeError
from regard.verbs.common import say
from regard.verbs.sources import Source

if TYPE_CHECKING:
    from regard.front import Predictor


def stream(predictor: "Predictor", source: Source, *, detailed: bool, **options: Any) -> None:
    """Each input, and after it what is written, as it is written; of answers, these alone. Ctrl-C
    ends the line."""
    if detailed:
        raise RecipeError("stream: text appears while it is written; JSONL has whole lines")
    for text in source.inputs(predictor.task):
        try:
            print("" if predictor.template else text, end="", flush=True)
            for piece in predictor.generate(text, **options):
                print(piece, end="", flush=True)
        finally:
            print(flush=True)


def converse(predictor: "Predictor", source: Source, **options: Any) -> None:
    """A dialogue: each line is answered with all that was said before it. An empty line begins a
    new one."""
    said: list[dict[str, str]] = []
    for line in source.inputs(predictor.task):
        if not line.strip():
            warn("a new dialogue begins")
            said = []
            continue
        said.append({"role": "user", "content": line})
        while len(said) > 1 and not predictor.has_room(said):
            del said[:2]
        answer = ""
        try:
            for piece in predictor.generate(said, **options):
                print(piece, end="", flush=True)
                answer += piece
        finally:
            print(flush=True)
        said.append({"role": "assistant", "content": answer})


def next_words(predictor: "Predictor", source: Source, count: int, *, detailed: bool) -> None:
    """The likeliest words after each input: a line each, or all in one line of JSON."""
    for text in source.inputs(predictor.task):
        found = predictor.next_words(text, count)
        if detailed:
            words = [{"word": word, "probability": chance} for word, chance in found]
            say({"text": text, "next": words})
            continue
        for word, chance in found:
            say(f"{chance:.4f}\t{word}")
