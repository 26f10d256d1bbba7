"""A large model run in pieces: what ONNX Runtime takes to open a model grows faster than its nodes.

Each piece is a run of nodes as they stand in the model. Its inputs are values that earlier pieces made, with the types
that they turned out to have; what no later piece reads is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from atcpy.ir import DType
from atcpy.verify.inputs import Array, Feeds

PIECE = 1000  # nodes
# Opens a model whose constants of these names are not in the message.
Open = Callable[[onnx.ModelProto, Iterable[str]], Any]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The nodes from `start` to `end`, and the names that they read and make for others."""

    start: int
    end: int
    reads: tuple[str, ...]
    makes: tuple[str, ...]


class PiecewiseModel:
    """What a session is to its caller: `run`."""

    def __init__(self, model: onnx.ModelProto, opened: Open) -> None:
        self._model = model
        self._open = opened
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._pieces = list(_cut(model.graph))

    def run(self, names: Sequence[str], feeds: Feeds) -> list[Array]:
        """The outputs of these names."""
        values: dict[str, Array] = dict(feeds)
        last = {name: index for index, piece in enumerate(self._pieces) for name in piece.reads}
        for index, piece in enumerate(self._pieces):
            fed = {name: values[name] for name in piece.reads if name in values}
            constants = [name for name in piece.reads if name in self._constants and name not in values]
            session = self._open(self._model_of(piece, fed, constants), constants)
            values.update(zip(piece.makes, session.run(list(piece.makes), fed), strict=True))
            for name in piece.reads:
                if last[name] == index and name not in names:
                    values.pop(name, None)
        return [values[name] for name in names]

    def _model_of(self, piece: _Piece, fed: Mapping[str, Array], constants: Iterable[str]) -> onnx.ModelProto:
        whole, made = self._model, onnx.ModelProto()
        made.ir_version = whole.ir_version
        made.opset_import.extend(whole.opset_import)
        made.functions.extend(whole.functions)
        made.graph.name = "piece"
        made.graph.node.extend(whole.graph.node[piece.start : piece.end])
        made.graph.initializer.extend(self._constants[name] for name in constants)
        for name, array in fed.items():
            info = made.graph.input.add(name=name)
            info.type.tensor_type.elem_type = DType.from_numpy(np.asarray(array).dtype).onnx
            for size in np.asarray(array).shape:
                info.type.tensor_type.shape.dim.add(dim_value=size)
        for name in piece.makes:
            made.graph.output.add(name=name)
        return made


def may_be_cut(model: onnx.ModelProto) -> bool:
    """Is the model large, with nodes behind those that they read, and without bodies, whose reads are not seen here?"""
    if len(model.graph.node) < 4 * PIECE:
        return False
    made = {info.name for info in model.graph.input} | {tensor.name for tensor in model.graph.initializer}
    made.add("")
    for node in model.graph.node:
        if not made.issuperset(node.input) or any(map(_holds_graphs, node.attribute)):
            return False
        made.update(node.output)
    return made.issuperset(info.name for info in model.graph.output)


def _holds_graphs(attr: onnx.AttributeProto) -> bool:
    return attr.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def _cut(graph: onnx.GraphProto) -> Iterator[_Piece]:
    nodes = graph.node
    last = {name: index for index, node in enumerate(nodes) for name in node.input}
    outputs = {info.name for info in graph.output}
    for start in range(0, len(nodes), PIECE):
        end = min(start + PIECE, len(nodes))
        made: dict[str, None] = {}
        reads: dict[str, None] = {}
        for node in nodes[start:end]:
            reads.update(dict.fromkeys(name for name in node.input if name and name not in made))
            made.update(dict.fromkeys(node.output))
        kept = [name for name in made if name and (last.get(name, 0) >= end or name in outputs)]
        if kept:
            yield _Piece(start, end, tuple(reads), tuple(kept))
