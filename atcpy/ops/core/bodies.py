"""What the standard says of the bodies of a node: how many inputs and outputs they have, and of which types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, TensorDesc, Value
from atcpy.ir.closure import formal_inputs

_SCAN_LISTS = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")


def check_bodies(node: Node) -> Iterator[ModelInvalid]:
    """Yield what is wrong with the numbers of inputs and outputs of a node's bodies, before they capture anything."""
    for why in (*_misfits_of_scan(node), *_misfits(node)):
        yield ModelInvalid("E13014", f"{node.op_type}: {why}", where=node)


def _misfits(node: Node) -> Iterator[str]:
    inputs, outputs = _body_ports(node)
    for name, body in _named_bodies(node):
        for word, count, expected in (
            ("inputs", len(formal_inputs(body)), inputs),
            ("outputs", len(body.outputs), outputs),
        ):
            if expected is not None and count != expected:
                yield f"{name} has {count} {word}, the node's own inputs and outputs need {expected}"
    carried = _carried(node)
    if carried > len(node.outputs):
        yield f"has {len(node.outputs)} outputs, it carries {carried} values"


def _named_bodies(node: Node) -> Iterator[tuple[str, Graph]]:
    for name, attr in node.attrs.items():
        for body in attr if isinstance(attr, tuple) else (attr,):
            if isinstance(body, Graph):
                yield name, body


def _carried(node: Node) -> int:
    """The number of values that iterations carry on."""
    if node.op_type == "Scan":
        return max(node.input_count - node.int_attr("num_scan_inputs", 0), 0)
    return max(node.input_count - 2, 0) if node.op_type == "Loop" else 0


def _body_ports(node: Node) -> tuple[int | None, int | None]:
    """The number of inputs and outputs of each body of a node; None where the standard does not say."""
    match node.op_type if node.domain in ("", "ai.onnx.preview") else "":
        case "If":
            return 0, len(node.outputs)
        case "Loop":  # iteration number and condition go in, a condition comes out
            return 2 + _carried(node), 1 + len(node.outputs)
        case "Scan" | "SequenceMap":
            return node.input_count, len(node.outputs)
        case "FlexAttention":
            return 1, 1
    return None, None


def _misfits_of_scan(node: Node) -> Iterator[str]:
    if node.op_type != "Scan" or node.domain:
        return
    scanned = node.int_attr("num_scan_inputs", 0)
    if not 1 <= scanned <= node.input_count:
        yield f"num_scan_inputs = {scanned} of {node.input_count} inputs"
        return
    lengths = (scanned, len(node.outputs) - _carried(node))
    for name in _SCAN_LISTS:
        values, expected = node.ints_attr(name, ()), lengths["output" in name]
        if name in node.attrs and len(values) != expected:
            yield f"{name} has {len(values)} numbers, {expected} are needed"
        if "directions" in name and not set(values) <= {0, 1}:
            yield f"{name} = {list(values)}: a direction is 0 or 1"


def feed(node: Node, data: Value, desc: TensorDesc) -> None:
    """Give an input of a body the type that the node feeds it. Raises ModelInvalid if it declares another element type;
    the shape that it declares counts for nothing.
    """
    _expect(node, f'its body reads "{data.name}" as', data.desc.dtype, desc.dtype)
    data.desc = desc


def check_result(node: Node, result: Value, dtype: DType) -> None:
    """Raise ModelInvalid if a result of a body is not of the element type that a node needs it to have."""
    _expect(node, f'its body returns "{result.name}" as', result.desc.dtype, dtype)


def _expect(node: Node, what: str, dtype: DType, expected: DType) -> None:
    if DType.UNDEFINED not in (dtype, expected) and dtype is not expected:
        raise ModelInvalid("E13014", f"{what} {dtype.long}, it must be {expected.long}", where=node)


def check_branches(node: Node, one: Sequence[TensorDesc], other: Sequence[TensorDesc]) -> None:
    """Raise ModelInvalid if the branches of an If return values of different element types."""
    for index, (first, second) in enumerate(zip(one, other, strict=True)):
        _expect(node, f"a branch returns output {index} as", second.dtype, first.dtype)
