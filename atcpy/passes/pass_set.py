"""The passes of one conversion, ordered: a value that is made for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from atcpy.errors import AtcWarning, UsageError, did_you_mean
from atcpy.options import PassSwitches
from atcpy.passes.base import Pass, registered_passes
from atcpy.passes.phase import Phase


@dataclass(frozen=True, slots=True)
class PassSet:
    """Passes in the order in which they run: by phase, in a phase by `after` and `before`, otherwise by name."""

    passes: tuple[Pass, ...]

    @staticmethod
    def of(passes: Iterable[Pass]) -> PassSet:
        """Order passes. Raises UsageError (E13030) for two of one name, for an `after` or `before` that names no pass
        of the same phase, and for a cycle.
        """
        return PassSet(_ordered(tuple(passes)))

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def find(self, name: str) -> Pass | None:
        """Return the pass of that name."""
        return next((entry for entry in self.passes if entry.name == name), None)

    def extended(self, passes: Iterable[Pass]) -> PassSet:
        """Return these passes and others."""
        return PassSet.of((*self.passes, *passes))

    def where(self, predicate: Callable[[Pass], bool]) -> PassSet:
        """Return those of the passes for which the predicate holds."""
        return PassSet(tuple(filter(predicate, self.passes)))

    def check_switches(
        self, switches: PassSwitches, skipped: Sequence[str], dumped: Sequence[str] = ()
    ) -> list[AtcWarning]:
        """Check that `skipped`, limited and `dumped` passes exist, and that no required pass is switched off.

        Returns a warning for each pass of a switch file that does not exist, since ATC has passes that we do not have,
        and one for priorities, since users do not choose the order of passes.
        """
        known = {entry.name: entry for entry in self.passes}
        for name in (*skipped, *switches.limits, *dumped):
            if name not in known:
                hint = did_you_mean(name, known) or "atcpy passes list"
                raise UsageError("E10016", f'there is no pass "{name}"', hint=hint)
        for name, is_on in switches.named.items():
            if not is_on and name in known and known[name].required:
                hint = "those that `atcpy passes list` shows from O1 on can be"
                raise UsageError("E10001", f"{name} cannot be switched off: the result needs it", hint=hint)
        unknown = [name for name in dict.fromkeys((*switches.named, *switches.priorities)) if name not in known]
        warnings = [_unknown_pass(name, known) for name in unknown]
        ordered = [name for name in switches.priorities if name in known]
        if ordered:
            what = (
                f"the priority of {', '.join(ordered)} has no effect: passes run in the order that their work asks for"
            )
            warnings.append(AtcWarning("W0012", what + "; `atcpy passes list` shows it"))
        return warnings


def built_in_passes() -> PassSet:
    """Return the passes that this process has imported."""
    return PassSet.of(registered_passes())


def _unknown_pass(name: str, known: Iterable[str]) -> AtcWarning:
    hint = did_you_mean(name, known)
    return AtcWarning("W0013", f'there is no pass "{name}": its switch has no effect' + (f"; {hint}" if hint else ""))


@lru_cache(maxsize=4)
def _ordered(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    by_name: dict[str, Pass] = {}
    for entry in sorted(passes, key=lambda entry: entry.name):
        if entry.name in by_name:
            raise UsageError("E13030", f"the pass {entry.name} is registered twice", hint="rename one of the two")
        by_name[entry.name] = entry
    ordered: list[Pass] = []
    for phase in Phase:
        ordered += _ordered_phase([entry for entry in by_name.values() if entry.phase is phase], by_name)
    return tuple(ordered)


def _ordered_phase(passes: Sequence[Pass], known: Mapping[str, Pass]) -> Iterator[Pass]:
    predecessors: dict[str, set[str]] = {entry.name: set(entry.after) for entry in passes}
    for entry in passes:
        for field, names in (("after", entry.after), ("before", entry.before)):
            for name in names:
                if name not in predecessors:
                    raise _refused(entry, field, name, known)
        for name in entry.before:
            predecessors[name].add(entry.name)
    waiting = {entry.name: entry for entry in passes}
    while waiting:
        ready = next((entry for entry in waiting.values() if predecessors[entry.name].isdisjoint(waiting)), None)
        if ready is None:
            raise UsageError("E13030", f"the order of the passes {', '.join(waiting)} is a cycle")
        yield waiting.pop(ready.name)


def _refused(entry: Pass, field: str, name: str, known: Mapping[str, Pass]) -> UsageError:
    what = f"the pass {entry.name} cannot be ordered: {field} names {name}"
    if name not in known:
        return UsageError("E13030", f"{what}, which is no pass", hint=did_you_mean(name, known) or "atcpy passes list")
    phases = f"{known[name].phase.name}, not {entry.phase.name}"
    return UsageError("E13030", f"{what}, whose phase is {phases}", hint="phases run in the order of `passes/phase.py`")
