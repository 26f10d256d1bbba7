"""LSTM and GRU block ops and cells against their definition, step by step."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import Array, TfBuilder

OUTPUTS = ("i", "cs", "f", "o", "ci", "co", "h")


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm(
    x: Array, cs: Array, h: Array, w: Array, peepholes: list[Array], b: Array, *, order: str, forget: float, clip: float
) -> dict[str, Array]:
    """One LSTM step."""
    gates = dict(zip(order, np.split(np.concatenate([x, h], 1) @ w + b, 4, 1), strict=True))
    i = sigmoid(gates["i"] + cs * peepholes[0])
    f = sigmoid(gates["f"] + forget + cs * peepholes[1])
    ci = np.tanh(gates["c"])
    new = f * cs + i * ci
    new = np.clip(new, -clip, clip) if clip > 0 else new
    o = sigmoid(gates["o"] + new * peepholes[2])
    return {"i": i, "cs": new, "f": f, "o": o, "ci": ci, "co": np.tanh(new), "h": o * np.tanh(new)}


def operands(steps: int, batch: int, inputs: int, hidden: int) -> dict[str, Array]:
    rng = np.random.default_rng(steps + hidden)
    shapes = {
        "x": (steps, batch, inputs), "cs": (batch, hidden), "h": (batch, hidden), "w": (inputs + hidden, 4 * hidden),
        "wci": (hidden,), "wcf": (hidden,), "wco": (hidden,), "b": (4 * hidden,),
    }  # fmt: skip
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def expected_of(data: dict[str, Array], steps: int, *, order: str, forget: float, clip: float, peep: bool) -> Array:
    cs, h = data["cs"], data["h"]
    peepholes = [data[name] * peep for name in ("wci", "wcf", "wco")]
    rows = []
    for x in data["x"][:steps]:
        outputs = lstm(x, cs, h, data["w"], peepholes, data["b"], order=order, forget=forget, clip=clip)
        cs, h = outputs["cs"], outputs["h"]
        rows.append([outputs[name] for name in OUTPUTS])
    return np.array(rows)


CASES = [
    ("BlockLSTM", {}, "icfo", 1.0, 3.0, False),
    ("BlockLSTM", {"forget_bias": 0.5, "cell_clip": -1.0}, "icfo", 0.5, -1.0, False),
    ("BlockLSTM", {"forget_bias": 0.0, "cell_clip": 0.25, "use_peephole": True}, "icfo", 0.0, 0.25, True),
    ("BlockLSTM", {"forget_bias": 2.0, "cell_clip": 0.0, "use_peephole": True}, "icfo", 2.0, 0.0, True),
    ("BlockLSTMV2", {}, "ifco", 0.0, 0.0, False),
    ("BlockLSTMV2", {"cell_clip": 0.5, "use_peephole": True}, "ifco", 0.0, 0.5, True),
]


@pytest.mark.parametrize(("op", "attrs", "order", "forget", "clip", "peep"), CASES)
def test_a_block_agrees_with_its_steps(
    tmp_path: Path, op: str, attrs: dict[str, object], order: str, forget: float, clip: float, peep: bool
) -> None:
    steps, used = 5, 3
    data = operands(steps, 2, 3, 4)
    g = TfBuilder()
    fed = {name: g.input(name, "float32", data[name].shape) for name in ("x", "cs", "h")}
    limit = g.input("limit", "int64", ())
    weights = [fed["x"], fed["cs"], fed["h"], *[g.const(data[name]) for name in ("w", "wci", "wcf", "wco", "b")]]
    g.add(op, g.const(steps, "int64"), *weights, name="all", **attrs)
    g.add(op, g.const(steps, "int64"), *weights, name="only_h", **attrs)
    g.add(op, limit, *weights, name="some", **attrs)
    run = g.converted(tmp_path, *[f"all:{output}" for output in range(7)], "only_h:6", "some:1", "some:6")
    *whole, only_h, cs, h = run({**{name: data[name] for name in fed}, "limit": np.array(used, np.int64)})
    expected = expected_of(data, steps, order=order, forget=forget, clip=clip, peep=peep)
    for output, y in enumerate(whole):
        np.testing.assert_allclose(y, expected[:, output], rtol=1e-5, atol=1e-6, err_msg=OUTPUTS[output])
    np.testing.assert_allclose(only_h, expected[:, 6], rtol=1e-5, atol=1e-6)
    expected[used:] = 0
    np.testing.assert_allclose(cs, expected[:, 1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h, expected[:, 6], rtol=1e-5, atol=1e-6)


def test_a_block_of_which_only_h_is_read_becomes_an_lstm(tmp_path: Path) -> None:
    data = operands(4, 2, 3, 4)
    g = TfBuilder()
    inputs = [g.input("x", "float32", (None, None, 3)), g.input("cs", "float32", (None, 4))]
    inputs += [g.input("h", "float32", (None, 4)), *[g.const(data[name]) for name in ("w", "wci", "wcf", "wco", "b")]]
    g.add("BlockLSTMV2", g.const(2**40, "int64"), *inputs, name="y")
    run = g.converted(tmp_path, "y:6")
    (y,) = run({name: data[name] for name in ("x", "cs", "h")})
    expected = expected_of(data, 4, order="ifco", forget=0, clip=0, peep=False)
    np.testing.assert_allclose(y, expected[:, 6], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("peep", [False, True])
def test_cells_compute_all_their_outputs(tmp_path: Path, peep: bool) -> None:
    data = operands(1, 3, 2, 5)
    g = TfBuilder()
    x, cs, h = (g.input(name, "float32", (None, *data[name].shape[-1:])) for name in ("x", "cs", "h"))
    weight_operands = [g.const(data[name]) for name in ("w", "wci", "wcf", "wco", "b")]
    g.add("LSTMBlockCell", x, cs, h, *weight_operands, name="lstm", use_peephole=peep)
    weights = [data["w"][:, :10], data["w"][:, 10:15], data["b"][:10], data["b"][10:15]]
    g.add("GRUBlockCell", x, h, *[g.const(value) for value in weights], name="gru")
    run = g.converted(tmp_path, *[f"lstm:{output}" for output in range(7)], *[f"gru:{output}" for output in range(4)])
    outs = run({"x": data["x"][0], "cs": data["cs"], "h": data["h"]})
    expected = expected_of(data, 1, order="icfo", forget=1, clip=3, peep=peep)[0]
    for y, reference in zip(outs[:7], expected, strict=True):
        np.testing.assert_allclose(y, reference, rtol=1e-5, atol=1e-6)
    both = np.concatenate([data["x"][0], data["h"]], 1)
    r, u = np.split(sigmoid(both @ weights[0] + weights[2]), 2, 1)
    c = np.tanh(np.concatenate([data["x"][0], r * data["h"]], 1) @ weights[1] + weights[3])
    for y, reference in zip(outs[7:], (r, u, c, u * data["h"] + (1 - u) * c), strict=True):
        np.testing.assert_allclose(y, reference, rtol=1e-5, atol=1e-6)


def test_cudnn_weights_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (2, 3, 4))
    g.add("CudnnRNNV2", x, x, x, x, name="y")
    with pytest.raises(AtcError, match="cuDNN") as caught:
        g.run(tmp_path, {}, "y")
    assert caught.value.code == "E10055"
