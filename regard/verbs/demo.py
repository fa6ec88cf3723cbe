"""`regard demo`: from nothing to a model that does something, in a few minutes, with a picture.

A demonstration is a recipe of an embedded corpus, and a picture of what its model does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from regard import front, plots, runs
from regard.console.shell import command, quoted
from regard.data import catalogue
from regard.decoding.prediction import Prediction
from regard.decoding.translation import cross_attention
from regard.examples.stored import collate
from regard.plots import drawing, pictured, sound
from regard.recipe import checked
from regard.runs import Run, state
from regard.verbs import display

SAMPLES = 10
QUICK = (
    "train.epochs=8", "train.validate_every=0.25", "train.save_every=0.25", "train.average=1",
)  # fmt: skip
"""What scenes teach in three minutes; the few checkpoints are too unlike for a mean."""
COMPARED = 8
"""Pictures and captions of the matrix that is drawn."""
Languages = Literal["en-de", "en-fr"]
Name = Literal["translate", "transcribe", "caption", "contrast"]
Draw = Callable[[front.Predictor, str, Prediction, Path], None]
"""A picture of what a model does with an input, of which it made the prediction."""


@dataclass(frozen=True)
class Demo:
    """One demonstration."""

    name: str
    """Of its run: demo-NAME."""
    recipe: str
    dataset: str
    making: str
    """What is done before anything is trained."""
    using: str
    """What is done with the trained model."""
    picture: str
    shows: str
    """What the picture shows."""
    draw: Draw
    next: Callable[[Path, str], list[str]]
    """What to try next, with the run and an input of it."""
    changes: tuple[str, ...] = ()
    """Of the recipe, so that it takes three minutes."""


def of(name: Name, languages: Languages) -> Demo:
    """The demonstration of a task."""
    if name == "transcribe":
        return Demo(
            name="transcribe",
            recipe="tones",
            dataset="tones",
            making="synthesising tones",
            using="listening to sounds that it has never heard",
            picture="spectrogram.png",
            shows="what was heard where",
            draw=draw_spectrogram,
            next=lambda folder, source: [
                f"{command('predict', folder)} {quoted(source)} --format jsonl",
                "regard train tones model.encoder.kind=transformer",
                "regard data get fsdd-strings && regard train fsdd-strings    # real voices",
            ],
        )
    if name == "caption":
        return Demo(
            name="caption",
            recipe="scenes-lstm",
            dataset="scenes",
            making="drawing scenes",
            using="describing scenes whose pairs of shapes it has never seen",
            picture="attention.png",
            shows="where each word looks",
            draw=draw_words,
            next=lambda folder, source: [
                f"{command('predict', folder)} {quoted(source)} --nbest 3 --format jsonl",
                f"{command('inspect', folder)} {quoted(source)}",
                "regard train scenes-lstm        # until nearly all are right",
            ],
            changes=QUICK,
        )
    if name == "contrast":
        return Demo(
            name="contrast",
            recipe="scenes-clip",
            dataset="scenes",
            making="drawing scenes",
            using="comparing scenes and captions that it has never seen",
            picture="similarities.png",
            shows="what is near what",
            draw=draw_similarities,
            next=lambda folder, source: [
                f"printf 'red\\nblue\\n' > choices.txt && {command('predict', folder)} "
                f"{quoted(source)} --choices choices.txt --format jsonl",
                "regard data get scenes-18000 && regard train scenes-clip   # until most are found",
            ],
            changes=QUICK,
        )
    return Demo(
        name=languages,
        recipe="phrasebook",
        dataset=f"phrasebook-{languages}",
        making="writing the phrasebook",
        using="translating sentences that it has never seen",
        picture="attention.png",
        shows="what it attended to",
        draw=draw_attention,
        next=lambda folder, source: [
            f"echo {quoted(source)} | {command('predict', folder)} --format jsonl",
            "regard demo --languages en-fr",
            "regard train phrasebook model.dim=64        # what does a smaller model lose?",
        ],
    )


def demo(languages: Languages, to: Path | None, *, as_json: bool, name: Name = "translate") -> bool:
    """Train on an embedded corpus, score it, show samples and a picture, say what to try next.

    False if it was interrupted.
    """
    chosen = of(name, languages)
    with display.waiting(chosen.making):
        catalogue.get(chosen.dataset)
    for record in [] if to else state.check_rerun(f"demo-{chosen.name}", (), "demo"):
        display.warn(record["text"])
    folder = to or state.free_folder(f"demo-{chosen.name}")
    _, recipe = front.prepared(
        chosen.recipe, [f"data.set={chosen.dataset}", *chosen.changes], folder
    )
    with display.waiting(f"preparing the data in {folder}"):
        run = Run.create(folder, recipe)
    with display.training(run) as (show, tick):
        progress = runs.train(run, [show], tick)
    if not progress.finished:
        display.summary(run, progress)
        return False
    predictor = front.Predictor(run)
    with display.waiting(chosen.using):
        scores, predictions = predictor.evaluate("test")
    sources, answers = front.answers(predictor.task, "test")
    samples = [
        {"source": s, "output": p.text, "reference": _nearest(p.text, a)}
        for s, p, a in zip(sources, predictions, answers, strict=True)
    ][:SAMPLES]
    picture = folder / chosen.picture
    chosen.draw(predictor, sources[0], predictions[0], picture)
    if as_json:
        table = {n: {"score": s.value, "signature": s.signature} for n, s in scores.items()}
        result = {"run": str(folder), "scores": table, "samples": samples, "picture": str(picture)}
        print(checked.written(result))
    else:
        _show(chosen, folder, scores, samples, picture)
    return True


def _nearest(said: str, answers: str | list[str]) -> str:
    """The reference; of several, the one that was said, or else the first."""
    every = [answers] if isinstance(answers, str) else answers
    return said if said in every else every[0]


def draw_attention(
    predictor: front.Predictor, source: str, prediction: Prediction, path: Path
) -> None:
    """The mean over heads of the attention to the source, one panel per layer."""
    task: Any = predictor.task
    pairs = ((task.source, source), (task.target, prediction.text))
    rows = [field.encode([side]) for field, side in pairs]
    row = {**rows[0][0], **rows[1][0]}
    batch = collate([task.source, task.target], [row], [0])
    with torch.inference_mode():
        seen = cross_attention(predictor.model, batch)
    layers = torch.stack([weights[0].mean(0) for weights in seen.values()])  # (layers, T, S)
    title = "What each decoder layer attended to, mean over its heads"
    sides = task.source.positions(row), task.target.positions(row)
    drawing.save(plots.attention(layers.numpy(), *sides, title), path)


def draw_spectrogram(
    predictor: front.Predictor, source: str, prediction: Prediction, path: Path
) -> None:
    """What the model reads of a sound, with the letters where CTC places them."""
    field = next(iter(predictor.task.fields.values()))
    frames = field.frames(field.encode([field.parse(source)])[0])
    title = f"{Path(source).name}: {prediction.text}"
    hop = field.config.features.hop
    drawing.save(sound.spectrogram(frames, hop, prediction.tokens, prediction.times, title), path)


def draw_words(predictor: front.Predictor, source: str, prediction: Prediction, path: Path) -> None:
    """What the decoder looked at for each word, the mean over heads and layers."""
    task: Any = predictor.task
    translator = task.translator
    [row], tokens = translator.read([source]), task.target.tokenizer.encode([prediction.text])
    with torch.inference_mode():
        seen = cross_attention(predictor.model, translator.batch([row], tokens))
    mean = torch.stack([weights[0].mean(0) for weights in seen.values()]).mean(0)  # (T, S)
    reads: Any = predictor.model.input
    rows, columns = reads.grid
    words = task.target.tokenizer.pieces(tokens[0])
    grids = mean[: len(words), -rows * columns :].reshape(-1, rows, columns)
    pixels = task.source.pixels(source)
    drawing.save(pictured.attended(pixels, words, grids.numpy(), prediction.text), path)


def draw_similarities(
    predictor: front.Predictor, source: str, prediction: Prediction, path: Path
) -> None:
    """How much alike the first pictures of the test and their captions are."""
    task: Any = predictor.task
    sides = [side[:COMPARED] for side in task.references("test")]
    both = [task.matcher.of_texts(predictor.model, n, texts) for n, texts in enumerate(sides)]
    values = (both[0] @ both[1].t()).numpy()
    pictures = [task.source.pixels(place) for place in sides[0]]
    title = "What belongs together stands on the diagonal"
    drawing.save(pictured.similarities(pictures, sides[1], values, title), path)


def _show(
    chosen: Demo, folder: Path, scores: Any, samples: list[dict[str, str]], picture: Path
) -> None:
    say = display.results.print
    say(f"\n{SAMPLES} of the test's examples, none of which it was trained on:\n")
    for sample in samples:
        right = sample["output"] == sample["reference"]
        say(f"  {sample['source']}\n  → {sample['output']}")
        if not right:
            say(f"    (right: {sample['reference']})")
    say("")
    display.scores(folder, "test", scores, None, as_json=False)
    hints = [*chosen.next(folder, samples[0]["source"]), "regard data list      # real data sets"]
    listed = "\n".join(f"  {hint}" for hint in hints)
    say(
        f"\n{chosen.shows + ':':<23}{picture}\n"
        f"learning curves:       {folder / 'curves.png'}\n\n"
        f"Try next:\n{listed}"
    )
