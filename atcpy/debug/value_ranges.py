"""How near the values of nodes that a precision mode lowers come to the largest number of their new type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.ir import DType

if TYPE_CHECKING:
    from atcpy.debug.submodel import IndexedModel

# Computes values of the model, one after the other: keeping all would need the memory of all activations at once.
ComputeValues = Callable[[Sequence[str]], Iterator[tuple[str, Any]]]


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A float32 value that a lowered node reads or makes: the largest magnitude of its finite elements, and what share
    of the new type's largest number that is.
    """

    value: str
    node: str  # the first lowered node that reads or makes it
    largest: float
    share: float

    @property
    def overflows(self) -> bool:
        """Whether an element is beyond the range of the type."""
        return self.share > 1


def value_ranges(
    model: IndexedModel, lowered: Collection[str], dtype: DType, compute: ComputeValues
) -> tuple[ValueRange, ...]:
    """The ranges of the values of lowered nodes, the largest first."""
    import ml_dtypes

    nodes: dict[str, str] = {}
    for index in model.find(lowered):
        node = model.nodes[index]
        for value in model.values([index]):
            nodes.setdefault(value, node.name or node.output[0])
    limit = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
    found: list[ValueRange] = []
    for value, array in compute(tuple(nodes)):
        if getattr(array, "dtype", None) == np.float32:
            largest = float(np.abs(array[np.isfinite(array)]).max(initial=0))
            found.append(ValueRange(value, nodes[value], largest, largest / limit))
    return tuple(sorted(found, key=lambda each: (-each.share, each.value)))
