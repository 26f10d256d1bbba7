"""Let a normalization add up what it normalizes.

LayerNormalization(a + b + c, g, h)                          →  FusedLayerNormalization of the terms a, b and c
LayerNormalization(Gather(table, i) + Gather(table2, j), …)  →  FusedLayerNormalization of rows of the tables

and RMSNormalization likewise; the rows may go through a Reshape. Who else reads the sum reads its second result. Sums
that a matrix product adds are its epilogue by then; what is left are embeddings, positions, and residuals behind other
ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atcpy.ir import DType, Engine, Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ops.move.gather import INDEX_TYPES
from atcpy.ops.norm.norm_of_sum import FUSED, MAX_TERMS, spreads
from atcpy.options import OoLevel, OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.fusion import read_before
from atcpy.passes.phase import Phase

NAME = "AddLayerNormFusionPass"
_TABLE_RANK = 2


class _Term(NamedTuple):
    """What is added as it `came`: the value of that name, or rows of it by number, which the nodes `taken` took."""

    came: Value
    value: Value
    indices: Value | None = None
    taken: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sum:
    """The terms of a value in the order in which they are added, and the nodes that add them."""

    terms: Sequence[_Term]
    adds: Sequence[Node] = ()

    @property
    def nodes(self) -> list[Node]:
        """All that goes."""
        return [*self.adds, *(node for term in self.terms for node in term.taken)]


@graph_pass(NAME, Phase.FUSE, before=("GraphKernelFusionPass",), level=OoLevel.O2, is_neutral=False)
def add_up(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Let a normalization add up what it normalizes."""
    finisher = Finisher(graph, record, options)
    positions = {node: index for index, node in enumerate(graph.nodes)}
    for norm in graph.nodes_of(*FUSED):
        if norm.engine is not Engine.VECTOR:
            continue
        total = norm.operand(0)
        sums = [found for found in _sums(total) if found.nodes]
        if not sums:
            continue
        early = list(read_before(total, norm, positions))
        wrong = [[*early, *_rejects(found, total, norm)] for found in sums]
        fitting = next((found for found, rejects in zip(sums, wrong, strict=True) if not rejects), None)
        nodes, rejects = (fitting.nodes, []) if fitting is not None else ([], wrong[0])
        rw = finisher.match(norm, *nodes, rejects=rejects)
        if rw is not None and fitting is not None:
            _replace(rw, finisher, fitting.terms, total)


def _sums(total: Value) -> Iterator[_Sum]:
    """The ways to take a value apart, that with the most terms first."""
    add = total.producer
    if add.op_type == "Add" and not add.domain:
        for first, second in (add.operands, add.operands[::-1]):
            inner = first.producer
            if inner.op_type == "Add" and not inner.domain and first.use_count == 1:
                yield _Sum([*map(_term, inner.operands), _term(second)], [add, inner])
        yield _Sum([*map(_term, add.operands)], [add])
    yield _Sum([_term(total, is_whole=True)])


def _term(value: Value, *, is_whole: bool = False) -> _Term:
    """Rows of a constant table, if nobody else wants them; else the value as it is. Other dims before the rows' own
    may be given to them by a Reshape.
    """
    view = value.producer if value.producer.op_type == "Reshape" else None
    rows = value if view is None else view.operand(0)
    gather = rows.producer
    is_shared = any(step.use_count > 1 for step in (value, rows) if step is not value or not is_whole)
    if gather.op_type != "Gather" or gather.domain or is_shared:
        return _Term(value, value)
    table, indices = gather.operands
    is_table = table.tensor is not None and len(table.desc.static_shape) == _TABLE_RANK
    keeps = value.desc.static_shape[-1:] == table.desc.static_shape[1:]
    if not (is_table and keeps) or gather.int_attr("axis", 0) not in (0, -_TABLE_RANK):
        return _Term(value, value)
    if indices.desc.dtype not in INDEX_TYPES:
        return _Term(value, value)
    return _Term(value, table, indices, (gather,) if view is None else (view, gather))


def _rejects(found: _Sum, total: Value, norm: Node) -> Iterator[Reject]:
    shape = total.desc.static_shape
    width = len(shape) - norm.int_attr("axis", -1) % len(shape)
    for term in found.terms:
        own = term.came.desc.static_shape
        if not spreads(own, shape) or len(own) < width or own[len(own) - width :] != shape[len(shape) - width :]:
            yield Reject("broadcast", norm.name, term.came.name)
        if term.indices is not None and width != _TABLE_RANK - 1:
            yield Reject("other-axes", norm.name, term.came.name)
    assert len(found.terms) <= MAX_TERMS


def _replace(rw: Rewriter, finisher: Finisher, terms: Sequence[_Term], total: Value) -> None:
    norm = rw.anchor
    left_out = [None] * (MAX_TERMS - len(terms))
    first, *more = (term.value for term in terms)
    operands = (first, norm.operand(1), norm.input(2), *(_indices(term, rw) for term in terms), *left_out, *more)
    is_read = total.use_count > 1
    rank = len(total.desc.static_shape)
    attrs: Mapping[str, object] = {**norm.attrs, "axis": norm.int_attr("axis", -1) % rank - rank}
    results = rw.ops(FUSED[norm.op_type], *operands, outputs=1 + is_read, **attrs)
    results[0].producer.engine = norm.engine
    taken = [node for term in terms for node in term.taken]
    finisher.finish(rw, zip((norm.outputs[0], total), results, strict=False), [norm, total.producer, *taken])


def _indices(term: _Term, rw: Rewriter) -> Value | None:
    """The indices in the dims that the rows have."""
    shape_of_rows = term.came.desc.static_shape[:-1]
    if term.indices is None or term.indices.desc.shape == shape_of_rows:
        return term.indices
    shape = rw.const(shape_of_rows, name=f"{term.indices.name}_shape", dtype=DType.INT64)
    indices = rw.op("Reshape", term.indices, shape)
    indices.producer.engine = shape.producer.engine = Engine.GE_LOCAL
    return indices
