"""Why a graph looks as it does: views of its two records, provenance (`sources`, `passes` of each node) and decisions.

Nothing is computed anew. What no record tells is said to be unknown: a pair of nodes that no pass ever matched is
found in the graph that is left, where the two still stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from atcpy.ir import Graph, Node, PassRecord, Reject, Value, walk
from atcpy.ir.decisions import Matched
from atcpy.ir.pattern import Op, Pattern
from atcpy.passes.pass_set import built_in_passes

PLACER = "EnginePlacerPass"
_BETWEEN = frozenset({"TransData", "Cast"})  # what the compiler puts between two nodes
_SENTENCES = {
    "second-consumer": "{where} has a second consumer {detail}",
    "other-engine": "{where} runs on another engine",
    "already-activated": "{where} has an activation already",
    "already-has-bias": "{where} adds a bias already",
    "already-has-residual": "{where} adds another value already",
    "broadcast": "{where} would change the shape of the result",
    "not-per-channel": "{where} is not one number a channel",
    "shape-unknown": "a size of {where} is known only at run time",
    "training-mode": "{where} trains",
}
_DETAIL = {"second-consumer": ("value", "consumer")}


@dataclass(frozen=True, slots=True)
class Unmet:
    """A requirement that was not met: its word, and the values that decided."""

    reason: str
    where: str
    detail: str

    def sentence(self) -> str:
        """The requirement as people read it."""
        template = _SENTENCES.get(self.reason)
        if template is not None:
            return template.format(where=self.where, detail=self.detail)
        return f"{self.where}: {self.reason}" + (f" ({self.detail})" if self.detail else "")

    def values(self) -> dict[str, str]:
        """The values, by what they are."""
        where, detail = _DETAIL.get(self.reason, ("node", "values"))
        return {name: text for name, text in ((where, self.where), (detail, self.detail)) if text}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A match, or a pair that no pass matched: `unmet` says what was missing, the first requirement first."""

    name: str  # of the pass, or nothing
    nodes: tuple[str, ...]  # in the order in which they run
    fired: bool
    unmet: tuple[Unmet, ...] = ()

    def record(self) -> dict[str, object]:
        """A member of `explain --json`'s result."""
        reason = self.unmet[0] if self.unmet else None
        return {
            "pass": self.name or None,
            "nodes": list(self.nodes),
            "fired": self.fired,
            "reason": None if reason is None else reason.reason,
            "detail": None if reason is None else reason.values(),
            "unmet": [unmet.reason for unmet in self.unmet],
        }


def _unmet(rejects: Iterable[Reject]) -> tuple[Unmet, ...]:
    return tuple(Unmet(reject.reason, reject.where, reject.detail) for reject in rejects)


def plain_op(op: str) -> str:
    """The op that a fused one continues: `FusedConv` is a Conv."""
    return op.removeprefix("Fused")


def _names(nodes: Matched) -> tuple[str, ...]:
    """One name for each node, in the order in which they run; the last name of a fused node is that of its first."""
    return tuple(node[-1] for node in reversed(nodes))


# --------------------------------------------------------------------------------------------------------------------
# A pass


def candidates_of(record: PassRecord) -> list[Candidate]:
    """All matches of a pass: those that fired, then those that did not, nearest misses first."""
    fired = [Candidate(record.name, _names(nodes), fired=True) for nodes in record.fired]
    return fired + sorted(_misses(record.name, record.rejects), key=lambda candidate: len(candidate.unmet))


def _misses(name: str, rejects: Iterable[Reject]) -> Iterator[Candidate]:
    """One candidate for each match that a pass left alone."""
    by_match: dict[tuple[str, ...], list[Reject]] = {}
    for reject in rejects:
        by_match.setdefault(_names(reject.nodes) or (reject.where,), []).append(reject)
    for nodes, reasons in by_match.items():
        yield Candidate(name, nodes, fired=False, unmet=_unmet(reasons))


# --------------------------------------------------------------------------------------------------------------------
# A fusion


def fusion_candidates(graph: Graph, first: str, second: str) -> list[Candidate]:
    """Every pair of a `first` and a `second` that reads it: fused, looked at and left alone, or never matched. Nearest
    misses come first.
    """
    known = _Ops(graph)
    fired: dict[tuple[str, str], Candidate] = {}
    missed: dict[tuple[str, str], Candidate] = {}
    for record in graph.decisions.passes:
        for nodes in record.fired:
            for pair in known.pairs(nodes, first, second):
                fired.setdefault(pair, Candidate(record.name, pair, fired=True))
        by_pair: dict[tuple[str, str], list[Reject]] = {}
        for reject in record.rejects:
            for pair in known.pairs(reject.nodes, first, second):
                by_pair.setdefault(pair, []).append(reject)
        for pair, rejects in by_pair.items():
            candidate = Candidate(record.name, pair, fired=False, unmet=_unmet(rejects))
            if pair not in missed or len(candidate.unmet) < len(missed[pair].unmet):
                missed[pair] = candidate
    ran = {record.name for record in graph.decisions.passes}
    able = next((name for name in passes_with_pattern(first, second) if name in ran), "")
    placed = _placements(graph)
    for pair, producer, node in known.left_over(graph, first, second):
        if pair not in missed:
            engines = _unmet([*placed.get(producer.name, ()), *placed.get(node.name, ())])
            unmet = (*_second_consumers(producer, node), *engines)
            missed[pair] = Candidate(able if unmet else "", pair, fired=False, unmet=unmet if able else ())
    misses = [candidate for pair, candidate in missed.items() if pair not in fired]
    return [*fired.values(), *sorted(misses, key=lambda candidate: (not candidate.unmet, len(candidate.unmet)))]


class _Ops:
    """The ops that fused nodes consist of, as far as the records of the passes name them."""

    def __init__(self, graph: Graph) -> None:
        matched = (nodes for record in graph.decisions.passes for nodes in _all_matches(record))
        self._ops = {
            node[1]: node[0]
            for nodes in matched
            for node in nodes
            if len(node) == 2 and not node[0].startswith("Fused")
        }

    def pairs(self, nodes: Matched, first: str, second: str) -> Iterator[tuple[str, str]]:
        """The pairs in a match, whose root comes first."""
        for i, late in enumerate(nodes):
            op, name = late[0], late[-1]
            if plain_op(op) == second:
                ends = (self._end(early) for early in nodes[i + 1 :])
                yield from ((end_name, name) for end_op, end_name in ends if end_op == first)

    def left_over(self, graph: Graph, first: str, second: str) -> Iterator[tuple[tuple[str, str], Node, Node]]:
        """The pairs that still stand side by side, by name and themselves."""
        for node in walk(graph):
            if plain_op(node.op_type) == second:
                for value in node.operands:
                    producer = _behind(value)
                    op, name = self._end((producer.op_type, *(producer.sources or (producer.name,))))
                    if op == first:
                        yield (name, _own_name(node)), producer, node

    def _end(self, node: tuple[str, ...]) -> tuple[str, str]:
        """The op and the name of what a node ends with: of Conv + Add in one it is the Add."""
        if node[0].startswith("Fused"):
            return self._ops.get(node[1], plain_op(node[0])), node[1]
        return node[0], node[-1]


def _all_matches(record: PassRecord) -> Iterator[Matched]:
    yield from record.fired
    yield from (reject.nodes for reject in record.rejects)


def passes_with_pattern(first: str, second: str) -> list[str]:
    """The passes whose pattern has a `second` that reads a `first`; passes without a pattern cannot be asked."""
    found = []
    for entry in built_in_passes():
        pattern = getattr(getattr(entry.run, "__self__", None), "pattern", ())
        roots = pattern if isinstance(pattern, tuple) else (pattern,)
        if any(_reads(root, first, second) for root in roots):
            found.append(entry.name)
    return found


def _reads(root: Op, first: str, second: str) -> bool:
    pending: list[Pattern] = [root]
    while pending:
        here = pending.pop()
        if isinstance(here, Op):
            ops = [child for child in here.inputs if isinstance(child, Op)]
            if _has(here, second) and any(_has(child, first) for child in ops):
                return True
            pending += ops
    return False


def _has(pattern: Op, op: str) -> bool:
    return any(plain_op(kind) == op for kind in pattern.types)


def _second_consumers(producer: Node, node: Node) -> Iterator[Unmet]:
    """Who else reads what the one hands to the other, in the graph that is left."""
    pending = list(producer.output.users)
    while pending:
        user = pending.pop()
        if user.op_type in _BETWEEN and not user.sources:
            pending += user.output.users
        elif user is not node:
            other = "the outputs of the graph" if user.op_type == "NetOutput" else _own_name(user)
            yield Unmet("second-consumer", _own_name(producer), other)
            return


def _placements(graph: Graph) -> dict[str, list[Reject]]:
    """Why nodes are not on a cheaper engine, by the name of the node."""
    by_name: dict[str, list[Reject]] = {}
    for record in graph.decisions.passes:
        if record.name == PLACER:
            for reject in record.rejects:
                by_name.setdefault(reject.where, []).append(reject)
    return by_name


def _behind(value: Value) -> Node:
    """Who makes a value, behind what the compiler put between."""
    node = value.producer
    while node.op_type in _BETWEEN and not node.sources and node.operands:
        node = node.operand(0).producer
    return node


def _own_name(node: Node) -> str:
    return node.sources[-1] if node.sources else node.name


# --------------------------------------------------------------------------------------------------------------------
# A node


@dataclass(frozen=True, slots=True)
class NodeStory:
    """What became of a node of the model: the nodes that stand for it, or why there is none; the matches that it was
    in, and why it is not on a cheaper engine.
    """

    name: str
    became: tuple[Node, ...]
    removed: str
    matches: tuple[Candidate, ...]
    placement: tuple[Unmet, ...]


def node_story(graph: Graph, name: str) -> NodeStory | None:
    """The story of a node of the model, of the graph, or of the node that makes the value of that name."""
    nodes = list(walk(graph))
    became = [node for node in nodes if name in node.sources] or [node for node in nodes if node.name == name]
    if not became:
        became = [_behind(value) for node in nodes for value in node.outputs if value.name == name]
    removed = graph.decisions.removed.get(name, "") if not became else ""
    matches = tuple(_matches_with(graph.decisions.passes, name))
    if not became and not removed and not matches:
        return None
    placed = _placements(graph)
    names = dict.fromkeys((name, *(node.name for node in became)))
    placement = _unmet(reject for known in names for reject in placed.get(known, ()))
    return NodeStory(name, tuple(became), removed, matches, placement)


def _matches_with(passes: Sequence[PassRecord], name: str) -> Iterator[Candidate]:
    for record in passes:
        if record.name == PLACER:
            continue
        for nodes in record.fired:
            if _is_in(nodes, name):
                yield Candidate(record.name, _names(nodes), fired=True)
        rejects = [reject for reject in record.rejects if _is_in(reject.nodes, name) or reject.where == name]
        yield from _misses(record.name, rejects)


def _is_in(nodes: Matched, name: str) -> bool:
    return any(name in names for _, *names in nodes)


# --------------------------------------------------------------------------------------------------------------------
# An engine


@dataclass(frozen=True, slots=True)
class EngineGroup:
    """Nodes of one op on an engine, and the reasons against the cheaper engines that they have in common."""

    op: str
    nodes: tuple[str, ...]
    unmet: tuple[str, ...]


def engine_groups(graph: Graph, engine: str) -> list[EngineGroup]:
    """The nodes that run on an engine, those of one op and with the same reasons together; most frequent first."""
    placed = _placements(graph)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for node in walk(graph):
        if node.engine is not None and node.engine.value == engine and not node.is_structural:
            rejects = [reject for name in dict.fromkeys((node.name, *node.sources)) for reject in placed.get(name, ())]
            why = [reject.reason + (f" ({reject.detail})" if reject.detail else "") for reject in rejects]
            groups.setdefault((node.op_type, tuple(dict.fromkeys(why))), []).append(_own_name(node))
    found = [EngineGroup(op, tuple(nodes), why) for (op, why), nodes in groups.items()]
    return sorted(found, key=lambda group: (-len(group.nodes), group.op))
