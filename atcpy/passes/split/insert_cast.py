"""Compute in float32 what no kernel computes in 16 bits (adr/0006).

y = op(x), of float16 or bfloat16        →  y = Cast(op(Cast(x)))
Cast(Cast(a, float16), float32), made here  →  a: between two such ops nothing is rounded
Cast(Cast(a, bfloat16), float32), of a precision mode  →  a: the kernels round what they multiply
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
from atcpy.ops.core.half import HALF_DTYPES, MULTIPLIES_BF16, ROUNDS_BF16
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.reference import infer_by_onnx
from atcpy.options import OoLevel, SplitOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.casts import PRECISION_MODE, Casts, graph_of
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
    wide = _WideValues()
    for node in walk(graph):
        if node.is_structural or not any(_is_half(value) for value in (*node.operands, *node.outputs)):
            continue
        record.matched += 1
        record.applied += wide.read_wide(node) if node.op_type == "Cast" else wide.compute_wide(node)
    wide.drop_unread()


def _is_half(value: Value) -> bool:
    return value.desc.dtype in HALF_DTYPES


class _WideValues:
    """The values of 16 bits that are at hand in float32 as well."""

    def __init__(self) -> None:
        self.casts = Casts(NAME, DType.FLOAT32, self._widened_constant)
        self._read_past: dict[Node, None] = {}  # Casts whose source is read in their place
        self._growth = 0  # of the constants that became float32
        self._packed: set[Value] = set()  # constants that become float32 whatever their size

    def drop_unread(self) -> None:
        """Remove the Casts that nobody reads any more."""
        self.casts.drop_unread()
        for cast in self._read_past:
            if cast.output.use_count == 0:
                graph_of(cast).erase(cast)

    def _as_wide(self, value: Value) -> Value:
        """A value in float32. What PrecisionModePass rounds to bfloat16 is read as it was before: kernels that multiply
        bfloat16 round what they read. With float16, whose range is smaller, values beyond it become infinite.
        """
        cast = value.producer
        if cast.op_type == "Cast" and cast.passes == (PRECISION_MODE,) and value.desc.dtype is DType.BFLOAT16:
            source = cast.operand(0)
            if source.desc.dtype is DType.FLOAT32:
                self._read_past[cast] = None
                return source
        return self.casts.converted(value)

    def read_wide(self, node: Node) -> bool:
        """Lets a Cast of the model to a wider float read what was not rounded yet; every other one rounds."""
        wide, to = self.casts.find(node.operand(0)), node.output.desc.dtype
        if wide is None or to not in {DType.FLOAT32, DType.FLOAT64}:
            return False
        if to is DType.FLOAT32:
            graph_of(node).replace_uses(node.output, wide)
            wide.producer.sources = (*wide.producer.sources, *node.sources)
            graph_of(node).erase(node)
        else:
            graph_of(node).set_input(node, 0, wide)
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
        multiplies_bf16 = _multiplies_bf16(node, narrow)
        with _as_float32(node, narrow) as results:
            runs_in_c = _runs_in_c(node)
            if results is None or (in_c and not runs_in_c):
                return False
        rounds_bf16 = runs_in_c and bool(node.outputs) and node.outputs[0].desc.dtype is DType.BFLOAT16
        opdef = find_opdef(node)
        if opdef is not None:
            weights = [node.operand(index) for index in opdef.wide_weights]
            self._packed.update(weight for weight in weights if weight.tensor is not None)
        for index, value in enumerate(node.inputs):
            if value is not None and _is_half(value) and value not in narrow:
                graph_of(node).set_input(node, index, self._as_wide(value))
        for value, desc in zip(node.outputs, results, strict=True):
            if value.desc.dtype is not desc.dtype:
                self.casts.retype(value, desc)
        if multiplies_bf16:
            node.attrs[MULTIPLIES_BF16] = 1
        if rounds_bf16:
            node.attrs[ROUNDS_BF16] = 1
        node.passes = (*node.passes, NAME)
        return True

    def _is_mostly_wide(self, node: Node) -> bool:
        halves = {value for value in node.operands if _is_half(value) and not self._is_small_constant(value)}
        if not all(value.desc.is_static for value in halves):
            return bool(halves) and all(value in self.casts for value in halves)
        wide = sum(value.desc.elements for value in halves if value in self.casts)
        return wide > 0 and 2 * wide >= sum(value.desc.elements for value in halves)

    def _is_small_constant(self, value: Value) -> bool:
        return value.tensor is not None and value.desc.nbytes <= min(SMALL_BYTES, MAX_GROWTH - self._growth)

    def _widened_constant(self, value: Value) -> Tensor | None:
        if value not in self._packed:
            if not self._is_small_constant(value):
                return None
            self._growth += value.desc.nbytes
        return Tensor.of(value.array.astype(np.float32))


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


def _multiplies_bf16(node: Node, narrow: frozenset[Value]) -> bool:
    """Whether a product has bfloat16 as all factors, weights that stay so among them."""
    opdef = find_opdef(node)
    if opdef is None:
        return False
    weights = [node.operand(index) for index in opdef.half_weights]
    factors = {node.operand(0), *weights} if weights else {node.operand(index) for index in opdef.factors}
    return narrow.issuperset(weights) and {value.desc.dtype for value in factors} == {DType.BFLOAT16}


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
