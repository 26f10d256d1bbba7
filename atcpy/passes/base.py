"""What a pass is, and the one place that orders and runs them.

A pass is one file under `passes/<stage>/`; it declares its name, its stage and what it must come
after or before. `run_passes` runs those of a stage that are on, in that order, each with a record
of its decisions; then those that repeat, as long as another pass has changed the graph since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypedDict, Unpack

from atcpy.errors import AtcWarning, InternalError, UsageError, did_you_mean
from atcpy.ir import Graph, PassRecord
from atcpy.ir.decisions import Moment
from atcpy.ir.verify import verify
from atcpy.options import Deadline, OoLevel, PassSwitches, Stage

# The graph, the record to note decisions in, and the options of the pass's stage.
RunPass = Callable[[Graph, PassRecord, Any], None]


MAX_ROUNDS = 4  # how often a pass that repeats runs at most on one graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One transformation.

    after, before: the names of passes of its stage that come earlier and later.
    level: the lowest optimisation level at which it runs.
    required: it runs at every level and `ALL:off` spares it.
    on_whole: of the stage optimize, it runs after the pieces, one for each engine, were merged.
    is_neutral: its result is standard ONNX and as good for any other runtime: `optimize` runs it, too.
    makes: ops that it may bring into the graph; `optimize` leaves it out where the model's opset lacks one.
    repeats: a clean-up to which later rewrites give new work: it runs again after them.
    """

    name: str
    stage: Stage
    run: RunPass
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    level: OoLevel = OoLevel.O1
    required: bool = False
    summary: str = ""
    on_whole: bool = False
    is_neutral: bool = True
    makes: tuple[str, ...] = ()
    repeats: bool = False


_REGISTRY: dict[str, Pass] = {}


class Declared(TypedDict, total=False):
    """What a pass may say of itself beside its name and stage: the fields of `Pass`."""

    after: tuple[str, ...]
    before: tuple[str, ...]
    level: OoLevel
    required: bool
    on_whole: bool
    is_neutral: bool
    makes: tuple[str, ...]
    repeats: bool


def declare_pass(name: str, stage: Stage, run: RunPass, doc: str | None, **declared: Unpack[Declared]) -> None:
    """Makes a pass known, with the first line of its docstring; a second one of the same name is a mistake."""
    assert name not in _REGISTRY, f"pass {name} is registered twice"
    if declared.get("required"):
        declared["level"] = OoLevel.O0
    summary = (doc or "").strip().partition("\n")[0]
    _REGISTRY[name] = Pass(name=name, stage=stage, run=run, summary=summary, **declared)
    passes_of.cache_clear()


def graph_pass(name: str, stage: Stage, **declared: Unpack[Declared]) -> Callable[[RunPass], RunPass]:
    """Declares a function as a pass."""

    def declare(run: RunPass) -> RunPass:
        declare_pass(name, stage, run, run.__doc__, **declared)
        return run

    return declare


@cache
def passes_of(stage: Stage, first: tuple[Pass, ...] = ()) -> tuple[Pass, ...]:
    """The passes of a stage in the order in which they run: each behind those that it must come
    after, otherwise by name. `first` are some of this conversion alone, which run as early as they can.
    """
    by_name = sorted(_REGISTRY.values(), key=lambda entry: entry.name)
    mine = [entry for entry in (*first, *by_name) if entry.stage is stage]
    after = {entry.name: set(entry.after) for entry in mine}
    for entry in mine:
        for name in entry.before:
            after[name].add(entry.name)
    waiting = {entry.name: entry for entry in mine}
    ordered: list[Pass] = []
    while waiting:
        ready = [entry for entry in waiting.values() if after[entry.name].isdisjoint(waiting)]
        if not ready:
            raise InternalError(f"the order of the passes {', '.join(waiting)} is a cycle")
        ordered.append(ready[0])
        del waiting[ready[0].name]
    return tuple(ordered)


def find_pass(name: str) -> Pass | None:
    """The pass of that name."""
    return _REGISTRY.get(name)


def check_switches(
    switches: PassSwitches, skipped: Sequence[str], first: tuple[Pass, ...] = (), dumped: Sequence[str] = ()
) -> list[AtcWarning]:
    """Refuses to leave out or dump a pass that there is not, and to leave out one without which the result would be
    wrong. Switch files may name passes of ATC's that we do not have: a warning each; and one for priorities, since the
    order of passes is not for users to choose.
    """
    known = {**_REGISTRY, **{entry.name: entry for entry in first}}
    for name in (*skipped, *switches.limits, *dumped):
        if name not in known:
            hint = did_you_mean(name, known) or "atcpy passes list"
            raise UsageError("E10016", f'there is no pass "{name}"', hint=hint)
    for name, is_on in switches.named.items():
        if not is_on and name in _REGISTRY and _REGISTRY[name].required:
            hint = "those that `atcpy passes list` shows from O1 on can be"
            raise UsageError("E10001", f"{name} cannot be switched off: the result needs it", hint=hint)
    unknown = [name for name in dict.fromkeys((*switches.named, *switches.priorities)) if name not in known]
    warnings = [_unknown_pass(name, known) for name in unknown]
    ordered = [name for name in switches.priorities if name in known]
    if ordered:
        what = f"the priority of {', '.join(ordered)} has no effect: passes run in the order that their work asks for"
        warnings.append(AtcWarning("W0012", what + "; `atcpy passes list` shows it"))
    return warnings


def _unknown_pass(name: str, known: Iterable[str]) -> AtcWarning:
    hint = did_you_mean(name, known)
    return AtcWarning("W0013", f'there is no pass "{name}": its switch has no effect' + (f"; {hint}" if hint else ""))


def run_passes(
    stage: Stage,
    graph: Graph,
    options: Any,
    *,
    deadline: Deadline,
    verify_ir: bool,
    on_whole: bool = False,
    wanted: Callable[[Pass], bool] = lambda entry: True,
    first: tuple[Pass, ...] = (),
) -> None:
    """Runs the passes of a stage, and `first` among them, on a graph, or on a piece of it. `options` is the stage's
    record, whose `level` and `switches` say which passes are on; `wanted` leaves out further ones.
    """
    level: OoLevel = options.level
    switches: PassSwitches = options.switches
    turns = [
        _Turn(entry, switches.limits.get(entry.name))
        for entry in passes_of(stage, first)
        if entry.on_whole is on_whole
        and level >= entry.level
        and switches.enabled(entry.name, required=entry.required)
        and wanted(entry)
    ]
    changes = 0  # of the graph, by all passes so far
    for number in range(MAX_ROUNDS):
        before = changes
        for turn in turns:
            if number == 0 or (turn.entry.repeats and turn.seen < changes):
                deadline.check(f"pass {turn.entry.name}")
                changes += turn.run(graph, options, deadline)
                turn.seen = changes
                if verify_ir:
                    verify(graph, turn.entry.name)
        if changes == before:
            return


@dataclass(slots=True)
class _Turn:
    """A pass, of how many matches it may rewrite, and what it noted on this graph. `seen` counts the changes of the
    graph that it knows of.
    """

    entry: Pass
    limit: int | None = None
    seen: int = 0
    left_alone: int = 0  # matches that it rejected when it ran last
    reasons: int = 0  # why: the last so many of the record

    def run(self, graph: Graph, options: Any, deadline: Deadline) -> int:
        """Runs it, once more perhaps, and returns how often it applied. Matches that were left alone before are
        asked again, and counted once.
        """
        record = graph.decisions.begin(self.entry.name, self.entry.stage.value)
        record.deadline, record.limit = deadline, self.limit
        record.matched -= self.left_alone
        del record.rejects[len(record.rejects) - self.reasons :]
        matched, applied, reasons = record.matched, record.applied, len(record.rejects)
        watch = graph.decisions.watch
        if watch is not None:
            watch(self.entry.name, graph, Moment.BEFORE)
        start = time.perf_counter()
        self.entry.run(graph, record, options)
        record.seconds += time.perf_counter() - start
        if watch is not None:
            watch(self.entry.name, graph, Moment.AFTER)
        applied = record.applied - applied
        self.left_alone = record.matched - matched - applied
        self.reasons = len(record.rejects) - reasons
        return applied
