"""`regard demo`: from nothing to a translator in a few minutes, with what it attended to."""

from pathlib import Path
from typing import Any, Literal

import torch

from regard import front, plots, runs
from regard.console.shell import command, quoted
from regard.data import catalogue
from regard.decoding.translation import cross_attention
from regard.examples.stored import collate
from regard.plots import drawing
from regard.recipe import checked
from regard.runs import Run, state
from regard.verbs import display

SAMPLES = 10


def demo(languages: Literal["en-de", "en-fr"], to: Path | None, *, as_json: bool) -> bool:
    """Train on the phrasebook, score it, show samples and a picture, say what to try next.

    False if it was interrupted.
    """
    name = f"phrasebook-{languages}"
    with display.waiting("writing the phrasebook"):
        catalogue.get(name)
    for record in [] if to else state.check_rerun(f"demo-{languages}", (), "demo"):
        display.warn(record["text"])
    folder = to or state.free_folder(f"demo-{languages}")
    _, recipe = front.prepared("phrasebook", [f"data.set={name}"], folder)
    with display.waiting(f"preparing the data in {folder}"):
        run = Run.create(folder, recipe)
    with display.training(run) as (show, tick):
        progress = runs.train(run, [show], tick)
    if not progress.finished:
        display.summary(run, progress)
        return False
    predictor = front.Predictor(run)
    with display.waiting("translating sentences that it has never seen"):
        scores, predictions = predictor.evaluate("test")
    sources, references = predictor.task.references("test")
    samples = [
        {"source": s, "output": p.text, "reference": r}
        for s, p, r in zip(sources, predictions, references, strict=True)
    ][:SAMPLES]
    picture = folder / "attention.png"
    draw_attention(predictor, sources[0], predictions[0].text, picture)
    if as_json:
        table = {n: {"score": s.value, "signature": s.signature} for n, s in scores.items()}
        result = {"run": str(folder), "scores": table, "samples": samples, "picture": str(picture)}
        print(checked.written(result))
    else:
        _show(folder, scores, samples, picture)
    return True


def draw_attention(predictor: front.Predictor, source: str, target: str, path: Path) -> None:
    """The mean over heads of the attention to the source, one panel per layer."""
    task: Any = predictor.task
    rows = [field.encode([side]) for field, side in ((task.source, source), (task.target, target))]
    row = {**rows[0][0], **rows[1][0]}
    batch = collate([task.source, task.target], [row], [0])
    with torch.inference_mode():
        seen = cross_attention(predictor.model, batch)
    layers = torch.stack([weights[0].mean(0) for weights in seen.values()])  # (layers, T, S)
    title = "What each decoder layer attended to, mean over its heads"
    sides = task.source.positions(row), task.target.positions(row)
    drawing.save(plots.attention(layers.numpy(), *sides, title), path)


def _show(folder: Path, scores: Any, samples: list[dict[str, str]], picture: Path) -> None:
    say = display.results.print
    say(f"\n{SAMPLES} of the test's sentences, none of which it was trained on:\n")
    for sample in samples:
        right = sample["output"] == sample["reference"]
        say(f"  {sample['source']}\n  → {sample['output']}")
        if not right:
            say(f"    (right: {sample['reference']})")
    say("")
    display.scores(folder, "test", scores, None, as_json=False)
    say(
        f"\nwhat it attended to:   {picture}\n"
        f"learning curves:       {folder / 'curves.png'}\n\n"
        "Try next:\n"
        f"  echo {quoted(samples[0]['source'])} | {command('predict', folder)} --format jsonl\n"
        f"  regard demo --languages en-fr\n"
        f"  regard train phrasebook model.dim=64        # what does a smaller model lose?\n"
        f"  regard data list                            # real data sets, and recipes for them",
    )
