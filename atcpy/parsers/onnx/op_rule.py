"""How a node of one op must look at one opset."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from atcpy.ops.core.signature import UNBOUNDED


@dataclass(frozen=True, slots=True)
class OpRule:
    """How a node of one op must look at one opset; `attrs` gives the type of each attribute, `values` those that are
    possible.
    """

    attrs: Mapping[str, int]
    required: tuple[str, ...]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    values: Mapping[str, Collection[int | bytes]] = field(default_factory=dict)  # of attributes that have few
    first_variadic: int | None = None  # the index of the first input that the last parameter of the op stands for
    is_free: bool = False  # an op that is not ONNX's: its record in ops/ checks what it wants

    @property
    def has_variadic_outputs(self) -> bool:
        """Whether each node says how many outputs it has."""
        return self.outputs[1] == UNBOUNDED


FREE = OpRule({}, (), (0, 2**31), (0, 2**31), is_free=True)
