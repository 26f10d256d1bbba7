"""Gradient accumulators, optimizers, scaling and finiteness checks of ONNX Runtime training graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ops.contrib.record import REFUSED
from tests.ops.contrib.cases import expanded, floats, make_model
from tests.ops.contrib.training.test_gradients import close, ours
from tests.parsers.onnx.canonical import Array, parsed

HEAD = '<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
A, B = floats(2, 3), floats(2, 3, seed=2)


def run(text: str, *inputs: Array) -> tuple[Array, ...]:
    return tuple(atcpy.backend.run_model(onnx.parser.parse_model(HEAD + text), list(inputs)))


# --- accumulators ---------------------------------------------------------------------------------


def test_an_accumulator_adds_only_when_its_signal_is_set() -> None:
    close(ours("InPlaceAccumulator", [A, B])[0], A + B)
    for signal in (True, False):
        close(ours("InPlaceAccumulator", [A, B, np.array([signal])])[0], A + B if signal else A)
    half = B.astype(np.float16)
    (total,) = ours("InPlaceAccumulator", [A, half])
    assert total.dtype == np.float32
    close(total, A + half)


@pytest.mark.parametrize("flag", [None, False, True])
def test_an_accumulator_reports_completion(flag: bool | None) -> None:
    inputs = [A, B] if flag is None else [A, B, np.array([flag])]
    done, total = ours("InPlaceAccumulatorV2", inputs, outputs=2)
    assert done.tolist() == [True]
    close(total, B if flag else A + B)


def test_a_buffer_updated_in_place_becomes_an_output() -> None:
    text = """g (float[2,3] buffer, float[2,3] grad, bool[1] reset) => (bool[1] done, float[2,3] twice)
      { twice = Add(grad, grad) done = com.microsoft.InPlaceAccumulatorV2(buffer, grad, reset) }"""
    graph = parsed(onnx.parser.parse_model(HEAD + text)).graph
    assert [value.name for value in graph.outputs] == ["done", "twice", "buffer_next"]
    done, twice, after = run(text, A, B, np.array([False]))
    assert done.tolist() == [True]
    close(twice, 2 * B)
    close(after, A + B)


def test_a_buffer_whose_update_is_read_adds_no_output() -> None:
    text = """g (float[2,3] buffer, float[2,3] grad) => (bool[1] done, float[2,3] y)
      { done, sum = com.microsoft.InPlaceAccumulatorV2(buffer, grad) y = Neg(sum) }"""
    graph = parsed(onnx.parser.parse_model(HEAD + text)).graph
    assert [value.name for value in graph.outputs] == ["done", "y"]
    close(run(text, A, B)[1], -(A + B))


def test_updating_a_constant_or_outer_value_in_place_is_refused() -> None:
    text = """g (float[2,3] grad) => (bool[1] done) <float[2,3] buffer = {1, 2, 3, 4, 5, 6}>
      { done = com.microsoft.InPlaceAccumulatorV2(buffer, grad) }"""
    with pytest.raises(Unsupported, match='changes "buffer" in place, a constant') as raised:
        parsed(onnx.parser.parse_model(HEAD + text))
    assert raised.value.hint == "make it an input"
    text = """g (float[2,3] buffer, bool c) => (bool[1] y)
      { y = If (c) <then_branch = a () => (bool[1] done) { done = com.microsoft.InPlaceAccumulatorV2(buffer, buffer) },
                    else_branch = b () => (bool[1] done) { done = Constant<value = bool[1] {0}>() }> }"""
    with pytest.raises(Unsupported, match='changes "buffer" in place, a value of the graph around'):
        parsed(onnx.parser.parse_model(HEAD + text))


def test_optimize_keeps_ops_that_update_their_input(tmp_path: Path) -> None:
    text = """g (float[2] buffer, float[2] grad) => (float[2] y)
      { y = Neg(grad) done = com.microsoft.InPlaceAccumulatorV2(buffer, grad) }"""
    onnx.save(onnx.parser.parse_model(HEAD + text), tmp_path / "m.onnx")
    atcpy.optimize(tmp_path / "m.onnx", tmp_path / "n.onnx", verify=False)
    after = onnx.load(tmp_path / "n.onnx")
    assert [node.op_type for node in after.graph.node] == ["Neg", "InPlaceAccumulatorV2"]


def test_zero_gradient_and_pass_through() -> None:
    assert ours("ZeroGradient", [A, np.array([True])])[0].tolist() == np.zeros((2, 3)).tolist()
    assert ours("Group", [A, np.array(3), B])[0].tolist() == [True]
    results = ours("PassThrough", [A, np.array(3), B], outputs=3)
    close(results[0], A)
    assert results[1] == 3


# --- scales and checks ----------------------------------------------------------------------------


def test_finite_numbers() -> None:
    bad = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert ours("IsFinite", [bad])[0].tolist() == [True, False, False, False]
    for third, (attrs, flag) in [
        (1.0, ({}, True)), (np.nan, ({}, False)), (np.inf, ({}, False)), (np.nan, ({"isinf_only": 1}, True)),
        (-np.inf, ({"isinf_only": 1}, False)), (np.inf, ({"isnan_only": 1}, True)),
    ]:  # fmt: skip
        (all_finite,) = ours("IsAllFinite", [A, np.array([2, third], np.float32)], attrs)
        assert (all_finite.shape, bool(all_finite)) == ((), flag)
    assert [bool(ours("All", [np.array(flags)])[0]) for flags in ([True, True], [True, False])] == [True, False]
    with pytest.raises(ModelInvalid, match="both isinf_only and isnan_only"):
        ours("IsAllFinite", [A], {"isinf_only": 1, "isnan_only": 1})


def test_scales() -> None:
    close(ours("Scale", [A, np.array([4])])[0], A * 4)
    close(ours("Scale", [A, np.array(4.0)], {"scale_down": 1})[0], A / 4)
    by = np.array(2, np.float32)
    half, other = ours("MixedPrecisionScale", [by, A, B[0]], {"to": 10}, outputs=2)
    assert (half.dtype, other.shape) == (np.float16, (3,))
    np.testing.assert_allclose(half, A * 2, rtol=1e-3)
    (fused,) = ours("MixedPrecisionScale", [by, A, B[0]], {"to": 1, "fuse_outputs": 1})
    close(fused, np.concatenate([A.ravel(), B[0]]) * 2)
    close(ours("ReduceAllL2", [A, B[0]])[0], np.sqrt((A * A).sum() + (B[0] * B[0]).sum()))
    assert ours("ReduceAllL2", [A.astype(np.float16)])[0].dtype == np.float32


# --- optimizers -----------------------------------------------------------------------------------


def test_gradient_descent() -> None:
    new, delta = ours("SGDOptimizer", [np.array([0.1], np.float32), A, B], outputs=2)
    close(delta, -0.1 * B)
    close(new, A - 0.1 * B)


@pytest.mark.parametrize("corrects", [0, 1])
def test_adam(corrects: int) -> None:
    m, v, step = floats(2, 3, seed=3), np.abs(floats(2, 3, seed=4)), np.array(4)
    attrs: dict[str, object] = {
        "alpha": 0.8,
        "beta": 0.9,
        "epsilon": 1e-3,
        "lambda": 0.1,
        "do_bias_correction": corrects,
    }
    inputs = [np.array(0.01, np.float32), step, A, B, m, v]
    new_step, new_m, new_v, new_w, delta = ours("AdamOptimizer", inputs, attrs, outputs=5)
    assert new_step == 5
    m, v = 0.8 * m + 0.2 * B, 0.9 * v + 0.1 * B * B
    close(new_m, m)
    close(new_v, v)
    by_m, by_v = (1 - 0.8**4, 1 - 0.9**4) if corrects else (1, 1)
    move = -0.01 * (m / by_m / (np.sqrt(v / by_v) + 1e-3) + 0.1 * A)
    close(delta, move)
    close(new_w, A + move)


def test_gpu_only_inputs_of_adam_are_refused() -> None:
    inputs = [np.array(0.1, np.float32), np.array(1), A, B, A, B]
    with pytest.raises(Unsupported, match="input loss_scale is given"):
        expanded(make_model("AdamOptimizer", [*inputs, None, np.array(1, np.float32)], outputs=4))
    with pytest.raises(Unsupported, match="weight_decay_mode = 1"):
        expanded(make_model("AdamOptimizer", inputs, {"weight_decay_mode": 1}, outputs=4))


SHAPES = ((2, 3), (4,))
W, G = ([floats(*shape, seed=seed) for shape in SHAPES] for seed in (1, 2))
M, V = ([np.abs(floats(*shape, seed=seed)) for shape in SHAPES] for seed in (3, 4))
RATE, STEP = np.array([0.1], np.float32), np.array([3])


@pytest.mark.parametrize("signal", [None, True, False])
@pytest.mark.parametrize("joined", [False, True])
def test_gradient_descent_of_a_sequence(signal: bool | None, joined: bool) -> None:
    last = "" if signal is None else ", signal"
    flag = "" if signal is None else ", bool[1] signal"
    gradients = "float[2,3] g0, float[4] g1" if joined else "seq(float) g"
    join = "g = SequenceConstruct(g0, g1)" if joined else ""
    text = f"""g (float[1] lr, seq(float) params, {gradients}{flag}) => (bool[1] done)
      {{ {join} done = com.microsoft.SGDOptimizerV2(lr, params, g{last}) }}"""
    inputs = [RATE, W, *(G if joined else [G]), *([] if signal is None else [np.array([signal])])]
    done, after = run(text, *inputs)
    assert done.tolist() == [signal is not False]
    for new, w, g in zip(after, W, G, strict=True):
        close(new, w if signal is False else w - 0.1 * g)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("corrects", [0, 1])
@pytest.mark.parametrize("joined", [False, True])
def test_adam_with_decaying_weights(mode: int, corrects: int, joined: bool) -> None:
    """As onnxruntime.training.artifacts writes it: sequences updated in place."""
    gradients = "float[2,3] g0, float[4] g1" if joined else "seq(float) g"
    join = "g = SequenceConstruct(g0, g1)" if joined else ""
    attrs = (
        f"alpha = 0.8, beta = 0.9, epsilon = 0.001, weight_decay = 0.1, correct_bias = {corrects}, adam_mode = {mode}"
    )
    text = f"""g (float[1] lr, int64[1] step, seq(float) params, {gradients}, seq(float) first, seq(float) second)
      => (int64[1] done)
      {{ {join}
         done = com.microsoft.AdamWOptimizer<{attrs}>(lr, step, params, g, first, second) }}"""
    model = onnx.parser.parse_model(HEAD + text)
    names = [value.name for value in parsed(model).graph.outputs]
    assert names == ["done", "params_next", "first_next", "second_next"]
    done, *after = run(text, RATE, STEP, W, *(G if joined else [G]), M, V)
    assert (done.dtype, done.tolist()) == (np.int64, [1])
    by_m, by_v = (1 - 0.8**3, 1 - 0.9**3) if corrects else (1, 1)
    for w, g, m, v, *new in zip(W, G, M, V, *after, strict=True):
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        if mode == 0:
            w = w - 0.1 * 0.1 * w
            w = w - 0.1 * m / by_m / (np.sqrt(v / by_v) + 1e-3)
        else:
            w = w - 0.1 * np.sqrt(by_v) / by_m * m / (np.sqrt(v) + 1e-3)
            w = w - 0.1 * 0.1 * w
        for have, want in zip(new, (w, m, v), strict=True):
            close(have, want)


@pytest.mark.parametrize("max_norm", [1.0, 100.0])
@pytest.mark.parametrize("joined", [False, True])
def test_gradients_are_clipped_together(max_norm: float, joined: bool) -> None:
    gradients = "float[2,3] g0, float[4] g1" if joined else "seq(float) g"
    join = "g = SequenceConstruct(g0, g1)" if joined else ""
    text = f"""g ({gradients}) => (seq(float) y)
      {{ {join} y = com.microsoft.InplaceClipGradNorm<max_norm = {max_norm}>(g) }}"""
    norm = np.sqrt(sum((g * g).sum() for g in G))
    for have, g in zip(run(text, *(G if joined else [G]))[0], G, strict=True):
        close(have, g * min(max_norm / (norm + 1e-6), 1))


@pytest.mark.parametrize("op", REFUSED)
def test_unsupported_optimizers_are_refused_with_a_hint(op: str) -> None:
    with pytest.raises(Unsupported, match=f"com.microsoft::{op} is not a known operator") as raised:
        parsed(make_model(op, [A]))
    assert raised.value.code == "E19010"
    assert raised.value.hint.startswith(REFUSED[op])
