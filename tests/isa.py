"""The instruction sets that this machine has; tests run the kernels of each."""

from atcpy.kernels import _kernels

_ORDER = ["scalar", "avx2", "avx512f"]
ISAS = _ORDER[: _ORDER.index(_kernels.cpu()[0]) + 1]
