"""The instruction sets that this machine has; tests run the kernels of each.

REQUIRE_ISA=avx512vnni in the environment names one that the machine must have: without it, collecting the tests fails,
where they would otherwise leave out the rows of what is absent.
"""

import os

from atcpy.kernels import _kernels

_ORDER = list(_kernels.ISAS)


def instruction_sets(best: str, required: str = "") -> list[str]:
    """Those up to `best`, which this machine has; RuntimeError if `required` is not among them."""
    if required and required not in _ORDER:
        raise RuntimeError(f"REQUIRE_ISA={required}: known are {', '.join(_ORDER)}")
    if required and _ORDER.index(required) > _ORDER.index(best):
        raise RuntimeError(f"REQUIRE_ISA={required}: this machine has {best} (ATCPY_ISA may have lowered it)")
    return _ORDER[: _ORDER.index(best) + 1]


_PRESENT = instruction_sets(_kernels.cpu()[0], os.environ.get("REQUIRE_ISA", ""))
ISAS = [isa for isa in _PRESENT if isa not in {"avx512vnni", "avx512bf16", "amx"}]
# Loops have no row for what each CPU has: the compiler uses it for the scalar row. Products of bytes have none, either.
LOOP_ISAS = [isa for isa in ISAS if isa not in {"sse2", "neon"}]
BYTE_ISAS = [isa for isa in _PRESENT if isa not in {"sse2", "neon", "avx512f", "avx512bf16"}]
BF16_ISAS = [isa for isa in _PRESENT if isa != "avx512vnni"]  # that have rows for products of bfloat16
