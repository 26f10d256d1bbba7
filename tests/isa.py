"""The instruction sets that this machine has; tests run the kernels of each."""

from atcpy.kernels import _kernels

_ORDER = ["scalar", "avx2", "avx512f", "avx512vnni"]
_BEST = _ORDER.index(_kernels.cpu()[0])
ISAS = _ORDER[: min(_BEST, 2) + 1]
BYTE_ISAS = [isa for isa in _ORDER[: _BEST + 1] if isa != "avx512f"]  # products of bytes have no row of its own there
