"""Storage formats, one class each. `find_format` gives the class behind an identifier."""

from functools import cache

from atcpy.formats.base import StorageFormat
from atcpy.formats.c1hwc0 import C1HWC0
from atcpy.formats.fractal_nz import FractalNz
from atcpy.formats.fractal_z import N1C1HWC0N0, FractalZ
from atcpy.formats.n1c1hwc0n0_t import N1C1HWC0N0T
from atcpy.formats.nc1hwc0 import NC1HWC0
from atcpy.ir.dtype import DType
from atcpy.ir.format import Format, FormatKind

# One instance a C0 that is in use; a test checks the law of each with random shapes.
ALL: tuple[StorageFormat, ...] = (
    NC1HWC0(16),
    NC1HWC0(32),
    NC1HWC0(64),
    FractalZ(16),
    FractalZ(1),
    FractalZ(16, groups=2),
    FractalZ(16, groups=6),
    N1C1HWC0N0(16),
    N1C1HWC0N0(1),
    N1C1HWC0N0(16, groups=2),
    N1C1HWC0N0(16, groups=6),
    N1C1HWC0N0T(16),
    N1C1HWC0N0T(16, groups=3),
    C1HWC0(16),
    FractalNz(16),
    FractalNz(32),
)


def default_c0(dtype: DType) -> int:
    """Channels in a block of 64 bytes: one AVX-512 register or one AMX row."""
    return 512 // dtype.bits


@cache
def find_format(form: Format) -> StorageFormat:
    """The class behind an identifier; KeyError for a plain format, which needs none."""
    match form.kind:
        case FormatKind.NC1HWC0:
            return NC1HWC0(form.c0)
        case FormatKind.FRACTAL_Z:
            return FractalZ(form.c0, form.groups)
        case FormatKind.N1C1HWC0N0:
            return N1C1HWC0N0(form.c0, form.groups)
        case FormatKind.N1C1HWC0N0_T:
            return N1C1HWC0N0T(form.c0, form.groups)
        case FormatKind.C1HWC0:
            return C1HWC0(form.c0)
        case FormatKind.FRACTAL_NZ:
            return FractalNz(form.c0)
        case _:
            raise KeyError(form)
