"""The frame of pattern passes: it walks, matches, asks, replaces, erases and keeps the books."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from math import isclose
from typing import Unpack

import numpy as np

from atcpy.ir import DType, Graph, Match, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.decisions import matched_nodes
from atcpy.ir.pattern import Op, could_match, matches, required_types
from atcpy.options import OoLevel
from atcpy.passes.base import Declared, declare_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase


class Fusion:
    """One rewrite: a pattern, or several spellings of it, the requirements that a match must meet,
    and its replacement.

    A subclass gives `switch`, its name as ATC's fusion switch file writes it, its `phase`, and the passes of that phase
    that it must come `after`:

        class ConvBatchnorm(Fusion, switch="ConvBatchnormFusionPass", phase=Phase.ABSORB): ...
    """

    pattern: Op | tuple[Op, ...]
    switch: str

    def __init_subclass__(
        cls, *, switch: str = "", phase: Phase = Phase.RECOGNISE, **declared: Unpack[Declared]
    ) -> None:
        if switch:  # else it is a frame for passes that are made while the program runs
            cls.switch = switch
            declared.setdefault("level", OoLevel.O2)
            declare_pass(switch, phase, cls().run, cls.__doc__, **declared)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        """Every reason against replacing this match."""
        yield from ()

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        """Makes what takes the place of the root's output."""
        raise NotImplementedError

    @cached_property
    def _spellings(self) -> list[tuple[Op, list[tuple[str, ...]]]]:
        """The spellings of the pattern, and what a graph must have for each to match."""
        spellings = self.pattern if isinstance(self.pattern, tuple) else (self.pattern,)
        return [(pattern, list(required_types(pattern))) for pattern in spellings]

    def run(self, graph: Graph, record: PassRecord, options: object) -> None:
        """Rewrites every match, in topological order: what a rewrite makes can be matched by the
        nodes after it.
        """
        spellings = [pattern for pattern, required in self._spellings if all(map(graph.has_any, required))]
        if not spellings:  # as in most of the thousands of pieces that a graph is cut into
            return
        roots = frozenset(kind for pattern in spellings for kind in pattern.types)
        finisher = Finisher(graph, record, options)
        children = [(pattern, _children(pattern)) for pattern in spellings]
        for node in graph.nodes_of(*roots):
            producers = {value.producer.op_type for value in node.operands}
            # Most nodes are told apart here, without a match being tried.
            fitting = [pattern for pattern, types in children if not any(map(producers.isdisjoint, types))]
            if fitting:
                self._rewrite(graph, node, fitting, record, finisher)

    def _rewrite(
        self, graph: Graph, root: Node, spellings: Sequence[Op], record: PassRecord, finisher: Finisher
    ) -> None:
        """Rewrites the first way to match that meets the requirements; else notes what the first lacks."""
        first: list[Reject] = []
        found = False
        likely = [pattern for pattern in spellings if root.outputs and could_match(pattern, root.output)]
        for m in chain.from_iterable(matches(pattern, root) for pattern in likely):
            rejects = list(self.meet_requirements(m))
            if not rejects:
                if record.may_apply():
                    record.matched += 1
                    matched = list(m.nodes.values())
                    record.fire(matched)
                    rw = Rewriter(graph, root, self.switch, matched)
                    new = self.replacement(m, rw)
                    finisher.finish(rw, [(root.output, new)], matched)
                return
            if not found:
                first, found = [replace(reject, nodes=matched_nodes(m.nodes.values())) for reject in rejects], True
        record.matched += found
        record.reject(*first)


def _children(pattern: Op) -> list[tuple[str, ...]]:
    """The types, one of each, that must be among the makers of a matching node's operands."""
    return [child.types for child in pattern.inputs if isinstance(child, Op)]


def only_read_by(value: Value, reader: Node) -> Iterator[Reject]:
    """A reason against taking a node into another: somebody else reads its value."""
    other = value.user_beyond((reader,))
    if other is not None:
        yield Reject("second-consumer", value.producer.name, other.name)


def read_before(value: Value, node: Node, positions: Mapping[Node, int]) -> Iterator[Reject]:
    """Reasons against making a value by this node, which reads it: others do so earlier. `positions` are those of the
    graph's nodes in their order.
    """
    early = (user for user in value.users if user is not node and positions.get(user, -1) < positions[node])
    yield from (Reject("second-consumer", value.producer.name, user.name) for user in early)


def only_read_within(m: Match, root: Node) -> Iterator[Reject]:
    """Reasons against replacing all of a match: somebody else reads a value in it."""
    matched = tuple(m.nodes.values())
    for node in matched:
        others = [value.user_beyond(matched) for value in node.outputs] if node is not root else []
        yield from (Reject("second-consumer", node.name, other.name) for other in others if other is not None)


def rounding_of(dtype: DType) -> float:
    """How far, relatively, an exporter may have rounded a constant of a type."""
    return 1e-15 if dtype is DType.FLOAT64 else 1e-6


def constant_is(value: Value, expected: float) -> Iterator[Reject]:
    """A reason if a constant is not this number, as its element type holds it, to six digits: exporters round."""
    dtype = value.desc.dtype
    rounded = float(np.asarray(expected, dtype.numpy)) if dtype.is_float else expected
    is_real = dtype.is_float or dtype.is_int
    is_one = is_real and value.desc.elements == 1
    if not is_one or not isclose(float(value.array.reshape(())), rounded, rel_tol=rounding_of(dtype)):
        yield Reject("other-constant", value.name, f"is not {expected:.7g}")
