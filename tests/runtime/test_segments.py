"""How the tasks of a plan are grouped by where they run."""

from __future__ import annotations

import pytest

from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.table import pack_task
from atcpy.om.task_record import TaskRecords
from atcpy.runtime.plan import segments_of


@pytest.mark.parametrize(
    ("families", "joins", "expected"),
    [
        ("", [], []),
        ("ccc", [], [(0, 3, False, 0)]),
        ("h", [], [(0, 1, True, 0)]),
        ("hhcch", [], [(0, 1, True, 0), (1, 2, True, 0), (2, 4, False, 0), (4, 5, True, 0)]),
        ("cccc", [0, 0, 1, 1], [(0, 2, False, 0), (2, 4, False, 1)]),
        ("ccc", [0, 1, 0], [(0, 1, False, 0), (1, 2, False, 1), (2, 3, False, 0)]),
    ],
)
def test_tasks_of_c_run_together_up_to_a_task_of_the_host_and_a_join(
    families: str, joins: list[int], expected: list[tuple[int, int, bool, int]]
) -> None:
    kernels = {"c": "relu", "h": HOST_FAMILY}
    tasks = TaskRecords(b"".join(pack_task(kernels[letter], [], [], b"") for letter in families))
    found = segments_of(tasks, joins)
    assert [(each.first, each.last, each.on_host, each.joins) for each in found] == expected
    assert not any(each.is_beside for each in found)
