"""Loops of Keras and TensorFlow 1 over recurrent cells become one op each, with the results of the cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

F32 = {"element_dtype": Type("float32")}
PASS = "RecurrentLoopFusionPass"
BATCH, STEPS, INPUTS, HIDDEN = 2, 5, 3, 4


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


@dataclass(frozen=True)
class Weights:
    """Weights of a cell with `columns` columns."""

    x: Array
    h: Array
    b: Array
    b2: Array

    @staticmethod
    def of(columns: int, inputs: int = INPUTS) -> "Weights":
        rng = np.random.default_rng(columns)
        shapes = (inputs, columns), (HIDDEN, columns), (columns,), (columns,)
        return Weights(*[rng.standard_normal(shape).astype(np.float32) for shape in shapes])


Step = Callable[[Array, list[Array]], list[Array]]  # returns the states after a step, h first
Build = Callable[[TfBuilder, str, Sequence[str]], list[str]]


def keras_lstm(g: TfBuilder, x: str, states: Sequence[str]) -> list[str]:
    """Keras 3's LSTM: separate products for x and h, order i, f, c, o, hard sigmoids."""
    w, (h, c) = Weights.of(4 * HIDDEN), states
    sums = g.add("AddV2", g.add("MatMul", x, g.const(w.x)), g.add("MatMul", h, g.const(w.h)))
    split = g.add("Split", g.const(1, "int32"), g.add("AddV2", sums, g.const(w.b)), num_split=4)
    parts = [g.add("Identity", f"{split}:output:{index}") for index in range(4)]

    def gate(part: str) -> str:
        moved = g.add("Relu6", g.add("AddV2", part, g.const(3.0, "float32")))
        return g.add("Mul", moved, g.const(1 / 6, "float32"))

    i, f, o = gate(parts[0]), gate(parts[1]), gate(parts[3])
    new = g.add("AddV2", g.add("Mul", f, c), g.add("Mul", i, g.add("Tanh", parts[2])))
    return [g.add("Mul", o, g.add("Tanh", new)), new]


def keras_lstm_step(x: Array, states: list[Array]) -> list[Array]:
    w, (h, c) = Weights.of(4 * HIDDEN), states
    i, f, g, o = np.split(x @ w.x + h @ w.h + w.b, 4, 1)
    c = hard_sigmoid(f) * c + hard_sigmoid(i) * np.tanh(g)
    return [hard_sigmoid(o) * np.tanh(c), c]


def old_lstm(g: TfBuilder, x: str, states: Sequence[str]) -> list[str]:
    """TensorFlow 1's LSTM: one product with [x, h], order i, j, f, o, and a forget bias."""
    w, (h, c) = Weights.of(4 * HIDDEN), states
    one = g.const(1, "int32")
    both = g.add("MatMul", g.add("ConcatV2", x, h, one, N=2), g.const(np.vstack([w.x, w.h])))
    split = g.add("Split", one, g.add("BiasAdd", both, g.const(w.b)), num_split=4)
    i, j, f, o = [g.add("Identity", f"{split}:output:{index}") for index in range(4)]
    forgotten = g.add("Mul", c, g.add("Sigmoid", g.add("Add", f, g.const(1.0, "float32"))))
    new = g.add("Add", forgotten, g.add("Mul", g.add("Sigmoid", i), g.add("Tanh", j)))
    return [g.add("Mul", g.add("Tanh", new), g.add("Sigmoid", o)), new]


def old_lstm_step(x: Array, states: list[Array]) -> list[Array]:
    w, (h, c) = Weights.of(4 * HIDDEN), states
    i, j, f, o = np.split(x @ w.x + h @ w.h + w.b, 4, 1)
    c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    return [sigmoid(o) * np.tanh(c), c]


def keras_gru(g: TfBuilder, x: str, states: Sequence[str]) -> list[str]:
    """Keras' GRU with reset_after: the reset gate is applied after the product."""
    w, (h,) = Weights.of(3 * HIDDEN), states
    pieces: list[list[str]] = []
    for value, weights, bias in ((x, w.x, w.b), (h, w.h, w.b2)):
        sums = g.add("BiasAdd", g.add("MatMul", value, g.const(weights)), g.const(bias))
        split = g.add("Split", g.const(-1, "int32"), sums, num_split=3)
        pieces.append([g.add("Identity", f"{split}:output:{index}") for index in range(3)])
    (xz, xr, xg), (hz, hr, hg) = pieces
    z, r = g.add("Sigmoid", g.add("AddV2", xz, hz)), g.add("Sigmoid", g.add("AddV2", xr, hr))
    candidate = g.add("Tanh", g.add("AddV2", xg, g.add("Mul", r, hg)))
    updated = g.add("Mul", g.add("Sub", g.const(1.0, "float32"), z), candidate)
    return [g.add("AddV2", g.add("Mul", z, h), updated)]


def keras_gru_step(x: Array, states: list[Array]) -> list[Array]:
    w, (h,) = Weights.of(3 * HIDDEN), states
    (xz, xr, xg), (hz, hr, hg) = np.split(x @ w.x + w.b, 3, 1), np.split(h @ w.h + w.b2, 3, 1)
    z = sigmoid(xz + hz)
    return [z * h + (1 - z) * np.tanh(xg + sigmoid(xr + hr) * hg)]


def old_gru(g: TfBuilder, x: str, states: Sequence[str]) -> list[str]:
    """TensorFlow 1's GRU: r and u from one product, the candidate from [x, r·h]."""
    w, (h,) = Weights.of(3 * HIDDEN), states
    one, full = g.const(1, "int32"), np.vstack([w.x, w.h])
    both = g.add("MatMul", g.add("ConcatV2", x, h, one, N=2), g.const(full[:, : 2 * HIDDEN]))
    split = g.add("Split", one, g.add("Sigmoid", g.add("BiasAdd", both, g.const(w.b[: 2 * HIDDEN]))), num_split=2)
    r, u = [g.add("Identity", f"{split}:output:{index}") for index in range(2)]
    reset = g.add("ConcatV2", x, g.add("Mul", r, h), one, N=2)
    candidate = g.add("BiasAdd", g.add("MatMul", reset, g.const(full[:, 2 * HIDDEN :])), g.const(w.b[2 * HIDDEN :]))
    updated = g.add("Mul", g.add("Sub", g.const(1.0, "float32"), u), g.add("Tanh", candidate))
    return [g.add("Add", g.add("Mul", u, h), updated)]


def old_gru_step(x: Array, states: list[Array]) -> list[Array]:
    w, (h,) = Weights.of(3 * HIDDEN), states
    full, last = np.vstack([w.x, w.h]), slice(2 * HIDDEN, None)
    r, u = np.split(sigmoid(np.hstack([x, h]) @ full[:, : 2 * HIDDEN] + w.b[: 2 * HIDDEN]), 2, 1)
    return [u * h + (1 - u) * np.tanh(np.hstack([x, r * h]) @ full[:, last] + w.b[last])]


def simple(g: TfBuilder, x: str, states: Sequence[str]) -> list[str]:
    """Keras' SimpleRNN."""
    w, (h,) = Weights.of(HIDDEN), states
    input_part = g.add("BiasAdd", g.add("MatMul", x, g.const(w.x)), g.const(w.b))
    return [g.add("Tanh", g.add("AddV2", input_part, g.add("MatMul", h, g.const(w.h))))]


def simple_step(x: Array, states: list[Array]) -> list[Array]:
    w, (h,) = Weights.of(HIDDEN), states
    return [np.tanh(x @ w.x + h @ w.h + w.b)]


CELLS: dict[str, tuple[Build, Step, int]] = {
    "keras_lstm": (keras_lstm, keras_lstm_step, 2),
    "old_lstm": (old_lstm, old_lstm_step, 2),
    "keras_gru": (keras_gru, keras_gru_step, 1),
    "old_gru": (old_gru, old_gru_step, 1),
    "simple": (simple, simple_step, 1),
}


def layer(
    g: TfBuilder,
    x: str,
    steps: str,
    cell: str,
    starts: Sequence[str],
    *,
    all_steps: bool,
    ends: str = "",
    mask: str = "",
) -> str:
    """Add a While over [steps, batch, inputs] as Keras 3 writes it.

    Its loop variables are two counters, the output list, the input list, the number of steps, the states, and
    optionally what ends rows: their lengths, or a mask [steps, batch, 1] together with the previous output.
    """
    build, _, _ = CELLS[cell]
    none, zero = g.const(-1, "int32"), g.const(0, "int32")
    source = g.add("TensorListFromTensor", x, none, **F32)
    size = steps if all_steps else g.const(1, "int32")
    target = g.add("TensorListReserve", none, size, **F32)
    names = [f"state{index}" for index in range(len(starts))]
    types = {"iteration": "int32", "time": "int32", "out": "variant", "in": "variant", "steps": "int32"}
    types |= dict.fromkeys(names, "float32")
    more: list[str] = []
    if ends:
        types, more = types | {"ends": "int32"}, [ends]
    elif mask:
        types |= {"runs": "variant", "before": "float32"}
        more = [g.add("TensorListFromTensor", mask, none, element_dtype=Type("bool")), starts[0]]
    cond, body = TfBuilder(), TfBuilder()
    both = cond.add("LogicalAnd", cond.add("Less", "iteration", "steps"), cond.add("Less", "time", "steps"))
    test = g.function(f"{x}_cond", cond, types, both)
    item = body.add("TensorListGetItem", "in", "time", body.const([-1, INPUTS], "int32"), **F32)
    new_states = build(body, body.add("Identity", item), names)
    written, tail = new_states[0], ["ends"] if ends else []
    if ends:
        ended = body.add("GreaterEqual", "time", "ends")
        written = body.add("Select", ended, body.add("ZerosLike", new_states[0]), new_states[0])
        new_states = [body.add("Select", ended, old, new) for old, new in zip(names, new_states, strict=True)]
    elif mask:
        runs = body.add("TensorListGetItem", "runs", "time", body.const([-1, 1], "int32"), element_dtype=Type("bool"))
        wide = body.add("Tile", runs, body.const([1, HIDDEN], "int32"))
        written = body.add("SelectV2", wide, new_states[0], "before")
        new_states = [body.add("SelectV2", wide, new, old) for old, new in zip(names, new_states, strict=True)]
        tail = ["runs", written]
    position = "time" if all_steps else body.const(0, "int32")
    written_list = body.add("TensorListSetItem", "out", position, written, **F32)
    one = body.const(1, "int32")
    results = [
        body.add("AddV2", "iteration", one),
        body.add("AddV2", "time", one),
        written_list,
        "in",
        "steps",
        *new_states,
        *tail,
    ]
    body_function = g.function(f"{x}_body", body, types, *results)
    operands = [zero, zero, target, source, steps, *starts, *more]
    return g.add("While", *operands, name=f"{x}_while", cond=test, body=body_function)


def expected(x: Array, cell: str, starts: list[Array], runs: Array | None = None) -> tuple[Array, list[Array]]:
    """The outputs of a layer for all steps, 0 for steps that a row skips, and its final states."""
    _, step, _ = CELLS[cell]
    states, rows = list(starts), []
    for time, element in enumerate(x):
        new = step(element, states)
        here = np.full((x.shape[1], 1), True) if runs is None else runs[time]
        rows.append(np.where(here, new[0], 0))
        states = [np.where(here, after, before) for before, after in zip(states, new, strict=True)]
    return np.array(rows), states


def data(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("cell", "is_known"), [*[(cell, False) for cell in CELLS], ("old_lstm", True), ("keras_gru", True)]
)
def test_a_layer_becomes_one_op(tmp_path: Path, cell: str, is_known: bool) -> None:
    g = TfBuilder()
    dims = (BATCH, STEPS, INPUTS) if is_known else (None, None, INPUTS)
    batch_first = g.input("features", "float32", dims)
    g.add("Transpose", batch_first, g.const([1, 0, 2], "int32"), name="x")
    g.add("ReverseV2", "x", g.const([0], "int32"), name="back")
    shape = g.add("Shape", "x", out_type=Type("int32"))
    count, rows = (_element(g, shape, axis) for axis in (0, 1))
    zeros = g.add("Fill", g.add("Pack", rows, g.const(HIDDEN, "int32"), N=2), g.const(0.0, "float32"))
    states = CELLS[cell][2]
    start = g.input("start", "float32", (BATCH, HIDDEN)) if is_known else zeros
    whole = layer(g, "x", count, cell, [start] * states, all_steps=True)
    last = layer(g, "back", count, cell, [zeros] * states, all_steps=False)
    g.add("TensorListStack", f"{whole}:2", g.const(-1, "int32"), name="y", **F32)
    g.add("TensorListStack", f"{last}:2", g.const(-1, "int32"), name="z", **F32)
    run = g.converted(tmp_path, "y", "z", *[f"{whole}:{5 + index}" for index in range(states)], f"{whole}:1")
    assert g.applied[PASS] == 2
    for batch, steps in ((BATCH, STEPS),) if is_known else ((BATCH, STEPS), (1, 1), (3, 2)):
        x, h = data(batch, steps, INPUTS), data(batch, HIDDEN)
        y, z, *ends, iterations = run({"features": x} | ({"start": h} if is_known else {}))
        begin = [h if is_known else np.zeros_like(h)] * states
        reference, after = expected(x.transpose(1, 0, 2), cell, begin)
        _, (other, *_) = expected(x.transpose(1, 0, 2)[::-1], cell, [np.zeros_like(h)] * states)
        for ours, theirs in zip((y, z, *ends), (reference, other[None], *after), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-6)
        assert iterations == steps


def _element(g: TfBuilder, shape: str, axis: int) -> str:
    ends = [g.const([axis + side], "int32") for side in (0, 1)]
    return g.add("StridedSlice", shape, *ends, g.const([1], "int32"), shrink_axis_mask=1)


@pytest.mark.parametrize("cell", ["old_lstm", "old_gru"])
def test_rows_end_at_their_lengths(tmp_path: Path, cell: str) -> None:
    g = TfBuilder()
    g.input("x", "float32", (STEPS, BATCH, INPUTS))
    g.input("ends", "int32", (BATCH,))
    states = CELLS[cell][2]
    zeros = np.zeros((BATCH, HIDDEN), np.float32)
    whole = layer(g, "x", g.const(STEPS, "int32"), cell, [g.const(zeros)] * states, all_steps=True, ends="ends")
    g.add("TensorListStack", f"{whole}:2", g.const(-1, "int32"), name="y", **F32)
    run = g.converted(tmp_path, "y", *[f"{whole}:{5 + index}" for index in range(states)])
    assert g.applied[PASS] == 1
    x = data(STEPS, BATCH, INPUTS)
    for ends in ([3, 5], [0, 9], [-1, 1]):
        y, *after = run({"x": x, "ends": np.array(ends, np.int32)})
        runs = np.arange(STEPS)[:, None, None] < np.array(ends)[:, None]
        reference, last = expected(x, cell, [zeros] * states, runs)
        for ours, theirs in zip((y, *after), (reference, *last), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("all_steps", [True, False])
def test_rows_skip_masked_steps(tmp_path: Path, all_steps: bool) -> None:
    g = TfBuilder()
    g.input("x", "float32", (None, BATCH, INPUTS))
    g.input("runs", "bool", (None, BATCH, 1))
    count = _element(g, g.add("Shape", "x", out_type=Type("int32")), 0)
    zeros = np.zeros((BATCH, HIDDEN), np.float32)
    whole = layer(g, "x", count, "keras_lstm", [g.const(zeros)] * 2, all_steps=all_steps, mask="runs")
    g.add("TensorListStack", f"{whole}:2", g.const(-1, "int32"), name="y", **F32)
    run = g.converted(tmp_path, "y", f"{whole}:6")
    for steps, chance in ((STEPS, 0.5), (STEPS + 3, 0.5), (2, 0.0), (3, 1.0)):
        x, runs = data(steps, BATCH, INPUTS), np.random.default_rng(steps).random((steps, BATCH, 1)) < chance
        y, c = run({"x": x, "runs": runs})
        rows = [expected(x[: end + 1], "keras_lstm", [zeros] * 2, runs)[1][0] for end in range(steps)]
        np.testing.assert_allclose(y, rows if all_steps else rows[-1:], atol=2e-6)
        np.testing.assert_allclose(c, expected(x, "keras_lstm", [zeros] * 2, runs)[1][1], atol=2e-6)
