"""What a mapping needs as a constant, where the graph computes it from constants: it is worked out while it is read."""

from __future__ import annotations

from typing import Final

import numpy as np

from atcpy.ir import DType, Node, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, find_opdef
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.reference import EVALUATION_ERRORS, evaluate_node, find_schema

MAX_NODES: Final = 64  # that are looked at for one constant
MAX_ELEMENTS: Final = 2**12  # of each result on the way to it


def find_constant(value: Value, known: KnownValues) -> Array | None:
    """The elements of a value; None if they depend on an input, or are too much work."""
    return _Search(known).find(value)


class _Search:
    """The way back from one value to constants."""

    def __init__(self, known: KnownValues) -> None:
        self._known = known
        self._found: dict[Value, Array] = {}
        self._seen = 0

    def find(self, value: Value) -> Array | None:
        """The elements of a value."""
        if value.tensor is not None:
            return value.array
        elements = self._known(value)
        if elements is not None and all(isinstance(item, int) for item in elements):
            return np.array(elements, value.desc.dtype.numpy).reshape(value.desc.static_shape)
        if value not in self._found and not self._compute(value.producer):
            return None
        return self._found[value]

    def _compute(self, node: Node) -> bool:
        """Works out what a node makes, and before it what it reads."""
        self._seen += 1
        if self._seen > MAX_NODES or not node.operands or node.has_subgraphs:
            return False
        if not all(map(_is_small, node.outputs)):
            return False
        opdef = find_opdef(node)
        if find_schema(node.op_type, node.domain) is None if opdef is None else Trait.RANDOM in opdef.traits:
            return False
        inputs: list[Array | None] = []
        for value in node.inputs:
            array = None if value is None else self.find(value)
            if value is not None and array is None:
                return False
            inputs.append(array)
        try:
            with np.errstate(all="ignore"):
                results = evaluate_node(node, inputs)
        except EVALUATION_ERRORS:
            return False
        self._found.update(zip(node.outputs, map(np.asarray, results), strict=True))
        return True


def _is_small(value: Value) -> bool:
    desc = value.desc
    return desc.is_static and desc.dtype is not DType.UNDEFINED and desc.elements <= MAX_ELEMENTS
