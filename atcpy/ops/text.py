"""TfIdfVectorizer: counts n-grams, whose items may lie apart."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import OpDef, register_operator
from atcpy.ops.core.reference import evaluate_by_onnx


def evaluate_tf_idf(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The standard's definition. Items further apart than the row is long are in no n-gram, but would be looked for."""
    x = arrays[0]
    assert x is not None
    length = x.shape[-1] if x.ndim else 1
    return evaluate_by_onnx(node, arrays, max_skip_count=min(node.int_attr("max_skip_count", 0), length))


register_operator(OpDef(name="TfIdfVectorizer", evaluate=evaluate_tf_idf))
