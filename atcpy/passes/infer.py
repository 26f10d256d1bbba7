"""Types of a node's outputs, from its record or from the ONNX standard."""

from __future__ import annotations

from atcpy.ir import DType, Node, TensorDesc, Value
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.shape import Dim
from atcpy.ops import find_opdef
from atcpy.ops.reference import MAX_DATA_ELEMENTS, infer_by_onnx, known_constant


class KnownValues:
    """Elements of small integer tensors: constants, and what shape arithmetic gives though its
    tensor is not constant, such as the shape of an input with a symbolic batch.
    """

    def __init__(self) -> None:
        self._known: dict[Value, tuple[Dim, ...]] = {}

    def __call__(self, value: Value | None) -> tuple[Dim, ...] | None:
        """The elements, or None if they are not known."""
        if value is None:
            return None
        found = self._known.get(value)
        return found if found is not None else known_constant(value)

    def set(self, value: Value, elements: tuple[Dim, ...]) -> None:
        """Notes the elements of a value."""
        if len(elements) <= MAX_DATA_ELEMENTS:
            self._known[value] = elements


def infer_node(node: Node, known: KnownValues) -> None:
    """Sets the descs of a node's outputs, and what is known of the elements of output 0. What a
    value was declared as is kept where inference knows less.
    """
    opdef = find_opdef(node)
    infer = infer_by_onnx if opdef is None or opdef.infer is None else opdef.infer
    for value, desc in zip(node.outputs, infer(node, known), strict=False):
        value.desc = _better(desc, value.desc)
    if opdef is not None and opdef.propagate is not None:
        elements = opdef.propagate(node, known)
        if elements is not None:
            known.set(node.output, elements)


def _better(inferred: TensorDesc, declared: TensorDesc) -> TensorDesc:
    if inferred is UNKNOWN or inferred.dtype is DType.UNDEFINED:
        return declared
    if inferred.shape is None and declared.dtype is inferred.dtype:
        return declared
    return inferred
