"""The 16-bit floats. Kernels compute in float32; weights stay in 16 bits until a kernel widens them."""

from __future__ import annotations

from collections.abc import Iterable

from atcpy.ir import DType, FormatKind, Node, Reject, TensorDesc

HALF_DTYPES = frozenset({DType.FLOAT16, DType.BFLOAT16})
# Set by InsertCastPass: both factors of a convolution or product are bfloat16 in the model. Its kernels may then
# multiply that type, for which weights lie in pairs, and round the other factor to it.
MULTIPLIES_BF16 = "multiplies_bf16"
# Set by InsertCastPass on nodes that compute in float32 since then: the result is bfloat16 in the model, and may be
# stored so.
ROUNDS_BF16 = "rounds_bf16"
NOTES = frozenset({MULTIPLIES_BF16, ROUNDS_BF16})  # attributes that are no operator's
_IN_PAIRS = frozenset({FormatKind.N1C1HWC0N0_VNNI2, FormatKind.FRACTAL_NZ_VNNI2})


def supports_weights(node: Node, index: int, half: Iterable[int]) -> Iterable[Reject]:
    """A reason if constant weights are of another type than the activations, and not at one of the
    inputs `half` where 16 bits will do.
    """
    x, w = node.operand(0).desc.dtype, node.operand(index).desc.dtype
    narrow = x is DType.FLOAT32 and w in HALF_DTYPES and index in half
    if w is not x and not narrow:
        yield Reject("mixed-types", node.name, f"weights are {w.long}, activations {x.long}")


def lies_in_pairs(weights: TensorDesc) -> bool:
    """Whether weights of bfloat16 are stored in pairs, to be multiplied in that type."""
    return weights.format.kind in _IN_PAIRS


def weight_type(weights: TensorDesc) -> str:
    """The kernels' name for the type of weights; csrc/matmul/widen.h."""
    return weights.dtype.short + ("_vnni2" if lies_in_pairs(weights) else "")
