"""An instruction of the kernel family that runs programs on tiles; docs/graph-kernels.md."""

from typing import NamedTuple


class Instruction(NamedTuple):
    """`d = op(a, b)`: an op of another kernel family, or of graph_kernel itself; the kernel table knows its number.
    `immediate` is 32 bits of data.
    """

    family: str
    op: str
    d: int
    a: int = 0
    b: int = 0
    immediate: int = 0
