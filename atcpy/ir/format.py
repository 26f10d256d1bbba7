"""Identifiers of storage formats; what they mean stands in `atcpy/formats`, one class each.

Names and numbers are GE's. C0, the number of channels in a block, belongs to the format and
not to the element type, so that a Cast keeps the layout of its input.
"""

import math
from dataclasses import dataclass
from enum import Enum


class FormatKind(Enum):
    """A family of storage formats; the value is GE's number, or one above 1000 for ours."""

    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    C1HWC0 = 49
    # FRACTAL_Z with each block's output channels contiguous and blocks of output channels
    # outermost: what the kernel `conv2d` reads in one stream. Not a GE format.
    N1C1HWC0N0 = 1001
    N1C1HWC0N0_T = 1002  # the same of a ConvTranspose's weights, which have input channels outermost
    N1K1N0K0 = 1003  # 8-bit weights of a convolution, with the sums that zero points need
    N1K1N0K0_T = 1004  # the same of a matrix [K, N]
    # Weights of bfloat16 with the summed dim in pairs: oneDNN and libxsmm call 2 the VNNI factor.
    N1C1HWC0N0_VNNI2 = 1005
    FRACTAL_NZ_VNNI2 = 1006

    __hash__ = object.__hash__  # an Enum hashes its name, in Python


PLAIN_KINDS = frozenset({FormatKind.ND, FormatKind.NCHW, FormatKind.NHWC, FormatKind.NCDHW, FormatKind.NDHWC})


@dataclass(frozen=True, slots=True)
class Format:
    """One storage format: its kind, its C0 where it is blocked, its groups where weights are."""

    kind: FormatKind
    c0: int = 0
    groups: int = 1

    @property
    def is_plain(self) -> bool:
        """True if elements lie row-major in the order of the dims, without padding."""
        return self.kind in PLAIN_KINDS

    def __str__(self) -> str:
        default_c0 = 0 if self.is_plain else 16
        suffix = "" if self.c0 == default_c0 else f":c0={self.c0}"
        return self.kind.name + suffix + (f":g={self.groups}" if self.groups != 1 else "")


ND = Format(FormatKind.ND)
NCHW = Format(FormatKind.NCHW)
NHWC = Format(FormatKind.NHWC)
NC1HWC0 = Format(FormatKind.NC1HWC0, 16)

N0 = 16  # output channels in a block of weights


def merged_groups(groups: int, c: int, n: int, c0: int) -> int:
    """How many groups, with c input and n output channels each, FRACTAL_Z lays side by side in one
    block matrix so that both fill whole blocks; the weights between them are zero (GE's E).
    """
    if groups == 1:
        return 1
    return min(math.lcm(math.lcm(c, c0) // c, math.lcm(n, N0) // n), groups)
