"""ShapeValue: integers that follow from the dims of the model's inputs, where these are symbols.

Folding puts it where a Const would stand if the dims were numbers. Most are read by nobody who runs: a Reshape needs
them for the shape of its result alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import DType, Engine, Node, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, always, register_operator
from atcpy.ops.core.strided import fill_calls


def infer_shape_value(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A list of int64, or what the attributes `dtype` and `is_scalar` say."""
    shape = () if node.int_attr("is_scalar", 0) else (len(shape_value(node)),)
    return [TensorDesc.plain(DType[node.str_attr("dtype", DType.INT64.name)], shape)]


def propagate_shape_value(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """Its elements."""
    return shape_value(node)


def shape_value(node: Node) -> tuple[int, ...]:
    """The elements: numbers, and sizes that depend on symbols."""
    elements = node.attrs["elements"]
    assert isinstance(elements, tuple)
    return elements


def lower_shape_value(node: Node) -> Iterable[KernelCall]:
    """One store for each element."""
    for index, element in enumerate(shape_value(node)):
        yield from fill_calls(node.output, [1], [1], value=element, dst_offset=index)


register_operator(
    OpDef(
        name="ShapeValue",
        infer=infer_shape_value,
        propagate=propagate_shape_value,
        engines={Engine.VECTOR: always},
        lower=lower_shape_value,
    )
)
