"""Which instruction sets this machine has, and which rows each runs; REQUIRE_ISA makes a missing one an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from atcpy.kernels import _kernels
from atcpy.kernels.table import kernel_table
from tests.isa import BF16_ISAS, BYTE_ISAS, ISAS, PRESENT, require_isa

X86 = pytest.mark.skipif("avx2" not in _kernels.ISAS, reason="not an x86-64 CPU")


def test_all_instruction_sets_of_the_machine_are_tested() -> None:
    best = _kernels.cpu()[0]
    assert PRESENT[-1] == best
    assert [isa for isa in _kernels.ISAS[: _kernels.ISAS.index(best)] if isa != "avxvnni"] == [
        isa for isa in PRESENT[:-1] if isa != "avxvnni"
    ]
    assert {*ISAS, *BYTE_ISAS, *BF16_ISAS} == {*PRESENT}


def test_a_required_isa_that_is_available_changes_nothing() -> None:
    require_isa("", ["scalar"])
    require_isa("scalar", ["scalar", "sse2"])


@pytest.mark.parametrize("required", ["avx512f", "avx512vnni", "avx3"])
def test_a_required_isa_that_is_missing_is_an_error(required: str) -> None:
    with pytest.raises(RuntimeError, match=f"REQUIRE_ISA={required}"):
        require_isa(required, ["scalar", "sse2", "avx2"])


@X86
def test_rows_for_avx_vnni_run_at_that_level_alone() -> None:
    """CPUs with AVX-512 may lack AVX-VNNI."""
    assert [isa for isa in _kernels.ISAS if _kernels.isa_runs(isa, "avxvnni")] == ["avxvnni"]
    for row in ("scalar", "sse2", "avx2", "avx512f", "avx512vnni"):
        better = _kernels.ISAS[_kernels.ISAS.index(row) :]
        assert [isa for isa in _kernels.ISAS if _kernels.isa_runs(isa, row)] == list(better)


@X86
def test_families_with_rows_for_avx_vnni_have_some_for_avx_512_and_avx2() -> None:
    """Where the CPU has both, it is used as one with AVX-512."""
    by_isa: dict[str, set[str]] = {}
    for row in kernel_table():
        by_isa.setdefault(row.isa, set()).add(row.family)
    assert by_isa["avxvnni"] <= by_isa["avx2"]
    assert by_isa["avxvnni"] <= by_isa.get("avx512vnni", by_isa["avxvnni"])  # absent with -Davx512=false


def isas_of_process(**settings: str) -> tuple[str, list[str]]:
    """What a new process uses of this CPU, and what it could use."""
    code = """from atcpy.kernels import _kernels
print(_kernels.cpu()[0], *(isa for isa in _kernels.ISAS if _kernels.has_isa(isa)))"""
    environment = {name: value for name, value in os.environ.items() if name != "ATCPY_ISA"} | settings
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    used, *present = ran.stdout.split()
    return used, present


@X86
def test_a_cpu_is_lowered_to_avx_vnni_if_it_has_that_and_else_to_avx2() -> None:
    best, present = isas_of_process()
    assert best == present[-1]
    upto = _kernels.ISAS[: _kernels.ISAS.index("avxvnni") + 1]
    lowered = [isa for isa in present if isa in upto]
    assert isas_of_process(ATCPY_ISA="avxvnni") == (lowered[-1], lowered)


@pytest.mark.parametrize("call", [lambda: _kernels.has_isa("avx3"), lambda: _kernels.isa_runs("scalar", "avx3")])
def test_an_unknown_isa_is_refused(call: Callable[[], bool]) -> None:
    with pytest.raises(ValueError, match="unknown isa"):
        call()
