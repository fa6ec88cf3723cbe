"""Graphs put together: traced ones, a few nodes around them, loops over steps.

Nodes are written as ONNX writes them: `y = Operation <attribute = value> (x)`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Form = tuple[str, Sequence[str | int]]
"""The type of a value and its shape, in which names stand for any length."""


class Carried(NamedTuple):
    """What a loop hands on from step to step."""

    kind: str
    first: str
    """What it is before the first step, a value outside of the loop."""
    after: str
    """What it is after a step, a value inside."""


class Assembly:
    """Nodes, and the constants that they read."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.domains: dict[str, Any] = {}
        self.version = 0

    def file(self, path: Path, prefix: str, **given: str) -> None:
        """Add the graph of a file. Its names get a prefix; its inputs are the values given."""
        import onnx
        from onnx import compose, helper

        model = onnx.load(str(path))
        graph = compose.add_prefix_graph(model.graph, prefix)
        for name, value in given.items():
            self.nodes.append(helper.make_node("Identity", [value], [prefix + name]))
        self.nodes += graph.node
        self.constants += graph.initializer
        self._needs({each.domain: each for each in model.opset_import}, model.ir_version)

    def _needs(self, domains: Mapping[str, Any], version: int) -> None:
        self.domains, self.version = {**self.domains, **domains}, max(self.version, version)

    def add(self, text: str, **constants: Any) -> None:
        """Add nodes, one a line, and constants by name."""
        from onnx import helper, numpy_helper, parser

        self.nodes += [parser.parse_node(line.strip()) for line in text.strip().splitlines()]
        for name, value in constants.items():
            array = np.asarray(value)
            array = array.astype(np.int64) if array.dtype.kind == "i" else array
            if array.dtype.kind == "U":
                texts = [each.encode() for each in array.flat]
                made = helper.make_tensor(name, KINDS["string"], array.shape, texts)
            else:
                made = numpy_helper.from_array(array, name)
            self.constants.append(made)

    def loop(
        self, body: "Assembly", trips: str, carried: Mapping[str, Carried], kept: Mapping[str, Form]
    ) -> None:
        """Repeat a body, which knows its step as `i` and says whether it is `going` on. Of what is
        `kept`, all steps are there afterwards, as `all_…`."""
        from onnx import helper

        before = [_value("i", "int64", []), _value("went", "bool", [])]
        after = [_value("going", "bool", [])]
        before += [_value(name, each.kind) for name, each in carried.items()]
        after += [_value(each.after, each.kind) for each in carried.values()]
        after += [_value(name, *form) for name, form in kept.items()]
        graph = helper.make_graph(body.nodes, "step", before, after, body.constants)
        given = [trips, "always", *(each.first for each in carried.values())]
        found = [f"{each}_{name}" for each, names in (("last", carried), ("all", kept))
                 for name in names]  # fmt: skip
        self.add("", always=True)
        self.nodes.append(helper.make_node("Loop", given, found, body=graph))
        self._needs(body.domains, body.version)

    def write(self, path: Path, inputs: Mapping[str, Form], outputs: Mapping[str, Form]) -> None:
        """A file of it."""
        import onnx
        from onnx import helper

        read, given = (
            [_value(name, *form) for name, form in side.items()] for side in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, "model", read, given, self.constants)
        domains = [*self.domains.values()]
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=self.version), path)


KINDS = {"float": 1, "int64": 7, "string": 8, "bool": 9, "double": 11}
"""Their numbers in ONNX."""


def _value(name: str, kind: str, shape: Sequence[str | int] | None = None) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, KINDS[kind], shape)


def add_names(path: Path, output: str, names: Sequence[str], by: str = "") -> None:
    """Give the graph of a file an output of names: those that its numbers `by` stand for, or all
    of them."""
    import onnx

    model, made = onnx.load(path), Assembly()
    node = f"{output} = Gather (names, {by})" if by else f"{output} = Identity (names)"
    made.add(node, names=[*names])
    model.graph.node.extend(made.nodes)
    model.graph.initializer.extend(made.constants)
    shapes = {each.name: each.type.tensor_type.shape.dim for each in model.graph.output}
    inner = ["words", *(f"{output}_{n}" for n in range(1, len(shapes.get(by, ()))))]
    model.graph.output.append(_value(output, "string", inner if by else [len(names)]))
    onnx.save(model, path)


def name_inputs(path: Path, names: Sequence[str]) -> None:
    """Give the inputs of a file any names; outputs keep theirs unless an input has it."""
    import onnx
    from onnx import compose, helper

    model = onnx.load(path)
    known = {each.name: f"regard/{each.name}" for each in model.graph.initializer}  # also to loops
    graph = compose.add_prefix_graph(model.graph, "regard/", name_map=known)
    pairs = list(zip(graph.input, names, strict=True))
    first = [helper.make_node("Identity", [name], [value.name]) for value, name in pairs]
    for value, name in pairs:
        value.name = name
    nodes = [*first, *graph.node]
    for value in graph.output:
        plain = value.name.removeprefix("regard/")
        if plain not in names:
            nodes.append(helper.make_node("Identity", [value.name], [plain]))
            value.name = plain
    del graph.node[:]
    graph.node.extend(nodes)
    model.graph.CopyFrom(graph)
    onnx.save(model, path)
