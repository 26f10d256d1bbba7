"""RotaryEmbedding: pairs of elements of each head, turned by the angles of its position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator

_COS, _SIN, _POSITIONS = 1, 2, 3


def infer_rotary(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's type; it has heads of rows, or rows of heads."""
    x = node.operand(0).desc
    if x.shape is not None and len(x.shape) not in (3, 4):
        raise ModelInvalid("EZ8888", where=node, what=f"the input is {x}, of neither 3 nor 4 dims")
    if x.shape is not None and len(x.shape) == 3 and node.int_attr("num_heads", 0) < 1:
        raise ModelInvalid("E13014", where=node, what=f"num_heads = {node.int_attr('num_heads', 0)} for 3 dims")
    return [x.as_plain()]


def shapes_of_rotary(node: Node) -> Mapping[int, str]:
    """Angles for each pair of elements that is turned, as long as the angles are not chosen by positions."""
    x, turned = node.operand(0).desc, node.int_attr("rotary_embedding_dim", 0)
    if turned < 0:
        raise ModelInvalid("E13014", where=node, what=f"rotary_embedding_dim = {turned}")
    if not turned and x.shape is not None and len(x.shape) == 4 and isinstance(x.shape[3], int):
        turned = x.shape[3]
    pairs = str(turned // 2) if turned else "pairs"
    angles = f"{'positions' if node.input(_POSITIONS) is not None else 'batches rows'} {pairs}"
    return {_COS: angles, _SIN: angles, _POSITIONS: "batch rows"}


def supports_rotary(node: Node) -> Iterable[Reject]:
    """The kernel takes float32 of known shapes, and the angles of each row."""
    if node.input(_POSITIONS) is not None:
        yield Reject("positions", node.name)
        return
    dtypes = {value.desc.dtype for value in node.operands}
    if DType.FLOAT32 not in dtypes:
        yield Reject("dtype", node.name, node.operand(0).desc.dtype.long)
    elif len(dtypes) > 1:
        yield Reject("mixed-types", node.name)
    if not all(value.desc.is_static for value in node.operands):
        yield Reject("shape-unknown", node.name)
    elif any(not value.desc.elements for value in node.operands):
        yield Reject("empty", node.name)
    else:
        sizes = _sizes(node)
        angles = (sizes["batch"], sizes["rows"], sizes["half"])
        if any(node.operand(index).desc.static_shape != angles for index in (_COS, _SIN)):
            yield Reject("broadcast", node.name)
        x, half = node.operand(0).desc.static_shape, sizes["half"]
        is_cut = len(x) == 3 and sizes["heads"] * sizes["head"] != x[-1]
        if is_cut or half > sizes["head"] // 2 or node.int_attr("rotary_embedding_dim", 0) % 2:
            yield Reject("heads", node.name)


def _sizes(node: Node) -> dict[str, int]:
    x = node.operand(0).desc.static_shape
    if len(x) == 4:
        batch, heads, rows, head = x
    else:
        batch, rows, heads = x[0], x[1], node.int_attr("num_heads", 1)
        head = x[2] // heads
    turned = node.int_attr("rotary_embedding_dim", 0) or head
    return {"batch": batch, "heads": heads, "rows": rows, "head": head, "half": turned // 2}


def lower_rotary(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    params: dict[str, ParamValue] = {
        **_sizes(node),
        "interleaved": int(node.int_attr("interleaved", 0) != 0),
        "joined": int(len(node.operand(0).desc.static_shape) == 3),
    }
    yield KernelCall("rotary", tuple(node.operands), (node.output,), params)


def expand_rotary(node: Node, rw: Rewriter) -> Sequence[Value] | None:
    """The angles at the positions first, then the turns."""
    positions = node.input(_POSITIONS)
    if positions is None:
        return None
    angles = [rw.op("Gather", node.operand(index), positions, axis=0) for index in (_COS, _SIN)]
    return [rw.op("RotaryEmbedding", node.operand(0), *angles, **node.attrs)]


register_operator(
    OpDef(
        name="RotaryEmbedding",
        operand_shapes=shapes_of_rotary,
        infer=infer_rotary,
        expand=expand_rotary,
        engines={Engine.VECTOR: supports_rotary},
        lower=lower_rotary,
        inplace=(0,),
    )
)
