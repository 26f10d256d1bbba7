"""Control flow: If, Loop, Scan and SequenceMap over bodies that run as graphs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, TensorDesc
from atcpy.ir.closure import formal_inputs, own_operands
from atcpy.ir.tensor import Array
from atcpy.runtime.host import RuntimeValue

# A Loop that says no number of turns, and of which nobody knows whether it ends, is stopped here.
MAX_TURNS = 1_000_000

RunBody = Callable[[Sequence[RuntimeValue]], list[RuntimeValue]]


def run_bodies(node: Node, operands: Sequence[RuntimeValue], bodies: Mapping[Graph, RunBody]) -> Sequence[RuntimeValue]:
    """The outputs of a node with bodies; `operands` are the node's, what its bodies capture behind its own.
    Raises ModelInvalid (D0001) for values that break the op's rule.
    """
    first = own_operands(node)
    own, captured = list(operands[:first]), list(operands[first:])
    own += [None] * (first - len(own))
    if node.op_type == "If":
        return _run_if(node, own[0], captured, bodies)
    ((body, run),) = bodies.items()
    seen = _captured_by(body, captured, first)

    def run_body(values: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        return run([*values, *seen])

    match node.op_type:
        case "Loop":
            return _run_loop(node, own, body, run_body)
        case "Scan":
            return _run_scan(node, own, run_body)
        case "SequenceMap":
            return _run_sequence_map(node, own, run_body)
    raise ModelInvalid("D0001", f"{node.op_type} has bodies that nothing runs", where=node)


def _captured_by(body: Graph, captured: Sequence[RuntimeValue], first: int) -> list[RuntimeValue]:
    return [captured[data.int_attr("index", 0) - first] for data in body.inputs if "captured" in data.attrs]


def _run_if(
    node: Node, condition: RuntimeValue, captured: Sequence[RuntimeValue], bodies: Mapping[Graph, RunBody]
) -> Sequence[RuntimeValue]:
    body = node.attrs["then_branch" if _truth(node, condition) else "else_branch"]
    assert isinstance(body, Graph)
    return bodies[body](_captured_by(body, captured, 0))


def _run_loop(node: Node, own: Sequence[RuntimeValue], body: Graph, run: RunBody) -> Sequence[RuntimeValue]:
    """`for (i = 0; i < M and condition; i++)`: values carried from turn to turn, others collected."""
    most, condition, *carried = own
    limit = None if most is None else _turns(most)
    going = condition is None or _truth(node, condition)
    collected: list[list[Array]] = [[] for _ in body.outputs[1 + len(carried) :]]
    turn = 0
    shape, condition_shape = (_shape_inside(data) for data in formal_inputs(body)[:2])
    while going and (limit is None or turn < limit):
        if turn == MAX_TURNS:
            what = f"its condition still holds after {MAX_TURNS} turns: it does not seem to end"
            raise ModelInvalid("D0001", what, where=node, hint="give the Loop a number of turns")
        results = run([np.full(shape, turn, np.int64), np.full(condition_shape, going), *carried])
        going = _truth(node, results[0])
        carried = results[1 : 1 + len(carried)]
        for pieces, piece in zip(collected, results[1 + len(carried) :], strict=True):
            pieces.append(piece)
        turn += 1
    stacked = [
        _stack(node, pieces, 0, value.desc)
        for pieces, value in zip(collected, body.outputs[1 + len(carried) :], strict=True)
    ]
    return [*carried, *stacked][: len(node.outputs)]


def _shape_inside(data: Node) -> tuple[int, ...]:
    """Bodies may want the number of the turn and the condition as scalars or as one element."""
    return (1,) if data.output.desc.shape == (1,) else ()


def _turns(most: RuntimeValue) -> int | None:
    """The number of turns; None for what exporters write where there is none to say."""
    limit = int(np.asarray(most).reshape(-1)[0])
    return None if limit >= np.iinfo(np.int32).max else limit


def _run_scan(node: Node, own: Sequence[RuntimeValue], run: RunBody) -> Sequence[RuntimeValue]:
    """Once a slice of the scanned inputs; states go from turn to turn, other outputs are stacked."""
    scanned = node.int_attr("num_scan_inputs", 0)
    states, inputs = list(own[: len(own) - scanned]), [np.asarray(value) for value in own[len(own) - scanned :]]
    body = next(node.subgraphs)
    made = len(body.outputs) - len(states)
    in_axes = node.ints_attr("scan_input_axes", (0,) * scanned)
    backwards = node.ints_attr("scan_input_directions", (0,) * scanned)
    out_axes = node.ints_attr("scan_output_axes", (0,) * made)
    out_backwards = node.ints_attr("scan_output_directions", (0,) * made)
    lengths = {array.shape[axis] for array, axis in zip(inputs, in_axes, strict=True)}
    if len(lengths) != 1:
        raise ModelInvalid("D0001", f"its scanned inputs have lengths {sorted(lengths)}", where=node)
    (length,) = lengths
    slices = [
        np.moveaxis(array, axis, 0)[:: -1 if back else 1]
        for array, axis, back in zip(inputs, in_axes, backwards, strict=True)
    ]
    collected: list[list[Array]] = [[] for _ in range(made)]
    for turn in range(length):
        results = run([*states, *(np.asarray(array[turn], order="C") for array in slices)])
        if any(isinstance(a, np.ndarray) and a.shape != b.shape for a, b in zip(states, results, strict=False)):
            raise ModelInvalid("D0001", f"turn {turn} changes the shape of a state", where=node)
        states = results[: len(states)]
        for pieces, piece in zip(collected, results[len(states) :], strict=True):
            pieces.append(piece)
    stacked = [
        _stack(node, pieces[::-1] if back else pieces, axis, value.desc)
        for pieces, axis, back, value in zip(
            collected, out_axes, out_backwards, body.outputs[len(states) :], strict=True
        )
    ]
    return [*states, *stacked][: len(node.outputs)]


def _run_sequence_map(node: Node, own: Sequence[RuntimeValue], run: RunBody) -> Sequence[RuntimeValue]:
    """Once an element of the first sequence; other sequences go along, tensors stay what they are."""
    first = own[0]
    if not isinstance(first, list) or any(isinstance(other, list) and len(other) != len(first) for other in own):
        raise ModelInvalid("D0001", "its sequences differ in length", where=node)
    turns = [run([value[turn] if isinstance(value, list) else value for value in own]) for turn in range(len(first))]
    return [[results[place] for results in turns] for place in range(len(node.outputs))]


def _stack(node: Node, pieces: list[Array], axis: int, desc: TensorDesc) -> Array:
    if not pieces:
        shape = [dim if isinstance(dim, int) else 0 for dim in desc.shape or ()]
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
        return np.zeros(shape, desc.dtype.numpy if desc.dtype is not DType.UNDEFINED else np.float32)
    try:
        return np.stack(pieces, axis)
    except ValueError as error:
        shapes = " and ".join(str(list(shape)) for shape in sorted({piece.shape for piece in pieces})[:2])
        raise ModelInvalid("D0001", f"what its turns collect has the shapes {shapes}", where=node) from error


def _truth(node: Node, condition: RuntimeValue) -> bool:
    array = np.asarray(condition)
    if array.size != 1:
        raise ModelInvalid(
            "D0001", f"its condition has the shape {list(array.shape)}, one element is needed", where=node
        )
    return bool(array.reshape(-1)[0])
