"""Replace a Loop or Scan over the steps of recurrent cells by LSTM, GRU or RNN.

Loop(n, true, h, c) { i, f, o, g = act(Split(xs[t]·W + h·R + b)); c' = f·c + i·g; h' = o·tanh(c') }
    →  LSTM(xs, W, R, b, , h, c)

`polynomials.py` normalises the body, so that the spelling of a cell does not matter. Cells that read each other's h
become an op each. A row may end before the others: Where(t >= length, h, h').
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.shape import Shape
from atcpy.ops import Trait, op_types
from atcpy.ops.core.infer import KnownValues, propagate
from atcpy.ops.recurrent import ACTIVATION_PARAMETERS, DEFAULT_ACTIVATIONS
from atcpy.options import OoLevel, PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.recurrent.cell_layers import Layer, Mask, Result, ResultKind
from atcpy.passes.prepare.recurrent.cells import Cell, operands, peepholes
from atcpy.passes.prepare.recurrent.loop_values import Carried, LoopBody, Sequence, Stack
from atcpy.passes.prepare.recurrent.polynomials import NotACell
from atcpy.passes.prepare.recurrent.splat import is_zero
from atcpy.passes.slices import insert_flip

_LARGEST = 2**63 - 1  # what a Slice to the end is written with


@graph_pass(
    "RecurrentLoopFusionPass",
    Phase.RECURRENT,
    before=("ZeroStateEliminationPass",),
    level=OoLevel.O2,
    makes=("LSTM", "GRU", "RNN"),
)
def fuse_recurrent_loops(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace a Loop or Scan over the steps of recurrent cells by LSTM, GRU or RNN."""
    finisher = Finisher(graph, record, options)
    for node, layer in _layers(graph):
        if isinstance(layer, Reject):
            record.accept([node], layer)
        elif layer.masks_steps:
            record.accept([node], Reject("other-mask", node.name, "for the pass of masked steps"))
        elif record.accept([node]):
            _replace(graph, node, layer, record, finisher)


@graph_pass(
    "MaskedRecurrentLoopFusionPass",
    Phase.RECURRENT,
    after=("RecurrentLoopFusionPass",),
    before=("ZeroStateEliminationPass",),
    level=OoLevel.O2,
    makes=("LSTM", "GRU", "RNN", "CumSum", "GatherElements", "TopK"),
)
def fuse_masked_loops(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace loops in which rows skip steps: the steps of a row that run are moved to its front first."""
    finisher = Finisher(graph, record, options)
    for node, layer in _layers(graph):
        if isinstance(layer, Layer) and layer.masks_steps and record.accept([node]):
            _replace(graph, node, layer, record, finisher)


def _layers(graph: Graph) -> Iterator[tuple[Node, Layer | Reject]]:
    """Yield the loops that may compute recurrent cells, each with its layer or the reason against one."""
    loops = [node for node in graph.nodes_of("Loop", "Scan") if _may_recur(node)]
    known = _numbers(graph) if loops else KnownValues()
    for node in loops:
        try:
            yield node, Layer(LoopBody(node, known))
        except NotACell as reason:
            yield node, reason.reject


def _replace(graph: Graph, node: Node, layer: Layer, record: PassRecord, finisher: Finisher) -> None:
    rw = Rewriter(graph, node, record.name, [node])
    finisher.finish(rw, _Writer(rw, layer).results(), [node])


def _may_recur(node: Node) -> bool:
    """Return whether the body has a matrix product."""
    body = next(node.subgraphs)
    return body.has_any(op_types(Trait.MATRIX_PRODUCT)) and any(value.desc.dtype.is_float for value in node.operands)


def _numbers(graph: Graph) -> KnownValues:
    known = KnownValues()
    for node in graph.nodes:
        if node.op_type != "Const" and node.outputs and node.output.desc.dtype.is_int:
            propagate(node, known)
    return known


@dataclass(slots=True)
class _Writer:
    """Creates the ops of a layer that replace its loop."""

    rw: Rewriter
    layer: Layer
    is_reversed: bool = field(init=False)  # the ops run from the last step to the first
    lengths: Value | None = field(init=False, default=None)
    runs: Value | None = field(init=False, default=None)  # [steps, batch, 1], with a mask of steps
    counts: Value | None = field(init=False, default=None)  # how many steps run up to each
    order: Value | None = field(init=False, default=None)  # the steps of each row, those that run first
    outputs: dict[Cell, list[Value]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # With lengths, `reverse` begins at the last step of each row, which is not what the loop does.
        directions = [sequence.is_reversed for sequence in self.layer.sequences.values()]
        self.is_reversed = all(directions) and self.layer.mask is None

    def results(self) -> list[tuple[Value, Value]]:
        """Create the ops; return the results of the loop, each with its replacement."""
        mask = self.layer.mask
        if mask is not None and mask.steps is not None and mask.element is not None:
            self._read_steps(mask, mask.steps, mask.element)
        for cell in self.layer.cells:
            self.outputs[cell] = self._op(cell)
        return [(result.value, self._result(result)) for result in self.layer.results]

    # --- the op ------------------------------------------------------------------------------------

    def _op(self, cell: Cell) -> list[Value]:
        rw, layer = self.rw, self.layer
        inputs = [self._input(source) for source in cell.sources]
        x = inputs[0] if len(inputs) == 1 else rw.op("Concat", *inputs, axis=2)
        w, r, b = (
            rw.const(array.astype(np.float32), name=f"{rw.anchor.name}_{name}") if name != "b" or array.any() else None
            for name, array in operands(cell)
        )
        if layer.mask is not None and layer.mask.lengths is not None and self.lengths is None:
            self.lengths = self._lengths(x, layer.mask.lengths)
        states = [self._state(layer.states[state.old].start) for state in (cell.h, cell.c) if state is not None]
        peeps = peepholes(cell)
        p = None if peeps is None else rw.const(peeps.astype(np.float32)[None], name=f"{rw.anchor.name}_p")
        attrs: dict[str, object] = {"hidden_size": cell.hidden, **_activations(cell)}
        if self.is_reversed:
            attrs["direction"] = "reverse"
        if cell.gates[-1].is_late:
            attrs["linear_before_reset"] = 1
        outputs = 1 + len(states)  # h of all steps, and each last state
        return rw.ops(cell.op_type, x, w, r, b, self.lengths, *states, p, outputs=outputs, **attrs)

    def _input(self, source: Value) -> Value:
        """Return the steps of a source as [steps, batch, columns]."""
        cell = self.layer.cell_of(source)
        if cell is not None:
            return self._view(self.outputs[cell][0], "Squeeze", [1])
        x = self._taken(self.layer.sequences[source])
        x = self._as_matrix(x, source.desc.shape or (), 1)
        return x if self.order is None else self._picked(x, self.order, x)

    def _taken(self, sequence: Sequence) -> Value:
        """Return the elements that the iterations read, along the first axis."""
        x = self._cut(sequence)
        if sequence.axis:
            rank = len(sequence.tensor.desc.shape or ())
            others = [axis for axis in range(rank) if axis != sequence.axis]
            x = self.rw.op("Transpose", x, perm=(sequence.axis, *others))
        return insert_flip(self.rw, x, 0) if sequence.is_reversed is not self.is_reversed else x

    def _cut(self, sequence: Sequence) -> Value:
        """Return the part of a sequence that the iterations read."""
        limit = self.layer.loop.limit
        if limit is None or self.layer.loop.is_whole(sequence):
            return sequence.tensor
        return self._slice(sequence.tensor, self._integers(0), self._count(limit), sequence.axis)

    def _count(self, limit: Value) -> Value:
        """Return the number of iterations as a list of one element."""
        one = self.rw.op("Reshape", limit, self._integers(1))
        return self.rw.op("Max", one, self._integers(0))

    def _lengths(self, x: Value, lengths: Value) -> Value:
        """Return the lengths as int32, none longer than the sequence."""
        rw = self.rw
        count = rw.op("Shape", x, start=0, end=1)
        flat = rw.op("Reshape", rw.op("Cast", lengths, to=DType.INT64.onnx), self._integers(-1))
        limited = rw.op("Max", rw.op("Min", flat, count), self._integers(0))
        return rw.op("Cast", limited, to=DType.INT32.onnx)

    def _read_steps(self, mask: Mask, steps: Sequence, element: Value) -> None:
        """Compute which steps of each row run, and how many."""
        rw, shape = self.rw, element.desc.shape or ()
        runs = self._taken(steps)
        if shape[-1:] != (1,):
            runs, shape = rw.op("Unsqueeze", runs, self._integers(-1)), (*shape, 1)
        runs = self._as_matrix(runs, shape, 1)
        self.runs = rw.op("Not", runs) if mask.skipped else runs
        ones = rw.op("Cast", self.runs, to=DType.INT64.onnx)
        self.counts = rw.op("CumSum", ones, rw.const(0))
        total = rw.op("ReduceSum", ones, self._integers(0, 2), keepdims=0)
        self.lengths = rw.op("Cast", total, to=DType.INT32.onnx)
        _, self.order = rw.ops("TopK", ones, rw.op("Shape", ones, start=0, end=1), outputs=2, axis=0)

    def _picked(self, x: Value, steps: Value, like: Value) -> Value:
        """Return the steps of each row that `steps` names."""
        indices = self.rw.op("Expand", steps, self.rw.op("Shape", like))
        return self.rw.op("GatherElements", x, indices, axis=0)

    def _state(self, start: Value) -> Value | None:
        """Return an initial state as [1, batch, hidden]; None for zero."""
        if is_zero(start):
            return None
        shape = start.desc.shape or ()
        return self._view(self._as_matrix(start, shape, 0), "Unsqueeze", [0])

    # --- results -----------------------------------------------------------------------------------

    def _result(self, result: Result) -> Value:
        of, cell = result.of, result.cell
        if cell is None:
            assert isinstance(of, Carried)
            return self._counter(of) if result.kind is ResultKind.COUNT else of.start
        if isinstance(of, Stack):
            y = self._steps(result, cell, of.item.desc.shape or (), is_reversed=of.is_reversed)
            axis = of.axis % (len(of.item.desc.shape or ()) + 1)
            perm = [*range(1, axis + 1), 0, *range(axis + 1, len(of.item.desc.shape or ()) + 1)]
            return self.rw.op("Transpose", y, perm=tuple(perm)) if axis else y
        shape = of.old.desc.shape or ()
        if result.kind is ResultKind.FRONT:
            return self._list(self._steps(result, cell, shape[1:], is_reversed=False), of)
        last = self._view(self.outputs[cell][1 + (result.kind is ResultKind.C)], "Squeeze", [0])
        if result.kind is ResultKind.ONE:
            return self._view(self._from_matrix(last, shape[1:], 0), "Unsqueeze", [0])
        return self._from_matrix(last, shape, 0)

    def _steps(self, result: Result, cell: Cell, shape: Shape, *, is_reversed: bool) -> Value:
        """Return h of all iterations, each of this shape, in order or reversed."""
        rw = self.rw
        y = self._view(self.outputs[cell][0], "Squeeze", [1])
        if self.counts is not None:
            first = rw.op("Pad", y, self._integers(1, 0, 0, 0, 0, 0))  # a row that has not run yet holds 0
            latest = self._picked(first, self.counts, y)
            y = latest if result.keeps_previous else rw.op("Where", self.runs, latest, rw.const(np.float32(0)))
        y = insert_flip(self.rw, y, 0) if self.is_reversed is not is_reversed else y
        return self._from_matrix(y, shape, 1)

    def _list(self, steps: Value, state: Carried) -> Value:
        """Return a list whose first elements are steps."""
        loop = self.layer.loop
        assert loop.limit is not None
        if loop.count is not None and (state.start.desc.shape or (None,))[0] == loop.count:
            return steps
        rest = self._slice(state.start, self._count(loop.limit), self._integers(_LARGEST), 0)
        return self.rw.op("Concat", steps, rest, axis=0)

    def _counter(self, state: Carried) -> Value:
        """Return the final value of a counter."""
        rw, loop = self.rw, self.layer.loop
        step = loop.step(state)
        assert loop.limit is not None and step is not None
        count = rw.op("Reshape", self._count(loop.limit), rw.const([]))
        moved = rw.op("Mul", count, rw.const(step))
        return rw.op("Add", state.start, rw.op("Cast", moved, to=state.start.desc.dtype.onnx))

    # --- nodes -------------------------------------------------------------------------------------

    def _integers(self, *numbers: int) -> Value:
        return self.rw.const(numbers)

    def _view(self, value: Value, op_type: str, axes: list[int]) -> Value:
        return self.rw.op(op_type, value, self._integers(*axes)) if axes else value

    def _slice(self, value: Value, begin: Value, end: Value, axis: int) -> Value:
        return self.rw.op("Slice", value, begin, end, self._integers(axis))

    def _as_matrix(self, value: Value, shape: Shape, first: int) -> Value:
        """View the dims `shape`, which begin at axis `first`, as [batch, columns]."""
        if len(shape) == 1:
            return self._view(value, "Unsqueeze", [first])
        return self._view(value, "Squeeze", _dropped_axes(shape, first))

    def _from_matrix(self, value: Value, shape: Shape, first: int) -> Value:
        """View [batch, columns], which begin at axis `first`, as the dims `shape`."""
        if len(shape) == 1:
            return self._view(value, "Squeeze", [first])
        return self._view(value, "Unsqueeze", _dropped_axes(shape, first))


def _dropped_axes(shape: Shape, first: int) -> list[int]:
    """Return the axes of `shape`, counted from `first`, beside those of the batch and of the columns."""
    batch = next((axis for axis, dim in enumerate(shape[:-1]) if dim != 1), 0)
    return [first + axis for axis in range(len(shape) - 1) if axis != batch]


def _activations(cell: Cell) -> dict[str, object]:
    """Return the attributes of a cell's activations; none for the op's defaults."""
    names = tuple(activation.name for activation in cell.activations)
    if names == DEFAULT_ACTIVATIONS[cell.op_type]:
        return {}
    attrs: dict[str, object] = {"activations": names}
    for which, attr in enumerate(("alpha", "beta")):
        readers = [each for each in cell.activations if ACTIVATION_PARAMETERS[each.name][which] is not None]
        if readers:
            attrs[f"activation_{attr}"] = tuple(float(getattr(each, attr)) for each in readers)
    return attrs
