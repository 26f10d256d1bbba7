"""Bring reductions into one form, so that later patterns match more models.

ReduceSum(x) / n                                  →  ReduceMean(x),  n elements each
ReduceMean(x) over height and width               →  GlobalAveragePool(x), with a Squeeze where dims go
Reshape(f(Reduce(x) {keepdims=0}), kept dims)     →  f(Reduce(x) {keepdims=1}),  f elementwise, with single numbers

JAX and TensorFlow write both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose, prod

from atcpy.ir import DType, Graph, Match, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ir.shape import Shape
from atcpy.ops import Trait, has_trait
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.ops.reduce.reduce import REDUCTIONS
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.formula import factor_of, scaled
from atcpy.passes.fusion import Fusion, only_read_within, rounding_of
from atcpy.passes.layout_chain import VIEWS
from atcpy.passes.phase import Phase

_READERS = ("LayerNormFusionPass", "RMSNormFusionPass", "SoftmaxFusionPass", "LogSoftmaxFusionPass")
_IMAGE_RANKS = (4, 5)  # fewer dims are rather rows, whose means graph kernels compute
_LARGEST = 12  # region of elementwise nodes behind a reduction


class Mean(Fusion, switch="ReduceMeanFusionPass", before=_READERS, makes=("ReduceMean",)):
    """Replace a sum over n elements that is divided by n by ReduceMean."""

    pattern = scaled(op("ReduceSum", var("x"), const("axes"), name="sum"), "inverse", "count", name="y")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        y, total = m.node("y"), m.node("sum")
        yield from only_read_within(m, y)
        if not m["x"].desc.dtype.is_float:
            yield Reject("dtype", y.name, m["x"].desc.dtype.long)
        if total.output.desc.shape is None or total.output.desc.shape != y.output.desc.shape:
            yield Reject("broadcast", y.name)
        factor, count = factor_of(m, "inverse", "count"), _count(total)
        if not count or not isclose(factor * count, 1, rel_tol=min(2e-7, rounding_of(m["x"].desc.dtype))):
            yield Reject("other-constant", y.name, f"is not 1/{count}")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("ReduceMean", m["x"], m["axes"], keepdims=m.node("sum").int_attr("keepdims", 1))


def _count(reduction: Node) -> int:
    """Return how many elements become one; 0 if that is not known."""
    shape, axes = reduction.operand(0).desc.shape or (), _axes(reduction)
    sizes = [size for axis in axes if isinstance(size := shape[axis], int)]
    return prod(sizes) if axes and len(sizes) == len(axes) else 0


def _axes(reduction: Node) -> list[int]:
    """Return the reduced axes, sorted; none if they are not known."""
    shape, axes = reduction.operand(0).desc.shape, reduction.input(1)
    if shape is None or axes is None or axes.tensor is None:
        return []
    return sorted({int(axis) % len(shape) for axis in axes.array.reshape(-1)})


@graph_pass("KeepDimsPass", Phase.RECOGNISE, before=("ReduceMeanFusionPass", *_READERS))
def keep_dims(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Let reductions keep the dims that a view puts back behind them."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of(*REDUCTIONS):
        if not _drops_dims(node) or not any(_leads_to_view(user) for user in node.output.users):
            continue
        region = _Region(node)
        if record.accept(region.nodes, *region.grow()):
            region.rewrite(graph, record.name, finisher)


def _drops_dims(node: Node) -> bool:
    return node.op_type in REDUCTIONS and not node.domain and not node.int_attr("keepdims", 1) and bool(_axes(node))


def _leads_to_view(node: Node) -> bool:
    """Return whether a node is a view, or one of its users is."""
    followers = [user for value in node.outputs for user in value.users]
    return any(near.op_type in VIEWS for near in (node, *followers))


def _must_equal(shape: Shape | None, required: Shape) -> bool:
    """Return whether a view of as many elements has these dims. One of them may have another name in it."""
    if shape is None or len(shape) != len(required):
        return False
    pairs = list(zip(shape, required, strict=True))
    others = [dim for dim, expected in pairs if dim != expected or dim == UNNAMED]
    if not others:
        return True
    known = [dim for dim, expected in pairs if dim == expected and isinstance(dim, int)]
    return not isinstance(others[0], int) and len(known) == len(shape) - 1 and 0 not in known


@dataclass(slots=True)
class _Region:
    """Reductions of equal shapes and the elementwise ops behind them, up to the views that put the dims back."""

    first: Node
    nodes: list[Node] = field(default_factory=list)
    views: list[Node] = field(default_factory=list)
    dropped: Shape | None = None
    kept: Shape = ()

    def grow(self) -> list[Reject]:
        """Find the nodes; return the reason, if something in the region needs the dims to be gone."""
        shape, axes = self.first.operand(0).desc.shape, _axes(self.first)
        self.dropped = self.first.output.desc.shape
        self.kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape or ()))
        pending = [self.first]
        while pending:
            node = pending.pop()
            if node in self.nodes or node in self.views:
                continue
            if len(self.nodes) == _LARGEST:
                return [Reject("size", self.first.name)]
            if node.op_type in VIEWS:
                if not _must_equal(node.output.desc.shape, self.kept):
                    return [Reject("other-shape", node.name)]
                self.views.append(node)
                continue
            if not self._works_on_kept(node):
                return [Reject("second-consumer", self.first.name, node.name)]
            self.nodes.append(node)
            pending += [
                value.producer for value in node.operands if value.tensor is None and not self._is_reduction(node)
            ]
            pending += node.output.users
        return [] if self.views else [Reject("second-consumer", self.first.name)]

    def _is_reduction(self, node: Node) -> bool:
        return _drops_dims(node) and _axes(node) == _axes(self.first)

    def _works_on_kept(self, node: Node) -> bool:
        """Return whether a node of the region works on values with the dims kept."""
        if self._is_reduction(node):
            return node.operand(0).desc.shape == self.first.operand(0).desc.shape
        shapes = [value.desc.shape for value in node.operands if value.tensor is None or value.desc.elements != 1]
        return (
            has_trait(node, Trait.ELEMENTWISE)
            and len(node.outputs) == 1
            and all(shape == self.dropped for shape in (*shapes, node.output.desc.shape))
        )

    def rewrite(self, graph: Graph, name: str, finisher: Finisher) -> None:
        """Create the nodes anew, with the dims kept, and leave out the views."""
        kept: dict[Value, Value] = {}
        waiting = list(self.nodes)
        while waiting:
            node = next(node for node in waiting if not any(value.producer in waiting for value in node.operands))
            waiting.remove(node)
            rw = Rewriter(graph, node, name, [node])
            attrs = {**node.attrs, "keepdims": 1} if self._is_reduction(node) else node.attrs
            inputs = [None if value is None else kept.get(value, value) for value in node.inputs]
            kept[node.output] = rw.op(node.op_type, *inputs, **attrs)
            infer_node(kept[node.output].producer, KnownValues())
        for view in self.views:
            rw = Rewriter(graph, view, name, [view])
            finisher.finish(rw, [(view.output, kept[view.operand(0)])], [view])


class GlobalMean(
    Fusion, switch="GlobalAveragePoolFusionPass", phase=Phase.MERGE, after=("ReduceReduceFusionPass",), is_neutral=False
):
    """Replace the mean over height and width by GlobalAveragePool, which has a kernel in 5D.

    TensorFlow writes ReduceMean, and its models in ONNX the pool.
    """

    pattern = op("ReduceMean", var("x"), const("axes"), name="mean")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        mean, desc = m.node("mean"), m["x"].desc
        rank = len(desc.shape or ())
        is_image = rank in _IMAGE_RANKS and _axes(mean) == list(range(2, rank))
        if not is_image:
            yield Reject("other-axes", mean.name)
        if not desc.dtype.is_float:
            yield Reject("dtype", mean.name, desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        pooled = rw.op("GlobalAveragePool", m["x"])
        if m.node("mean").int_attr("keepdims", 1):
            return pooled
        return rw.op("Squeeze", pooled, rw.const(_axes(m.node("mean")), dtype=DType.INT64))
