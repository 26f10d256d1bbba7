"""REQUIRE_ISA makes a missing instruction set an error."""

from __future__ import annotations

import pytest

from tests.isa import instruction_sets


def test_all_instruction_sets_of_the_machine_are_tested() -> None:
    assert instruction_sets("scalar") == ["scalar"]
    assert instruction_sets("avx512f") == ["scalar", "sse2", "avx2", "avx512f"]


def test_a_required_isa_that_is_available_changes_nothing() -> None:
    assert instruction_sets("avx2", "avx2") == ["scalar", "sse2", "avx2"]


@pytest.mark.parametrize("required", ["avx512f", "avx512vnni", "avx3"])
def test_a_required_isa_that_is_missing_is_an_error(required: str) -> None:
    with pytest.raises(RuntimeError, match=f"REQUIRE_ISA={required}"):
        instruction_sets("avx2", required)
