"""What a pass is, and the one place that orders and runs them.

A pass is one file under `passes/<stage>/`; it declares its name, its stage and what it must come
after. `run_passes` runs those of a stage that are on, in that order, each with a record of its
decisions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from atcpy.errors import InternalError, UsageError, did_you_mean
from atcpy.ir import Graph, PassRecord
from atcpy.ir.verify import verify
from atcpy.options import Deadline, OoLevel, PassSwitches, Stage

# The graph, the record to note decisions in, and the options of the pass's stage.
RunPass = Callable[[Graph, PassRecord, Any], None]


@dataclass(frozen=True, slots=True)
class Pass:
    """One transformation. `level` is the lowest optimisation level at which it runs; a `required`
    pass runs at every level and `ALL:off` spares it. Passes of the stage optimize see one engine's
    piece of the graph, but for those `on_whole`, which run after the pieces were merged.
    """

    name: str
    stage: Stage
    run: RunPass
    after: tuple[str, ...]
    level: OoLevel
    required: bool
    summary: str
    on_whole: bool = False


_REGISTRY: dict[str, Pass] = {}


def register_pass(entry: Pass) -> None:
    """Makes a pass known; a second one of the same name is a mistake."""
    assert entry.name not in _REGISTRY, f"pass {entry.name} is registered twice"
    _REGISTRY[entry.name] = entry
    passes_of.cache_clear()


def graph_pass(
    name: str,
    stage: Stage,
    *,
    after: tuple[str, ...] = (),
    level: OoLevel = OoLevel.O1,
    required: bool = False,
    on_whole: bool = False,
) -> Callable[[RunPass], RunPass]:
    """Declares a function as a pass."""

    def declare(run: RunPass) -> RunPass:
        summary = (run.__doc__ or "").strip().partition("\n")[0]
        lowest = OoLevel.O0 if required else level
        register_pass(Pass(name, stage, run, after, lowest, required, summary, on_whole))
        return run

    return declare


@cache
def passes_of(stage: Stage) -> tuple[Pass, ...]:
    """The passes of a stage in the order in which they run: each behind those that it must come
    after, otherwise by name.
    """
    waiting = {entry.name: entry for entry in sorted(_REGISTRY.values(), key=lambda p: p.name) if entry.stage is stage}
    ordered: list[Pass] = []
    while waiting:
        ready = [entry for entry in waiting.values() if not any(name in waiting for name in entry.after)]
        if not ready:
            raise InternalError(f"the order of the passes {', '.join(waiting)} is a cycle")
        ordered.append(ready[0])
        del waiting[ready[0].name]
    return tuple(ordered)


def check_switches(switches: PassSwitches, skipped: Sequence[str]) -> None:
    """Refuses to leave out a pass that there is not, or one without which the result would be wrong. Switch files
    may name passes of ATC's that we do not have.
    """
    for name in skipped:
        if name not in _REGISTRY:
            hint = did_you_mean(name, _REGISTRY) or "atcpy passes list"
            raise UsageError("E10016", f'there is no pass "{name}"', hint=hint)
    for name, is_on in switches.named.items():
        if not is_on and name in _REGISTRY and _REGISTRY[name].required:
            hint = "those that `atcpy passes list` shows from O1 on can be"
            raise UsageError("E10001", f"{name} cannot be switched off: the result needs it", hint=hint)


def run_passes(
    stage: Stage,
    graph: Graph,
    options: Any,
    *,
    deadline: Deadline,
    verify_ir: bool,
    on_whole: bool = False,
) -> None:
    """Runs the passes of a stage on a graph, or on a piece of it. `options` is the stage's record, whose `level` and
    `switches` say which passes are on.
    """
    level: OoLevel = options.level
    switches: PassSwitches = options.switches
    for entry in passes_of(stage):
        if (
            entry.on_whole is not on_whole
            or level < entry.level
            or not switches.enabled(entry.name, required=entry.required)
        ):
            continue
        deadline.check(f"pass {entry.name}")
        record = graph.decisions.begin(entry.name, stage.value)
        record.deadline = deadline
        start = time.perf_counter()
        entry.run(graph, record, options)
        record.seconds += time.perf_counter() - start
        if verify_ir:
            verify(graph, entry.name)
