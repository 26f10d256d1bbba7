"""Compute in float32 what no kernel computes in 16 bits (adr/0006).

y = op(x), of float16 or bfloat16        →  y = Cast(op(Cast(x)))
Cast(Cast(a, float16), float32), made here  →  a: between two such ops nothing is rounded
move(Cast(a, float16))                      →  Cast(move(a), float16), where that saves a Cast
Cast(Cast(a, float16), float64)             →  Cast(a, float64)

Whether there is a kernel is asked of the records, by placing the node as it is and as it would be.
Weights stay as they are where the kernels read them so, small constants become float32, and a Cast
that the model itself has rounds as it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from atcpy.ir import DType, Engine, Graph, Node, PassRecord, Tensor, TensorDesc, Value, walk
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.reference import infer_by_onnx
from atcpy.options import OoLevel, SplitOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.passes.split.assign_engines import choose_engine

NAME = "InsertCastPass"
# A constant up to this size becomes float32 for good, as long as all of them together add no more than this; a larger
# one is cast at run time, so that the package stays about as small as the model.
SMALL_BYTES = 64 * 1024
MAX_GROWTH = 512 * 1024


@graph_pass(NAME, Phase.PRECISION, level=OoLevel.O0)
def insert_cast(graph: Graph, record: PassRecord, options: SplitOptions) -> None:
    """Compute in float32 what no kernel computes in 16 bits."""
    casts = _Casts()
    for node in walk(graph):
        if node.is_structural or not any(_is_half(value) for value in (*node.operands, *node.outputs)):
            continue
        record.matched += 1
        record.applied += casts.read_wide(node) if node.op_type == "Cast" else casts.compute_wide(node)
    casts.drop_unread()


def _is_half(value: Value) -> bool:
    return value.desc.dtype in HALF_DTYPES


class _Casts:
    """The values of 16 bits that are at hand in float32 as well."""

    def __init__(self) -> None:
        self._wide: dict[Value, Value] = {}
        self._rounding: list[Node] = []  # the Casts to 16 bits, whether somebody reads them or not
        self._constants: list[Value] = []  # that became float32
        self._growth = 0  # of the constants

    def read_wide(self, node: Node) -> bool:
        """Lets a Cast of the model to a wider float read what was not rounded yet; every other one rounds."""
        wide, to = self._wide.get(node.operand(0)), node.output.desc.dtype
        if wide is None or to not in {DType.FLOAT32, DType.FLOAT64}:
            return False
        if to is DType.FLOAT32:
            _graph_of(node).replace_uses(node.output, wide)
            wide.producer.sources = (*wide.producer.sources, *node.sources)
            _graph_of(node).erase(node)
        else:
            _graph_of(node).set_input(node, 0, wide)
            node.passes = (*node.passes, NAME)
        return True

    def compute_wide(self, node: Node) -> bool:
        """Lets a node compute in float32, if it has no kernel for 16 bits, or if most of its elements come in float32
        anyway.
        """
        if node.has_subgraphs or (_runs_in_c(node) and not self._is_mostly_wide(node)):
            return False
        if has_trait(node, Trait.CUSTOM):  # the user's code gets the types that the model says
            return False
        narrow, in_c = _narrow_values(node), _runs_in_c(node)
        with _as_float32(node, narrow) as results:
            if results is None or (in_c and not _runs_in_c(node)):
                return False
        for index, value in enumerate(node.inputs):
            if value is not None and _is_half(value) and value not in narrow:
                _graph_of(node).set_input(node, index, self._widened(value))
        for value, desc in zip(node.outputs, results, strict=True):
            if value.desc.dtype is not desc.dtype:
                self._round(value, desc)
        node.passes = (*node.passes, NAME)
        return True

    def drop_unread(self) -> None:
        """Removes the roundings and constants that nobody reads any more; what is float32 instead gets their names."""
        for narrow in [cast.output for cast in self._rounding] + self._constants:
            if narrow.use_count == 0:
                graph = _graph_of(narrow.producer)
                graph.take_name(self._wide[narrow], narrow)
                graph.erase(narrow.producer)

    def _is_mostly_wide(self, node: Node) -> bool:
        halves = {value for value in node.operands if _is_half(value) and not self._is_small_constant(value)}
        if not all(value.desc.is_static for value in halves):
            return bool(halves) and halves <= self._wide.keys()
        wide = sum(value.desc.elements for value in halves if value in self._wide)
        return wide > 0 and 2 * wide >= sum(value.desc.elements for value in halves)

    def _is_small_constant(self, value: Value) -> bool:
        return value.tensor is not None and value.desc.nbytes <= min(SMALL_BYTES, MAX_GROWTH - self._growth)

    def _widened(self, value: Value) -> Value:
        if value not in self._wide:
            self._wide[value] = self._widened_constant(value) if self._is_small_constant(value) else self._cast(value)
        return self._wide[value]

    def _widened_constant(self, value: Value) -> Value:
        tensor, maker = Tensor.of(value.array.astype(np.float32)), value.producer
        wide = _graph_of(maker).add_const(tensor, value.name, before=maker)
        wide.producer.sources, wide.producer.passes = maker.sources, (*maker.passes, NAME)
        self._growth += value.desc.nbytes
        self._constants.append(value)
        return wide

    def _cast(self, value: Value) -> Value:
        """A Cast right behind the maker of a value, for all its readers."""
        attrs = {"to": DType.FLOAT32.onnx}
        outputs = (f"{value.name}.{DType.FLOAT32.short}",)
        maker = value.producer
        cast = _graph_of(maker).insert_after(maker, "Cast", [value], attrs, name=f"{value.name}_Cast", outputs=outputs)
        cast.output.desc = replace(value.desc, dtype=DType.FLOAT32)
        cast.passes = (NAME,)
        return cast.output

    def _round(self, value: Value, wide: TensorDesc) -> None:
        """Gives a value another type, and its readers a Cast back under its name."""
        narrow = value.desc
        outputs = (f"{value.name}.{wide.dtype.short}",)
        attrs = {"to": narrow.dtype.onnx}
        graph = _graph_of(value.producer)
        cast = graph.insert_after(value.producer, "Cast", [], attrs, name=f"{value.name}_Cast", outputs=outputs)
        graph.replace_uses(value, cast.output)
        graph.set_inputs(cast, [value])
        graph.take_name(cast.output, value)
        cast.output.desc, value.desc = narrow, wide
        cast.passes = (NAME,)
        self._wide[cast.output] = value
        self._rounding.append(cast)


def _graph_of(node: Node) -> Graph:
    assert node.graph is not None
    return node.graph


def _runs_in_c(node: Node) -> bool:
    engine, _ = choose_engine(node)
    return engine is not None and engine is not Engine.HOST_CPU


def _narrow_values(node: Node) -> frozenset[Value]:
    """The values that the node's kernel reads and writes in 16 bits: constants and states by its record, if that places
    it on AIcoreEngine.
    """
    opdef = find_opdef(node)
    if opdef is None:
        return frozenset()
    weights = {value for index in opdef.half_weights if (value := node.operand(index)).tensor is not None}
    states = {
        value
        for source, result in opdef.half_states
        if (past := node.input(source)) is not None and past.desc.dtype is DType.FLOAT16
        for value in (past, *node.outputs[result : result + 1])
    }
    narrow = frozenset(value for value in weights | states if _is_half(value))
    if not narrow:
        return narrow
    with _as_float32(node, narrow):
        return narrow if choose_engine(node)[0] is Engine.AICORE else frozenset()


@contextmanager
def _as_float32(node: Node, narrow: frozenset[Value]) -> Iterator[Sequence[TensorDesc] | None]:
    """Meanwhile all values of 16 bits of a node are float32, but for those that stay `narrow`. Yields the types of the
    outputs, or None if another one of 16 bits would stay so.
    """
    opdef = find_opdef(node)
    values = (*node.operands, *node.outputs)
    changed = {value: value.desc for value in values if _is_half(value) and value not in narrow}
    for value, desc in changed.items():
        value.desc = replace(desc, dtype=DType.FLOAT32)
    try:
        infer = infer_by_onnx if opdef is None or opdef.infer is None else opdef.infer
        results = zip(node.outputs, infer(node, KnownValues()), strict=False)
        stays = any(desc.dtype in HALF_DTYPES for value, desc in results if value not in narrow)
        yield None if stays else [value.desc for value in node.outputs]
    finally:
        for value, desc in changed.items():
            value.desc = desc
