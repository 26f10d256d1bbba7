"""The instruction sets that kernels are written for."""

import os

from atcpy.errors import UsageError, did_you_mean
from atcpy.kernels._kernels import ISAS


def require_known_isa() -> None:
    """Raise UsageError (E13024) if ATCPY_ISA, which lowers what is used of a CPU, names no instruction set."""
    name = os.environ.get("ATCPY_ISA")
    if name is not None and name not in ISAS:
        hint = did_you_mean(name, ISAS) or "one of " + ", ".join(ISAS)
        raise UsageError("E13024", f'ATCPY_ISA="{name}": there is no such instruction set', hint=hint)
