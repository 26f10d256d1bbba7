"""The bugs that `python -m tests.fuzz.planted` plants fit the sources."""

from __future__ import annotations

import pytest

from tests.fuzz.planted import BUGS, CSRC, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.name}: {bug.kind}")
def test_a_bug_changes_one_place(bug: Bug) -> None:
    assert (CSRC / bug.file).read_text().count(bug.old) == 1
    assert bug.old != bug.new


def test_bugs_are_of_many_kinds() -> None:
    assert len({bug.kind for bug in BUGS}) >= 12
