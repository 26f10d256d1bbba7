"""Running passes on a graph: which are on, until when, and what is checked and observed around each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from atcpy.deadline import Deadline
from atcpy.errors import InternalError, ModelInvalid
from atcpy.ir import Graph, walk
from atcpy.ir.decisions import Moment
from atcpy.ir.verify import verify
from atcpy.options import CompileOptions, ConvertOptions, OptimizeOptions, PrepareOptions, SplitOptions, Stage
from atcpy.passes.base import Pass
from atcpy.passes.pass_set import PassSet, built_in_passes
from atcpy.passes.phase import Phase
from atcpy.passes.type_check import TypeCheck

_StageOptions = PrepareOptions | SplitOptions | OptimizeOptions | CompileOptions
MAX_ROUNDS = 4  # runs of a repeating pass on one graph


@dataclass(frozen=True, slots=True)
class PassManager:
    """Runs the passes of a conversion.

    `observe` is called before and after each pass with its name and the graph. Where `options.verify_ir` is set, the
    graph's invariants are verified after each pass, and the types of values after those of prepare.
    """

    options: ConvertOptions = field(default_factory=ConvertOptions)
    passes: PassSet = field(default_factory=built_in_passes)
    deadline: Deadline = field(default_factory=Deadline)
    observe: Callable[[str, Graph, Moment], None] | None = None
    # What runs, and with which options, by phases.
    _selected: dict[tuple[Phase, ...], list[tuple[Pass, _StageOptions]]] = field(default_factory=dict, init=False)

    def run(self, graph: Graph, *phases: Phase, argument: object = None) -> None:
        """Run the passes of these phases of one stage on a graph, or on a piece of it; then those that repeat, as long
        as another pass has changed the graph since. Passes get the options of their stage, or `argument` instead.
        """
        runs = [_PassRun(entry, options) for entry, options in self._select(phases)]
        checks_types = self.options.verify_ir and any(run.entry.stage is Stage.PREPARE for run in runs)
        types = TypeCheck(graph) if checks_types else None
        changes = 0  # of the graph, by all passes so far
        for number in range(MAX_ROUNDS):
            before = changes
            for run in runs:
                if number == 0 or (run.entry.repeats and run.seen < changes):
                    self.deadline.check(f"pass {run.entry.name}")
                    changes += self._run(run, graph, argument, types)
                    run.seen = changes
            if changes == before:
                return

    def run_bodies(self, graph: Graph, *phases: Phase) -> None:
        """Run the passes of these phases on the bodies of a graph's If, Loop and Scan."""
        for body in [body for node in walk(graph) for body in node.subgraphs]:
            body.decisions = graph.decisions
            try:
                self.run(body, *phases)
            except ModelInvalid as error:
                # A branch that is never taken with these shapes may be one that does not fit.
                if error.code != "EZ8888":
                    raise

    def _select(self, phases: tuple[Phase, ...]) -> list[tuple[Pass, _StageOptions]]:
        found = self._selected.get(phases)  # many pieces are run through the same phases
        if found is None:
            candidates = [(entry, self._options_of(entry.stage)) for entry in self.passes if entry.phase in phases]
            found = self._selected[phases] = [
                (entry, options)
                for entry, options in candidates
                if options.level >= entry.level
                and options.switches.enabled(entry.name, required=entry.required)
                and not (entry.phase is Phase.QUANTISE and self.options.prepare.quant_dumpable)
            ]
        return found

    def _options_of(self, stage: Stage) -> _StageOptions:
        options: _StageOptions = getattr(self.options, stage.value)
        return options

    def _run(self, run: _PassRun, graph: Graph, argument: object, types: TypeCheck | None) -> int:
        """Run a pass, perhaps once more, and return how often it applied. Matches that were left alone before are tried
        again, and counted once.
        """
        entry, options = run.entry, run.options
        record = graph.decisions.begin(entry.name, entry.stage.value)
        record.deadline, record.limit = self.deadline, options.switches.limits.get(entry.name)
        record.matched -= run.unapplied
        del record.rejects[len(record.rejects) - run.rejects :]
        matched, applied, rejects = record.matched, record.applied, len(record.rejects)
        if self.observe is not None:
            self.observe(entry.name, graph, Moment.BEFORE)
        start = time.perf_counter()
        entry.run(graph, record, options if argument is None else argument)
        record.seconds += time.perf_counter() - start
        if self.observe is not None:
            self.observe(entry.name, graph, Moment.AFTER)
        if self.options.verify_ir:
            verify(graph, entry.name)
        for problem in () if types is None else types.new_problems():
            raise InternalError(f"pass {entry.name} broke a type: {problem}")
        applied = record.applied - applied
        run.unapplied = record.matched - matched - applied
        run.rejects = len(record.rejects) - rejects
        return applied


@dataclass(slots=True)
class _PassRun:
    """A pass and what it noted on this graph."""

    entry: Pass
    options: _StageOptions
    seen: int = 0  # changes of the graph when it ran last
    unapplied: int = 0  # matches that it rejected when it ran last
    rejects: int = 0  # why: as many of the last ones in the record
