"""Random number ops: bit-exact Philox, distributions, and repeatability."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import atcpy
from atcpy.ir import DType
from atcpy.kernels import _kernels, table
from tests.harness import load_task, make_node, run_op
from tests.isa import ISAS
from tests.ops.philox import draw, draw_classes, philox

SHAPES = [(), (0,), (1,), (2,), (5, 7), (3, 1, 683)]  # the last is larger than a work item's 1 024
DTYPES = {np.float32: DType.FLOAT32, np.float64: DType.FLOAT64}


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        (0, [0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (2**64 - 1, [2**32 - 1] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            0x299F31D0A4093822,
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_generator_is_that_of_random123(key: int, counter: list[int], words: list[int]) -> None:
    assert philox(key, counter) == words  # known-answer tests of Random123


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "names"), [("RandomUniform", ("low", "high")), ("RandomNormal", ("mean", "scale"))])
def test_draws_have_the_bits_of_the_reference(
    isa: str, kind: str, names: tuple[str, str], shape: tuple[int, ...], dtype: type
) -> None:
    for a, b, seed in ((-1.5, 2.25, 3.5), (0.0, 1.0, -0.0)):
        attrs: dict[str, object] = {"shape": shape, "dtype": DTYPES[dtype].onnx, "seed": seed, names[0]: a, names[1]: b}
        expected = draw(kind.removeprefix("Random").lower(), a, b, seed, shape, dtype)
        if shape:
            np.testing.assert_array_equal(run_op(make_node(kind, [], attrs), [], isa=isa)[0], expected)
        del attrs["shape"]
        x = np.zeros(shape, np.int8)
        for threads in (1, 3):
            (like,) = run_op(make_node(f"{kind}Like", [x], attrs), [x], isa=isa, threads=threads)
            np.testing.assert_array_equal(like, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("result", [DType.INT32, DType.INT64])
def test_multinomial_agrees_with_the_reference(dtype: type, result: DType) -> None:
    rng = np.random.default_rng(0)
    for rows, classes, samples in ((1, 1, 3), (3, 7, 5), (2, 100, 1), (0, 2, 2), (2, 2, 0)):
        logits = rng.normal(size=(rows, classes)).astype(dtype) * 3
        attrs: dict[str, object] = {"sample_size": samples, "seed": 11.0, "dtype": result.onnx}
        (found,) = run_op(make_node("Multinomial", [logits], attrs), [logits])
        assert found.dtype == result.numpy
        np.testing.assert_array_equal(found, draw_classes(logits, samples, 11.0))


def test_multinomial_of_extreme_weights_gives_valid_classes() -> None:
    rows = [[-np.inf, 0, -np.inf], [np.nan, 0, 1], [-np.inf] * 3, [np.inf, 0, 0], [3e38, -3e38, 3e38]]
    logits = np.array(rows, np.float32)
    (found,) = run_op(make_node("Multinomial", [logits], {"sample_size": 50, "seed": 1.0}), [logits])
    assert ((found >= 0) & (found < 3)).all()
    assert (found[0] == 1).all() and set(found[4].tolist()) == {0, 2}


def test_draws_have_the_expected_distribution() -> None:
    attrs: dict[str, object] = {"shape": (200_000,), "seed": 5.0}
    (uniform,) = run_op(make_node("RandomUniform", [], {**attrs, "low": -2.0, "high": 6.0}), [])
    assert uniform.min() >= -2 and uniform.max() < 6
    counts, _ = np.histogram(uniform, 16, (-2, 6))
    assert abs(counts / len(uniform) - 1 / 16).max() < 0.002
    (normal,) = run_op(make_node("RandomNormal", [], {**attrs, "mean": 3.0, "scale": 2.0}), [])
    z = (normal.astype(np.float64) - 3) / 2
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01
    assert abs((z**3).mean()) < 0.03 and abs((z**4).mean() - 3) < 0.1
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 0.01  # the two numbers of a Box-Muller pair
    logits = np.log(np.array([[0.1, 0.0, 0.6, 0.3]] * 2, np.float32) + 1e-30)
    (classes,) = run_op(make_node("Multinomial", [logits], {"sample_size": 50_000, "seed": 5.0}), [logits])
    assert abs(np.bincount(classes.reshape(-1), minlength=4) / classes.size - [0.1, 0, 0.6, 0.3]).max() < 0.01


def session(text: str, folder: Path) -> atcpy.InferenceSession:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]> {text}')
    report = atcpy.convert(model, folder / "m.om")
    assert not report.host_cpu_ops and not report.unplanned
    return atcpy.InferenceSession(folder / "m.om")


@pytest.mark.parametrize("seed", ["seed = 2.0,", ""])
@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("g () => (float[9] y) { y = RandomNormal<SEED shape = [9]>() }", None),
        ("g (float[n] x) => (float[n] y) { y = RandomUniformLike<SEED high = 2.0>(x) }", np.ones(40, np.float32)),
        ("g (float16[n] x) => (float16[n] y) { y = RandomNormalLike<SEED scale = 2.0>(x) }", np.ones(40, np.float16)),
        ("g (float[n] x) => (float[n] y) { y = Bernoulli<SEED dtype = 1>(x) }", np.full(40, 0.5, np.float32)),
        (
            "g (float[n,4] x) => (int32[n,8] y) { y = Multinomial<SEED sample_size = 8>(x) }",
            np.ones((9, 4), np.float32),
        ),
    ],
)
def test_a_seed_makes_runs_repeat(text: str, x: np.ndarray | None, seed: str, tmp_path: Path) -> None:
    own = session(text.replace("SEED", seed), tmp_path)
    again = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    draws = [each.run(None, {} if x is None else {"x": x})[0] for each in (own, own, again)]
    assert [np.array_equal(draws[0], other) for other in draws[1:]] == [bool(seed)] * 2
    assert len(np.unique(draws[0])) > 1


def test_bernoulli_of_certain_outcomes(tmp_path: Path) -> None:
    own = session("g (double[n] x) => (bool[n] y) { y = Bernoulli<dtype = 9>(x) }", tmp_path)
    x = np.tile([0.0, 1.0], 5000)
    np.testing.assert_array_equal(own.run(None, {"x": x})[0], x == 1)


def test_dropout_zeroes_a_fraction_and_scales_the_others(tmp_path: Path) -> None:
    text = (
        "g (float[n] x, float r) => (float[n] y, bool[n] m) "
        "{ t = Constant<value = bool {1}>() y, m = Dropout(x, r, t) }"
    )
    own = session(text, tmp_path)
    x = np.full(100_000, 3, np.float32)
    for ratio in (0.0, 0.2, 0.9):
        feeds = {"x": x, "r": np.array(ratio, np.float32)}
        (y, mask), (_, other) = own.run(None, feeds), own.run(None, feeds)
        assert abs(mask.mean() - (1 - ratio)) < 0.01
        np.testing.assert_allclose(y, np.where(mask, 3 / (1 - ratio), 0), rtol=1e-6)
        assert np.array_equal(mask, other) == (ratio == 0)


def test_dropout_without_training_keeps_all(tmp_path: Path) -> None:
    own = session("g (float[n] x) => (float[n] y, bool[n] m) { y, m = Dropout(x) }", tmp_path)
    y, mask = own.run(None, {"x": np.arange(5, dtype=np.float32)})
    assert y.tolist() == [0, 1, 2, 3, 4] and mask.tolist() == [True] * 5


UNIFORM: dict[str, table.ParamValue] = {"n": 6, "kind": "uniform", "b": 1.0}
CLASSES: dict[str, table.ParamValue] = {"rows": 2, "classes": 3, "samples": 4}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n": 7}, "too small"),
        ({"n": -1}, "out of range"),
        ({"n": 2**62}, "out of range|too small"),
        ({"seeded": 2}, "seeded"),
    ],
)
def test_invalid_random_records_are_refused(change: dict[str, table.ParamValue], reason: str) -> None:
    y = np.zeros(6, np.float32)
    load_task("random", UNIFORM, [], y)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("random", UNIFORM | change, [], y)


def test_invalid_random_operands_are_refused() -> None:
    for srcs, dsts in (([], [np.zeros(6, np.int32)]), ([np.zeros(6, np.float32)], [np.zeros(6, np.float32)])):
        with pytest.raises(_kernels.Refused):
            load_task("random", UNIFORM, srcs, *dsts)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 3}, "too small"),
        ({"classes": 4}, "too small"),
        ({"samples": 5}, "too small"),
        ({"classes": 0}, "out of range"),
        ({"classes": 2**31}, "out of range"),
        ({"samples": -1}, "out of range"),
        ({"rows": 2**40, "samples": 2**40}, "too small"),
        ({"wide": 1}, "wrong type"),
        ({"wide": 2}, "wide"),
        ({"seeded": -1}, "seeded"),
    ],
)
def test_invalid_multinomial_records_are_refused(change: dict[str, table.ParamValue], reason: str) -> None:
    operands = [np.zeros((2, 3), np.float32)], np.zeros((2, 4), np.int32)
    load_task("multinomial", CLASSES, *operands)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("multinomial", CLASSES | change, *operands)
