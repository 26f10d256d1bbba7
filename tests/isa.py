"""The instruction sets that this machine has; tests run the kernels of each.

REQUIRE_ISA=avx512vnni in the environment names one that the machine must have: without it, collecting the tests fails,
where they would otherwise leave out the rows of what is absent.
"""

import os
from collections.abc import Sequence

from atcpy.kernels import _kernels


def require_isa(required: str, present: Sequence[str]) -> None:
    """RuntimeError if the machine, which has those `present`, lacks what is required; "" requires nothing."""
    if required and required not in _kernels.ISAS:
        raise RuntimeError(f"REQUIRE_ISA={required}: known are {', '.join(_kernels.ISAS)}")
    if required and required not in present:
        raise RuntimeError(
            f"REQUIRE_ISA={required}: this machine has {', '.join(present)} (ATCPY_ISA may have lowered it)"
        )


PRESENT = [isa for isa in _kernels.ISAS if _kernels.has_isa(isa)]
require_isa(os.environ.get("REQUIRE_ISA", ""), PRESENT)
ISAS = [isa for isa in PRESENT if isa not in {"avxvnni", "avx512vnni", "avx512bf16", "amx", "neondot"}]
# Loops have no row for what each CPU has: the compiler uses it for the scalar row. Products of bytes have one on Arm.
LOOP_ISAS = [isa for isa in ISAS if isa not in {"sse2", "neon"}]
BYTE_ISAS = [isa for isa in PRESENT if isa not in {"sse2", "avx512f", "avx512bf16"}]
# That have rows for products of bfloat16.
BF16_ISAS = [isa for isa in PRESENT if isa not in {"avxvnni", "avx512vnni", "neondot"}]
