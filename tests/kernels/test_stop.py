"""Kernels end within an item when the time of a run is over; executors ask between items only."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import pytest

from atcpy.ir import Value
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.ops import KernelCall
from tests import harness
from tests.isa import ISAS
from tests.long_items import LONG_ITEMS, LongItem

QUICK = ["reduction", "cumulation", "top", "product", "recurrence", "scattered_rows"]
BEST = ISAS[-1]


def run(item: LongItem, isa: str) -> list[Array]:
    node = harness.make_node(item.op_type, item.arrays, item.attrs, constants=item.constants, outputs=item.outputs)
    return harness.run_op(node, item.arrays, isa=isa if isa != BEST else None, rewrite=item.rewrite)


def results_at_the_deadline(item: LongItem, family: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the results of the family's task hold after a run whose time is over as it begins."""
    results: list[bytes] = []
    real = harness.run_call

    def run_call(call: KernelCall, memory: Mapping[Value, Array], *, isa: str | None, threads: int) -> str:
        if call.family != family:
            return real(call, memory, isa=isa, threads=threads)
        _kernels.set_deadline(time.monotonic_ns() + 1)
        try:
            return real(call, memory, isa=isa, threads=threads)
        finally:
            _kernels.set_deadline(0)
            results.extend(memory[value].tobytes() for value in call.dst)

    with monkeypatch.context() as patch, pytest.raises(TimeoutError):
        patch.setattr(harness, "run_call", run_call)
        run(item, isa)
    return results


def results_without_deadline(item: LongItem, family: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    results: list[bytes] = []
    real = harness.run_call

    def run_call(call: KernelCall, memory: Mapping[Value, Array], *, isa: str | None, threads: int) -> str:
        row = real(call, memory, isa=isa, threads=threads)
        if call.family == family:
            results.extend(memory[value].tobytes() for value in call.dst)
        return row

    with monkeypatch.context() as patch:
        patch.setattr(harness, "run_call", run_call)
        for ours, right in zip(run(item, isa), item.right(), strict=True):
            assert_close(ours, right)
    return results


def assert_close(ours: Array, right: Array) -> None:
    """np.testing takes seconds for as many elements."""
    assert ours.shape == right.shape
    if not np.array_equal(ours, right):
        assert ours.dtype.kind == "f"
        assert np.abs(ours - right).max() <= 1e-5 * np.abs(right).max()


def check(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, make = LONG_ITEMS[name]
    item = make()
    ended = results_at_the_deadline(item, family, isa, monkeypatch)
    whole = results_without_deadline(item, family, isa, monkeypatch)
    was_done = ended == whole  # pytest would print both
    assert not was_done, f"{family} was done before it ended"


@pytest.mark.parametrize("name", QUICK)
def test_an_item_ends_at_the_deadline_and_the_next_run_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, BEST, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(LONG_ITEMS) - set(QUICK)))
def test_other_items_end_at_the_deadline_and_the_next_run_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, BEST, monkeypatch)
