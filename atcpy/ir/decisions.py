"""What each pass matched, applied and rejected, and why: one record that all views read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from atcpy.deadline import Deadline

if TYPE_CHECKING:
    from atcpy.ir.node import Node


# The nodes of a match, from the pattern's root upwards: the op of each, then the names of the model's nodes that it
# stands for, or its own where there is none.
Matched = tuple[tuple[str, ...], ...]
_MAX_NAMES = 16  # source nodes listed for one node, which may stand for very many


@dataclass(frozen=True, slots=True)
class Reject:
    """Why something was not done. `reason` is a fixed word listed in docs/add-a-pass.md;
    `where` names the node; `detail` holds the values that decided. `nodes` are those of the match, where there was
    one.
    """

    reason: str
    where: str
    detail: str = ""
    nodes: Matched = ()


@dataclass(frozen=True, slots=True)
class PassCount:
    """What a pass did."""

    name: str
    matched: int
    applied: int


@dataclass(slots=True)
class PassRecord:
    """The decisions of one pass, over all the pieces of the graph that it saw; a pass that works for long
    asks its `deadline` now and then. `fired` are the matches that were rewritten, in order; with a `limit`
    there are no more than so many: that is how `passes bisect` finds the one that breaks a model.
    """

    name: str
    stage: str
    matched: int = 0
    applied: int = 0
    rejects: list[Reject] = field(default_factory=list)
    fired: list[Matched] = field(default_factory=list)
    seconds: float = 0.0
    limit: int | None = None
    obeys_limit: bool = False
    deadline: Deadline = field(default_factory=Deadline, repr=False, compare=False)

    def reject(self, *rejects: Reject) -> None:
        """Notes why a match was left alone."""
        self.rejects.extend(rejects)

    def may_apply(self) -> bool:
        """May one more match be rewritten? A pass asks before each."""
        self.obeys_limit = True
        return self.limit is None or self.applied < self.limit

    def accept(self, nodes: Iterable[Node], *rejects: Reject) -> bool:
        """Note a match: the reasons against it, or that its nodes, the root first, are rewritten now. Return whether
        the pass shall rewrite them.
        """
        self.matched += 1
        self.reject(*rejects)
        if rejects or not self.may_apply():
            return False
        self.fire(nodes)
        return True

    def fire(self, nodes: Iterable[Node]) -> None:
        """Counts a rewrite of these nodes, the root first; called before they are gone."""
        self.fired.append(matched_nodes(nodes))
        self.applied += 1


def matched_nodes(nodes: Iterable[Node]) -> Matched:
    """What is kept of the nodes of a match."""
    return tuple((node.op_type, *(node.sources or (node.name,))[:_MAX_NAMES]) for node in nodes)


ALLREDUCE_FUSION: Final = "HcomAllReduceFusionPass"


@dataclass(frozen=True, slots=True)
class AllReducePlan:
    """What became of the allreduces of a graph, and how long the model of costs says that they take on `ranks` ranks,
    until the last one has ended: `seconds` as they are now, and if they were alone or split by default.

    `algorithms` has how many collectives are cheapest by which. Where they were joined, `fused_copies` are the copies
    that are left between gradients, collective and readers, and `port_copies` those out of and into callers' arrays;
    None where memory is planned when shapes are known.
    """

    allreduces: int
    collectives: int
    ranks: int
    seconds: float
    seconds_alone: float
    seconds_default: float
    algorithms: Mapping[str, int]
    fused_copies: int | None = None
    port_copies: int | None = None


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision mode, the model's nodes that compute in another type by it, and those that would but for the user
    or a list. `outputs` are those behind lowered nodes, each with the type that its precision is of. Callers feed
    `float16_inputs` and fetch `cast_outputs` in other types than the model has.
    """

    mode: str = "origin"
    lowered: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    float16_inputs: tuple[str, ...] = ()
    cast_outputs: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()  # constants with elements beyond the range of their new type


class Moment(Enum):
    """When a pass is watched."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(slots=True)
class Decisions:
    """The records of a compilation in the order of the passes, and what became of nodes that
    are gone: source node name -> why (`folded`, `dead`, `identity` …); what became of its allreduces and its precision.

    running: the pass that began last. erased: the pass that erased the last node with a source, whether another node
    has that source or not.
    """

    passes: list[PassRecord] = field(default_factory=list)
    removed: dict[str, str] = field(default_factory=dict)
    allreduce: AllReducePlan | None = None
    precision: Precision = field(default_factory=Precision)
    running: str = "the importer"
    erased: dict[str, str] = field(default_factory=dict)
    _latest: dict[str, PassRecord] = field(default_factory=dict, repr=False, compare=False)  # of the stage that runs

    def begin(self, name: str, stage: str) -> PassRecord:
        """The record of a pass that is about to run; pieces of one graph share it."""
        self.running = name
        if not self.passes or self.passes[-1].stage != stage:
            self._latest.clear()
        record = self._latest.get(name)
        if record is None:
            record = self._latest[name] = PassRecord(name, stage)
            self.passes.append(record)
        return record

    def account_for(self, living: Collection[str]) -> None:
        """Give each source a reason that was erased and is not among those of the nodes that are left."""
        for source, name in self.erased.items():
            self.removed.setdefault(source, f"replaced by {name}")
        for source in living:
            self.removed.pop(source, None)

    def counts(self) -> list[tuple[str, int, int]]:
        """(name, matched, applied) of each pass, in the order in which they ran."""
        return [(record.name, record.matched, record.applied) for record in self.passes]
