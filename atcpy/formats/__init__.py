"""Storage formats, one class each. A module that is not imported here is unknown."""

from atcpy.formats import c1hwc0, fractal_nz, fractal_z, n1c1hwc0n0_t, n1k1n0k0, nc1hwc0, ndc1hwc0, vnni2
from atcpy.formats.base import StorageFormat, find_format, tried_formats

__all__ = ["StorageFormat", "find_format", "tried_formats"]
