"""A run as a folder that the transformers library loads: config.json, model.safetensors and
tokenizer.json. What was written is read again by `importing` and must say the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer as Library
from torch import Tensor

from regard import __version__
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.fields import dialogue
from regard.fields.text import Tokenised
from regard.interop import (
    chat_templates,
    families,
    image_folders,
    importing,
    label_folders,
    pair_folders,
    sentencepiece,
)
from regard.interop.alone import alone
from regard.interop.families import Table
from regard.interop.folders import WEIGHTS
from regard.interop.kept import check_free, whole
from regard.interop.onnx import far
from regard.interop.running import write_texts
from regard.layers.position import turned_numbers
from regard.model import Model
from regard.recipe import checked
from regard.runs import Run

TOLERANCE = 1e-4
"""How far a logit of what is read again may be from the original's."""
ROWS, LENGTH = 3, 17
KINDS = (
    "transformer",
    "vocabulary",
    "masked",
    "tokens",
    "labels",
    "tags",
    "patches",
    "decoder",
    "contrast",
)
"""The kinds of parts that any family has."""
NAMES = {"start": "bos_token", "end": "eos_token", "unknown": "unk_token", "pad": "pad_token"}
FRAMES = {"start": "cls_token", "end": "sep_token", "mask": "mask_token"}


class Exported(NamedTuple):
    """What was written, and how near it is."""

    family: str
    difference: float
    megabytes: float

    def __str__(self) -> str:
        return (
            f"{self.family}; read again, its logits differ by at most {self.difference:.1g}; "
            f"{self.megabytes:.1f} MB"
        )


def export(run: Run, folder: Path, which: str = "final") -> Exported:
    """Write a folder that the transformers library loads."""
    check_free(folder)
    name, family, settings = family_of(run)
    model = run.model(which)
    if of_pictures(run):
        return _export_images(run, model, name, settings, folder)
    if run.recipe.kind == "contrast":
        return _export_pairs(run, model, name, settings, folder)
    by = _texts(run)[-1].tokenizer
    try:
        with whole(folder) as writing:
            tensors = dict(_weights(family, model, run))
            save_file(tensors, writing / WEIGHTS, metadata={"format": "pt"})
            _write_tokenizers(run, by, writing)
            _write_generation(run, by, writing)
            about = _about(name, family, by, run) | settings
            about |= chat_templates.kept([*run.task.fields.values()][-1]) | _labels(run)
            write_texts(writing, {"config.json": checked.written(about, indent=1)})
            off = _difference(model, writing, min(LENGTH, longest(run)), len(by))
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None
    size = sum(tensor.numel() * 4 for tensor in tensors.values()) / 1e6
    return Exported(name, off, size)


def _texts(run: Run) -> list[Tokenised]:
    """The fields that a tokenizer cuts."""
    return [field for field in run.task.fields.values() if isinstance(field, Tokenised)]


def _labels(run: Run) -> Table:
    """What config.json says of a run's labels, if it has any."""
    if run.recipe.kind not in importing.LABELLED:
        return {}
    names = [*run.task.fields.values()][-1].learnt.names
    return label_folders.about(names, several=run.recipe.task.labels.kind == "several")


def of_pictures(run: Run) -> bool:
    return run.recipe.kind == "classify" and run.recipe.task.source.kind == "image"


def _export_images(run: Run, model: Model, name: str, settings: Table, folder: Path) -> Exported:
    """A model that labels pictures."""
    family: Any = families.find(name)
    source = next(iter(run.task.fields.values()))
    about = image_folders.about(source, family.ARCHITECTURE) | _labels(run) | settings
    files = {"config.json": about, image_folders.PROCESSOR: image_folders.processor(source)}
    try:
        with whole(folder) as writing:
            tensors = dict(_weights(family, model, run))
            save_file(tensors, writing / WEIGHTS, metadata={"format": "pt"})
            write_texts(writing, {n: checked.written(each, indent=1) for n, each in files.items()})
            again, pixels = importing.read(writing).model(), image_folders.drawn(source)
            with torch.inference_mode():
                both = [image_folders.logits(each, pixels).numpy() for each in (model, again)]
            off = _near(*both)
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None
    return Exported(name, off, sum(tensor.numel() * 4 for tensor in tensors.values()) / 1e6)


def _export_pairs(run: Run, model: Model, name: str, settings: Table, folder: Path) -> Exported:
    """A model of pictures and texts."""
    family: Any = families.find(name)
    fields = [*run.task.fields.values()]
    files = pair_folders.about(fields, settings, family.ARCHITECTURE)
    try:
        with whole(folder) as writing:
            tensors = dict(pair_folders.weights(family, model, run.recipe.model.scale))
            save_file(tensors, writing / WEIGHTS, metadata={"format": "pt"})
            _write_tokenizers(run, fields[1].tokenizer, writing)
            write_texts(writing, {n: checked.written(each, indent=1) for n, each in files.items()})
            again, given = importing.read(writing).model(), pair_folders.drawn(fields)
            with torch.inference_mode():
                both = [pair_folders.logits(each, *given).numpy() for each in (model, again)]
            off = _near(*both)
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None
    return Exported(name, off, sum(tensor.numel() * 4 for tensor in tensors.values()) / 1e6)


def family_of(run: Run) -> tuple[str, Any, Table]:
    """The family that has a run's shape, with its head, and its settings."""
    recipe, reasons = run.recipe, []
    known = _families(run)
    if not known:
        raise UserError(f"{run.folder}: the task is {recipe.kind!r}, which no family there has")
    for key, part in recipe.model.parts().items():
        if not key.startswith("heads.") and part.kind not in KINDS:
            raise UserError(f"{run.folder}: no family there has a part of kind {part.kind!r}")
    head = recipe.model.head
    if recipe.kind == "language_model" and head is not None and head.config.bias:
        raise UserError(
            f"{run.folder}: model.head.bias is true: language models there have no bias of each "
            "token; train with model.head.bias = false"
        )
    if recipe.kind == "tag":
        _check_tags(run)
    tied = recipe.kind in ("language_model", "masked_language_model")
    if tied and recipe.model.scale and recipe.model.tie != "none":
        raise UserError(
            f"{run.folder}: model.scale is true: there, a tied embedding is not scaled by √dim; "
            "train with model.scale = false, or model.tie = 'none'"
        )
    for name, family in known:
        try:
            return name, family, family.settings(recipe.model, longest(run))
        except UserError as error:
            reasons.append(f"{name}: {error}")
    # What a head differs in is known of the family alone that has all else.
    reasons = [why for why in reasons if "model.head." in why] or reasons
    raise UserError(f"{run.folder} has the shape of no family there: {'; '.join(reasons)}")


def _check_tags(run: Run) -> None:
    """Refuse tags that no family there has."""
    task = run.recipe.task
    for key, found, wanted in [
        ("labels.kind", task.labels.kind, "tags"),
        ("unit", task.unit, "words"),
        ("framed", task.framed, True),
    ]:
        if found != wanted:
            said = "true" if wanted is True else repr(wanted)
            raise UserError(
                f"{run.folder}: {key} is {str(found).lower() if wanted is True else repr(found)}: "
                f"there, words of a sentence between two special tokens have tags; train with "
                f"{key} = {said}"
            )


def _families(run: Run) -> list[tuple[str, Any]]:
    """Those that do what a run does, by their names."""
    return [
        (name, form)
        for name in families.known()
        for form in families.forms(families.find(name))
        if run.recipe.kind == form.TASK
        and (form.TASK == "contrast" or families.reads_text(form) != of_pictures(run))
    ]


def longest(run: Run) -> int:
    """Positions that texts of a run have."""
    parts = run.recipe.model.parts()
    if of_pictures(run) or run.recipe.kind == "contrast":
        return 0
    there = [parts[name].config for name in ("encoder", "decoder") if name in parts]
    return min((int(config.limit) for config in there), default=0)


def _about(name: str, family: Any, by: Tokenizer, run: Run) -> Table:
    return {
        "architectures": [family.ARCHITECTURE],
        "model_type": name,
        "vocab_size": len(by),
        **_ends(run, by),
        "tie_word_embeddings": run.recipe.model.tie != "none",
        "dtype": "float32",
        "regard": __version__,
    }


def _weights(family: Any, model: Model, run: Run) -> Iterator[tuple[str, Tensor]]:
    """Their names and tensors."""
    parts = run.recipe.model.parts()
    # Further heads, as BERT's for next sentences, are left out.
    own = {n: p for n, p in model.named_parameters() if not n.startswith("heads.")}
    own = {n: p for n, p in own.items() if n not in label_folders.left_out(model)}
    for name, places, form in families.layers(family, iter(own)):
        part = parts[
            "decoder" if name.startswith("decoder.") or "encoder" not in parts else "encoder"
        ]
        tensor, config = label_folders.cooled(name, own[name].detach(), model), part.config
        scaled = run.recipe.model.scale and run.recipe.kind != "translate"
        if name.endswith("embedding.weight") and scaled:
            tensor = tensor * run.recipe.model.dim**0.5
        sizes = _sizes(config, run.recipe.model.dim) if ".query_key_value." in name else None
        if sizes and config.position == "rotary" and config.rotary_layout == "interleaved":
            tensor = _in_halves(tensor, sizes, config, run.recipe.model.dim)
        tensor = families.theirs(tensor, form, config.heads)
        rows = sizes if sizes and len(places) == 3 else len(tensor) // len(places)
        several = torch.split(tensor, rows)
        if name in family.NAMES:  # a weight by itself, which they have under all of its names
            places = [*places, *family.NAMES[name].instead]
            several = (tensor,) * len(places)
        yield from (
            (place, each.clone(memory_format=torch.contiguous_format))
            for place, each in zip(places, several, strict=True)
        )


def _sizes(config: Any, dim: int) -> list[int]:
    """Rows of queries, keys and values."""
    shared = dim // config.heads * (config.key_value_heads or config.heads)
    return [dim, shared, shared]


def _in_halves(tensor: Tensor, sizes: list[int], config: Any, dim: int) -> Tensor:
    """Queries and keys whose pairs of neighbours become pairs of both halves of a head."""
    width = dim // config.heads
    turned = turned_numbers(width, config.rotary_fraction)
    order = [*range(0, turned, 2), *range(1, turned, 2), *range(turned, width)]
    query, key, value = torch.split(tensor, sizes)
    query, key = (
        each.reshape(-1, width, *each.shape[1:])[:, order].reshape(each.shape)
        for each in (query, key)
    )
    return torch.cat([query, key, value])


def _write_tokenizers(run: Run, by: Tokenizer, folder: Path) -> None:
    """The tokenizer by itself, or that of each side, and which of its tokens are special."""
    masked = "mask" in by.named
    fields = run.task.fields.items()
    sides = {side: field.tokenizer for side, field in fields if isinstance(field, Tokenised)}
    first = next(iter(sides.values()))
    both = sentencepiece.for_both(first.json, len(by)) if first.imported else ""
    several = bool(both) or len({each.hash for each in sides.values()}) > 1
    if both:
        write_texts(folder, {"tokenizer.json": both})
    for side, each in sides.items():
        path = folder / (f"{side}.tokenizer.json" if several else "tokenizer.json")
        if each.imported:
            each.save(path)
        else:
            before = [] if run.recipe.kind == "translate" else [each.start]
            ended = masked or run.recipe.kind in ("translate", "contrast", *importing.LABELLED)
            after = [each.end] if ended else []
            alone(each, path, before=before, after=after)
    answers = [*run.task.fields.values()][-1]
    form = answers.form if isinstance(answers, dialogue.Side) else None
    if form is not None and not by.imported:
        _mark_special(by, folder / "tokenizer.json")
    spelt = {name: by.spelling_of(number) for name, number in by.named.items()}
    keys = NAMES | FRAMES if masked else NAMES
    given = {key: spelt[name] for name, key in [*NAMES.items(), *FRAMES.items()] if name in spelt}
    table = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    table |= {key: piece for key, piece in given.items() if key in keys.values()}
    if form is not None:
        table["chat_template"] = chat_templates.written(form, by)
    write_texts(folder, {"tokenizer_config.json": checked.written(table, indent=1)})


def _write_generation(run: Run, by: Tokenizer, folder: Path) -> None:
    """What `generate` must know to write as the run does."""
    if run.recipe.kind not in ("language_model", "translate"):
        return
    answers = [*run.task.fields.values()][-1]
    form = answers.form if isinstance(answers, dialogue.Side) else None
    ends = [by.end, form.end] if form is not None and form.end != by.end else by.end
    table: Table = _ends(run, by) | {"eos_token_id": ends}
    if by.unwritten:
        table["bad_words_ids"] = [[number] for number in by.unwritten]
    search = run.recipe.task.search
    if search.kind == "beam":
        how = search.config
        table |= {"num_beams": how.beams, "length_penalty": how.length_penalty}
        table["early_stopping"] = how.beams > 1
    if run.recipe.kind == "translate":
        table["max_length"] = longest(run)
    write_texts(folder, {"generation_config.json": checked.written(table, indent=1)})


def _ends(run: Run, by: Tokenizer) -> Table:
    """What begins, ends and fills up a text."""
    first = "decoder_start_token_id" if run.recipe.kind == "translate" else "bos_token_id"
    pad = by.pad if by.pad != by.end else None
    return {first: by.start, "eos_token_id": by.end, "pad_token_id": pad}


def _mark_special(by: Tokenizer, path: Path) -> None:
    """A template is text there: its special tokens are found by how they are spelt."""
    library = Library.from_file(str(path))
    pieces = [by.spelling_of(number) for number in sorted(by.special)]
    library.add_special_tokens([AddedToken(p, special=True, normalized=False) for p in pieces])
    library.save(str(path))


def _difference(model: Model, folder: Path, length: int, outputs: int) -> float:
    """max |logit − logit′| of the original and of what is read again, for random tokens."""
    again = importing.read(folder).model()
    chance = torch.Generator().manual_seed(1)
    tokens = torch.randint(outputs, (ROWS, length), generator=chance)
    with torch.inference_mode():
        both = [importing.logits(each, tokens).numpy() for each in (model, again)]
    return _near(*both)


def _near(one: NDArray[Any], other: NDArray[Any]) -> float:
    """max |x − x′|, which must be small."""
    off = far(one, other)
    if not off <= TOLERANCE:
        raise UserError(
            f"what was written is not the original: logits differ by {off:.2g}. Nothing is kept"
        )
    return off
