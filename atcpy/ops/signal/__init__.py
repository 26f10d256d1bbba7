"""Fourier transforms."""

from atcpy.ops.signal import fourier
