"""The verbs that bring models in and out: import, export."""

from pathlib import Path

from tyro.conf import Positional

from regard.interop import Form
from regard.verbs.common import (
    Checkpoint,
    Flag,
    Folder,
    Parts,
    Quantization,
    add_parts,
    own_process,
    say,
    unfinished_key,
)
from regard.verbs.vectors import export as export_vectors, is_vectors


def import_(source: Positional[str], run: Positional[Path], *, json: Flag = False) -> None:
    """Make an ordinary run of somebody else's model: a folder of Hugging Face, or its name there.

    Examples:
      regard import ~/models/gpt2 runs/gpt2
      regard import EleutherAI/pythia-70m runs/pythia
      regard import ./bert-base-uncased runs/bert --json

    Args:
        source: A folder with config.json, tokenizer.json and safetensors; or the name of one on the
            hub, where there is a network (pip install "regard[hub]").
        run: The new folder.
        json: Machine-readable output on stdout.
    """
    from regard.interop import hub, importing
    from regard.verbs import display

    own_process()
    with display.waiting(f"writing {run}"):
        made = importing.run(hub.folder(source), run, display.warn)
    model = made.model()
    made_of = {"folder": str(run), "task": made.recipe.kind, "parameters": model.size()}
    if json:
        say(made_of)
    else:
        print(f"{run}: {made.recipe.kind}, {model.size():,} parameters")


import_.__name__ = "import"  # which no function can be called in Python


def export(
    run: Positional[Folder],
    folder: Positional[Path],
    *,
    to: Form = "auto",
    quantization: Quantization = "float32",
    shortlist: Flag = False,
    checkpoint: Checkpoint = "final",
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Write a model of texts, numbers or series as a folder that runs without regard, and check
    that it says the same.

    Of pictures, ViT that labels them and CLIP can be written with --to huggingface; captions,
    transcriptions and other models of pictures and sounds cannot.

    Examples:
      regard export runs/mine shipped
      regard export runs/mine shipped --to onnx
      regard export runs/mine shipped --quantization int8
      regard export runs/mine shipped --to huggingface
      regard export runs/vectors vectors.bin --to word2vec

    Args:
        folder: The new folder; its README.md says how to use it, with a program. Of word vectors, a
            file: .bin in word2vec's binary form, .txt or .vec in its text form.
        to: The form: onnx for texts, numbers and series (runs with onnxruntime), ctranslate2 for
            Transformers that translate (faster, with beam search); huggingface for Transformers
            that have the shape of a known family (loaded by transformers), word2vec for word
            vectors; auto takes ctranslate2 where it can, and else onnx.
        quantization: The numbers that it computes with; others than float32 are smaller and faster,
            and the score that they cost on the validation part is measured. ONNX has float32 and
            int8.
        shortlist: Add a list of the likely words for each word (ctranslate2): faster, as good, but
            a sentence's output can depend on those beside it.
        json: Machine-readable output on stdout.
    """
    if is_vectors(run):
        export_vectors(run, folder, to, as_json=json)
        return
    from dataclasses import asdict

    from regard.interop.shipping import ship
    from regard.runs import Run, state
    from regard.verbs import display

    add_parts(parts)
    own_process()
    opened = Run(run)
    unfinished = state.unfinished_at(opened, checkpoint)
    display.unfinished(unfinished)
    with display.waiting(f"writing {folder}"):
        found = ship(opened, folder, to, quantization, checkpoint, shortlist=shortlist)
    for line in found.warnings:
        display.warn(f"{folder}: {line}")
    if json:
        say({"folder": str(folder), **asdict(found), **unfinished_key(unfinished)})
    else:
        print(f"{folder}: {found.to}, {quantization}: {found.said}")
        if found.cost and not found.cost.worse:
            print(found.cost)
