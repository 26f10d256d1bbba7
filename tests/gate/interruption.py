"""Runs that end at random moments, for a deadline or an interrupt: each must end within 50 ms of it.

    python -m tests.gate.interruption --tries 500 --seed 1

A model has one node, whose kernel has few items, or one, of many milliseconds. What is late is what its kernel does
between two asks, and what the scheduler gives to others: a run that ends later is repeated, and the soonest counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import atcpy
from atcpy.errors import ResourceLimit
from atcpy.ir.tensor import Array
from tests.long_items import IN_MODELS, LONG_ITEMS, LongItem

LIMIT_MS = 50
REPEATS = 4
KINDS = ("timeout", "interrupt")
_THREADS = (1, 2)


@dataclass(frozen=True)
class Subject:
    """A model that runs for long, and how long."""

    family: str
    session: atcpy.InferenceSession
    feeds: Mapping[str, Array]
    seconds: float


def model_of(item: LongItem) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node, and its inputs. A list of nothing is an input that is left out."""
    names = ["" if array.shape == (0,) else f"x{index}" for index, array in enumerate(item.arrays)]
    outputs = [f"y{index}" for index in range(item.outputs)]
    given = {name: array for name, array in zip(names, item.arrays, strict=True) if name}
    constants = {names[index] for index in item.constants} & set(given)
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
        if name not in constants
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    node = helper.make_node(item.op_type, names, outputs, "node", domain=item.domain, **item.attrs)
    weights = [numpy_helper.from_array(given[name], name) for name in sorted(constants)]
    graph = helper.make_graph([node], "graph", ports, results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(item.domain, item.opset)], ir_version=10)
    return model, {name: array for name, array in given.items() if name not in constants}


def names_of_models() -> list[str]:
    """The items that a model of one node has."""
    return [name for name in sorted(LONG_ITEMS) if IN_MODELS.get(name, LONG_ITEMS[name][1]) is not None]


def subject_of(name: str, threads: int, folder: Path) -> Subject:
    """The model of an item, converted and timed."""
    family, make = LONG_ITEMS[name]
    of_model = IN_MODELS.get(name, make)
    assert of_model is not None
    model, feeds = model_of(of_model())
    source, package = folder / "model.onnx", folder / f"{name}{threads}.om"
    onnx.save(model, source)
    atcpy.convert(source, package)
    session = atcpy.InferenceSession(package, threads=threads)
    session.run(None, feeds)
    start = time.monotonic()
    session.run(None, feeds)
    seconds = time.monotonic() - start
    print(f"{name}: {seconds * 1e3:.0f} ms, {threads} threads", file=sys.stderr)
    return Subject(family, session, feeds, seconds)


def lateness_of_timeout(subject: Subject, seconds: float) -> float | None:
    """How many milliseconds after its time a run ends; None if it is done before."""
    start = time.monotonic()
    try:
        subject.session.run(None, subject.feeds, timeout=seconds)
    except ResourceLimit:
        return (time.monotonic() - start - seconds) * 1e3
    return None


def lateness_of_interrupt(subject: Subject, seconds: float) -> float | None:
    """How many milliseconds after a signal a run ends; None if it is done before."""
    sent = [0.0]

    def send() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    is_done = False
    try:
        timer.start()
        subject.session.run(None, subject.feeds)
        is_done = True
        timer.join()
        time.sleep(1)  # the signal may be on its way
    except KeyboardInterrupt:
        late = (time.monotonic() - sent[0]) * 1e3
        timer.join()
        return None if is_done else late
    raise AssertionError("the interrupt was lost")


def lateness(folder: Path, tries: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """By family, how many milliseconds late each run ended that was ended at all. What is drawn is converted then."""
    late: dict[str, list[float]] = defaultdict(list)
    threads = {name: int(rng.choice(_THREADS)) for name in names_of_models()}
    subject_named = cache(lambda name: subject_of(name, threads[name], folder))
    for _ in range(tries):
        subject = subject_named(str(rng.choice([*threads])))
        end = lateness_of_timeout if rng.choice(KINDS) == "timeout" else lateness_of_interrupt
        seconds = subject.seconds * rng.uniform(0.02, 0.9)
        milliseconds = end(subject, seconds)
        for _ in range(REPEATS):
            if milliseconds is not None and milliseconds > LIMIT_MS:
                seconds /= 2  # the next one is not to be done before
                milliseconds = min(milliseconds, end(subject, seconds) or milliseconds)
        if milliseconds is not None:
            late[subject.family].append(milliseconds)
    return late


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gate.interruption", description=__doc__)
    parser.add_argument("--tries", type=int, default=300, help="runs that are ended (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of models and moments (default: %(default)s)")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background commands ignore it
    with tempfile.TemporaryDirectory() as folder:
        late = lateness(Path(folder), options.tries, rng)
    print(f"{'family':18} {'runs':>5} {'p99 ms':>8} {'max ms':>8}")
    for family, times in sorted(late.items()):
        print(f"{family:18} {len(times):5} {np.quantile(times, 0.99):8.1f} {max(times):8.1f}")
    too_late = sorted(family for family, times in late.items() if max(times) > LIMIT_MS)
    if too_late:
        print(f"later than {LIMIT_MS} ms: {', '.join(too_late)}")
    latest = max((max(times) for times in late.values()), default=0.0)
    print(f"{options.tries} tries of {len(late)} families, the latest {latest:.0f} ms late")
    return 1 if too_late or not late else 0


if __name__ == "__main__":
    sys.exit(main())
