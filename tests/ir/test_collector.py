"""Objects of the garbage collector after its pause."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from atcpy.ir import collector
from atcpy.ir.collector import collector_paused


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What each count of the frozen objects gave."""
    counts: list[int] = []
    count = gc.get_freeze_count

    def counting() -> int:
        counts.append(count())
        return counts[-1]

    monkeypatch.setattr(gc, "get_freeze_count", counting)
    gc.unfreeze()
    yield counts
    gc.freeze()  # as tests/conftest.py does


def test_frozen_objects_are_not_counted_after_little_work(counted: list[int]) -> None:
    gc.freeze()
    with collector_paused():
        made = [[] for _ in range(1000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert (len(made), counted) == (1000, [])


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_much_work_is_in_the_oldest_generation_unless_objects_are_frozen(counted: list[int], frozen: bool) -> None:
    gc.collect()
    if frozen:
        gc.freeze()
    with collector_paused():
        made = [[] for _ in range(collector._MANY + 1000)]
    in_oldest = any(found is made[0] for found in reversed(gc.get_objects(2)))
    assert in_oldest == (not frozen)
    assert [count > 0 for count in counted] == [frozen]
