"""The families of kernels, by their names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atcpy.kernels import _kernels, table


def refusal(name: str) -> str:
    """Why no plan has a task of a family of that name whose operands and arguments are missing."""
    record = table.pack_task(name, [], [], b"")
    try:
        _kernels.Plan(record, None, 0, [], [], 1)
    except _kernels.Refused as refused:
        return str(refused.args[0])
    return ""


def test_each_family_is_found_by_its_name() -> None:
    found = {name: refusal(name) for name in table.families()}
    assert len(found) > 50
    # What is said of a record names the family.
    assert {name for name, reason in found.items() if reason and not reason.startswith(f"{name}:")} == set()
    assert sum(map(bool, found.values())) > 50


@pytest.mark.parametrize(
    "change", [lambda name: name + "_", lambda name: name[:-1], str.upper, lambda name: name[::-1]]
)
def test_no_family_is_found_by_another_name(change: Callable[[str], str]) -> None:
    others = {change(name)[:23] for name in table.families()} - table.families().keys()
    assert len(others) > 50
    assert {refusal(name) for name in others} == {"no kernel family of that name"}


def test_a_name_without_an_end_is_refused() -> None:
    assert refusal("a" * 24) == "malformed record"
    assert refusal("") == "no kernel family of that name"
