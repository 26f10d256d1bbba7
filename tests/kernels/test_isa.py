"""A runner that is meant to have an instruction set fails without it."""

from __future__ import annotations

import pytest

from tests.isa import instruction_sets


def test_what_the_machine_has_is_tested() -> None:
    assert instruction_sets("scalar") == ["scalar"]
    assert instruction_sets("avx512f") == ["scalar", "avx2", "avx512f"]


def test_what_is_required_and_there_changes_nothing() -> None:
    assert instruction_sets("avx2", "avx2") == ["scalar", "avx2"]


@pytest.mark.parametrize("required", ["avx512f", "avx512vnni", "avx3"])
def test_what_is_required_and_absent_is_an_error(required: str) -> None:
    with pytest.raises(RuntimeError, match=f"REQUIRE_ISA={required}"):
        instruction_sets("avx2", required)
