"""The oracle for a package whose run repeats the model: as many runs of the model's oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from atcpy import InferenceSession
from atcpy.errors import PackageCorrupt
from atcpy.options import IterationsPerLoop
from atcpy.verify.inputs import Feeds
from atcpy.verify.oracle import Oracle

_Run = Callable[[Feeds, Sequence[str]], list[Any]]


def require_loop(session: InferenceSession, loop: IterationsPerLoop) -> None:
    """Raise PackageCorrupt (P0005) if a package records iterations that its inputs and outputs do not have."""
    shapes = {port.name: port.shape or () for port in session.get_inputs()}
    outputs = {port.name for port in session.get_outputs()}
    are_known = {*loop.stepped, *loop.states.values()} <= shapes.keys() and loop.states.keys() <= outputs
    if not are_known or any(shapes[name][:1] != (loop.count,) for name in loop.stepped):
        raise PackageCorrupt("P0005", "its command line has iterations of other inputs and outputs")


def iterated(oracle: Oracle, loop: IterationsPerLoop) -> Oracle:
    """An oracle that runs a model as often as a package does, each time with the states of the run before."""
    return replace(
        oracle,
        run=partial(_iterate, oracle.run, loop),
        run_optimised=partial(_iterate, oracle.run_optimised, loop),
        exact=lambda feeds: None,
    )


def _iterate(run: _Run, loop: IterationsPerLoop, feeds: Feeds, names: Sequence[str]) -> list[Any]:
    """The outputs of the last run, those of `names`."""
    computed = [*names, *(name for name in loop.states if name not in names)]
    now = dict(feeds)
    for number in range(loop.count):
        now.update({name: feeds[name][number, ...] for name in loop.stepped})
        results = dict(zip(computed, run(now, computed), strict=True))
        now.update({old: results[new] for new, old in loop.states.items()})
    return [results[name] for name in names]
