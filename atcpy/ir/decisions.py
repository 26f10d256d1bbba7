"""What each pass matched, applied and rejected, and why: one record that all views read."""

from dataclasses import dataclass, field

from atcpy.options import Deadline


@dataclass(frozen=True, slots=True)
class Reject:
    """Why something was not done. `reason` is a fixed word listed in docs/add-a-pass.md;
    `where` names the node; `detail` holds the values that decided.
    """

    reason: str
    where: str
    detail: str = ""


@dataclass(slots=True)
class PassRecord:
    """The decisions of one pass, over all the pieces of the graph that it saw; a pass that works for long
    asks its `deadline` now and then.
    """

    name: str
    stage: str
    matched: int = 0
    applied: int = 0
    rejects: list[Reject] = field(default_factory=list)
    seconds: float = 0.0
    deadline: Deadline = field(default_factory=Deadline, repr=False, compare=False)

    def reject(self, *rejects: Reject) -> None:
        """Notes why a match was left alone."""
        self.rejects.extend(rejects)


@dataclass(slots=True)
class Decisions:
    """The records of a compilation in the order of the passes, and what became of nodes that
    are gone: source node name -> why (`folded`, `dead`, `identity` …).
    """

    passes: list[PassRecord] = field(default_factory=list)
    removed: dict[str, str] = field(default_factory=dict)

    def begin(self, name: str, stage: str) -> PassRecord:
        """The record of a pass that is about to run; pieces of one graph share it."""
        for record in reversed(self.passes):
            if record.stage != stage:
                break
            if record.name == name:
                return record
        record = PassRecord(name, stage)
        self.passes.append(record)
        return record

    def counts(self) -> list[tuple[str, int, int]]:
        """(name, matched, applied) of each pass, in the order in which they ran."""
        return [(record.name, record.matched, record.applied) for record in self.passes]
