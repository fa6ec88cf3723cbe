"""ONNX: a computation as a graph that onnxruntime runs, also in numbers of 8 bits.

A graph is traced: what torch computes for an example is written down, operation by operation. So
the example has padding and several rows, and what is written is compared with the original on
other rows and lengths before anybody gets it.
"""

import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.position import PositionalEncoding, Rotary, sinusoid

OPSET = 18
"""The oldest version of ONNX's operations that has all that is needed (bits of integers): most
runtimes know it."""
NARROW = ["MatMul", "Gather", "LSTM"]
"""Operations whose weights become int8."""
LIBRARIES = {"onnx": "onnx", "onnxruntime": "onnxruntime"}
Arrays = Mapping[str, NDArray[Any]]


@cache
def missing() -> str | None:
    """Why nothing can be written as ONNX here, and what to do; None if it can."""
    for name in LIBRARIES:
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed: pip install onnx onnxruntime"
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:  # made for another system, or a part of it is gone
            return f"{name} cannot be loaded ({error}): pip install --force-reinstall {name}"
    return None


class Graph(nn.Module):
    """A part of a model as a function of named tensors, with an example of them.

    Axes of the inputs that have a name here may be of any length; an output's are free, too.
    """

    inputs: dict[str, Tensor]
    axes: dict[str, dict[int, str]]
    outputs: dict[str, dict[int, str]]


def write(graph: Graph, path: Path) -> None:
    """Trace a graph into a file."""
    with torch.no_grad(), warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")  # what is fixed while tracing is checked afterwards
        try:
            torch.onnx.export(
                graph.eval(),
                tuple(graph.inputs.values()),
                str(path),
                input_names=[*graph.inputs],
                output_names=[*graph.outputs],
                dynamic_axes={**graph.axes, **graph.outputs},
                opset_version=OPSET,
                dynamo=False,
            )
        except UserError:
            raise
        except Exception as error:  # any part may have what ONNX lacks
            what = str(error).strip().splitlines()
            raise UserError(
                f"the model has a part that cannot be written as ONNX: {what[0] if what else error}"
            ) from error


class Session:
    """A graph at work: arrays by name in, arrays out."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the library has kinds of errors of its own
            raise UserError(f"onnxruntime cannot read {path.name}: {error}") from error
        self.shapes = {each.name: each.shape for each in self._session.get_inputs()}
        self.inputs = list(self.shapes)
        self.outputs = [each.name for each in self._session.get_outputs()]

    def __call__(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        given = {name: arrays[name] for name in self.inputs}
        try:
            found = self._session.run(None, given)
        except Exception as error:
            raise UserError(f"the exported model cannot be run: {error}") from error
        return dict(zip(self.outputs, found, strict=True))


def narrow(path: Path) -> None:
    """Round the weights of a file to int8; what they are multiplied with is rounded as it comes.

    Weights take 7 of the 8 bits: older x86 processors add two products in 16 bits.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = path.with_name(f"whole-{path.name}")
    path.rename(whole)
    with _quiet():
        quantize_dynamic(
            whole,
            path,
            op_types_to_quantize=NARROW,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
        )
    whole.unlink()


def lengthen(model: nn.Module, length: int) -> None:
    """Make tables of positions that can be computed as long as inputs may be: a graph has no
    other."""
    for part in model.modules():
        if isinstance(part, PositionalEncoding) and part.kind == "sinusoidal":
            if len(part.table) < length:
                part.table = sinusoid(length, part.dim, part.layout)
        elif isinstance(part, Rotary) and len(part.sin) < length:
            part._set(length)


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def size(paths: Sequence[Path]) -> float:
    """Megabytes."""
    return sum(path.stat().st_size for path in paths) / 1e6


def far(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference; infinite where one is not a number."""
    with np.errstate(invalid="ignore"):
        found = float(np.abs(np.asarray(ours, float) - theirs).max(initial=0.0))
    return found if found == found else float("inf")


@contextmanager
def _quiet() -> Iterator[None]:
    """Libraries say much of their own matters."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
