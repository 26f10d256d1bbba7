"""What a pass is, and how one is declared.

A pass is one file under `passes/<stage>/`, for prepare `passes/prepare/<family>/`. It declares its name, its phase and
the passes of that phase that it must come after or before. `pass_set.py` orders passes, `pass_manager.py` runs them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from atcpy.errors import UsageError
from atcpy.ir import Graph, PassRecord
from atcpy.ops.custom import keep_for_file
from atcpy.options import OoLevel, Stage
from atcpy.passes.phase import Phase

# The graph, the record to note decisions in, and the options of the pass's stage.
RunPass = Callable[[Graph, PassRecord, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One transformation.

    after, before: the names of passes of its phase that come earlier and later.
    level: the lowest optimisation level at which it runs.
    required: it runs at every level and `ALL:off` spares it.
    is_neutral: its result is standard ONNX and as good for any other runtime: `optimize` runs it, too.
    makes: ops that it may bring into the graph; `optimize` leaves it out where the model's opset lacks one.
    repeats: a clean-up to which later rewrites give new work: it runs again after them.
    """

    name: str
    phase: Phase
    run: RunPass
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    level: OoLevel = OoLevel.O1
    required: bool = False
    summary: str = ""
    is_neutral: bool = True
    makes: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def stage(self) -> Stage:
        """The stage of its phase."""
        return self.phase.stage

    @property
    def module(self) -> str:
        """The module that declares it."""
        owner = getattr(self.run, "__self__", None)
        return type(owner).__module__ if owner is not None else self.run.__module__

    @property
    def family(self) -> str:
        """The folder of its stage that it stands in, empty where the stage has none."""
        folders = self.module.removeprefix(f"atcpy.passes.{self.stage.value}.").split(".")
        return folders[0] if len(folders) == 2 else ""

    @property
    def doc(self) -> str:
        """The docstring of its module, which gives its formula."""
        return (sys.modules[self.module].__doc__ or "").strip()


# The passes of this process, by name.
_REGISTRY: dict[str, Pass] = {}


class Declared(TypedDict, total=False):
    """What a pass may declare beside its name and phase: the fields of `Pass`."""

    after: tuple[str, ...]
    before: tuple[str, ...]
    level: OoLevel
    required: bool
    is_neutral: bool
    makes: tuple[str, ...]
    repeats: bool


def declare_pass(name: str, phase: Phase, run: RunPass, doc: str | None, **declared: Unpack[Declared]) -> None:
    """Register a pass, with the first line of its docstring as its summary.

    The passes of a `--custom-ops` file belong to the calls that name the file, others to the process.
    """
    if declared.get("required"):
        declared["level"] = OoLevel.O0
    summary = (doc or "").strip().partition("\n")[0]
    entry = Pass(name=name, phase=phase, run=run, summary=summary, **declared)
    if entry.module.startswith("atcpy.") or not keep_for_file(entry):
        if name in _REGISTRY:
            raise UsageError("E13030", f"the pass {name} is registered twice", hint="rename one of the two")
        _REGISTRY[name] = entry


def graph_pass(name: str, phase: Phase, **declared: Unpack[Declared]) -> Callable[[RunPass], RunPass]:
    """Declare a function as a pass."""

    def declare(run: RunPass) -> RunPass:
        declare_pass(name, phase, run, run.__doc__, **declared)
        return run

    return declare


def registered_passes() -> tuple[Pass, ...]:
    """Return the passes of this process, in the order in which they were declared."""
    return tuple(_REGISTRY.values())
