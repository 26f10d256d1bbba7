"""Elementwise ops of one operand: each row against float64, by ulp, and against the ONNX reference."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS

Function = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


# Op, its definition in float64, maximum error of its vector rows in ulp.
ACCURATE: list[tuple[str, Function, float]] = [
    ("Exp", np.exp, 1.1),
    ("Log", np.log, 1),
    ("Tanh", np.tanh, 2.5),
    ("Erf", np.vectorize(math.erf), 1.1),
    ("Sigmoid", sigmoid, 2.5),
    ("Softplus", lambda x: np.logaddexp(0, x), 2),
    ("Elu", lambda x: np.where(x < 0, np.expm1(x), x), 1),
    ("Celu", lambda x: np.where(x < 0, np.expm1(x), x), 1),
    ("Mish", lambda x: x * np.tanh(np.logaddexp(0, x)), 4.5),
    ("Swish", lambda x: x * sigmoid(x), 3.5),
    ("Softsign", lambda x: x / (1 + np.abs(x)), 1.5),
    ("Sqrt", np.sqrt, 0.5),
    ("Reciprocal", lambda x: 1 / x, 0.5),
]
# Far below zero these subtract nearly equal numbers or become denormal: there, an error
# of this size relative to the op's scale is allowed.
SMALL = {"Sigmoid": 1e-37, "Swish": 1e-37, "Softplus": 1e-37, "Mish": 1e-37}


def points() -> Array:
    """All magnitudes of both signs, with dense samples where the functions bend."""
    rng = np.random.default_rng(11)
    sizes = np.exp(rng.uniform(math.log(1e-44), math.log(3e38), 6000))
    return np.concatenate(
        [sizes, -sizes, rng.uniform(-110, 90, 6000), rng.uniform(-5, 5, 12000), np.linspace(0.4, 1.6, 4001)]
    ).astype(np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("op", "function", "ulps"), ACCURATE, ids=[case[0] for case in ACCURATE])
def test_error_in_ulp(op: str, function: Function, ulps: float, isa: str) -> None:
    x = points()
    ours = run_op(make_node(op, [x]), [x], isa=isa)[0].astype(np.float64)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        rounded = exact.astype(np.float32)
        ulp = np.spacing(np.abs(rounded)).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(exact))
    np.testing.assert_array_equal(ours[np.isinf(rounded)], rounded[np.isinf(rounded)])
    finite = np.isfinite(rounded)
    error = np.abs(ours[finite] - exact[finite])
    assert np.all(error <= np.maximum(ulps * ulp[finite], SMALL.get(op, 0)))


SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 0.5, 1.5, 2.5, -0.5, -2.5, 3, -3, 7], np.float32)
CASES: list[tuple[str, dict[str, object]]] = [
    ("Relu", {}), ("LeakyRelu", {}), ("LeakyRelu", {"alpha": 0.25}), ("ThresholdedRelu", {"alpha": 2.0}),
    ("Sigmoid", {}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 0.5, "beta": 0.25}), ("HardSwish", {}),
    ("Swish", {}), ("Swish", {"alpha": 1.75}), ("Mish", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}),
    ("Elu", {}), ("Elu", {"alpha": 2.0}), ("Selu", {}), ("Selu", {"alpha": 2.0, "gamma": 3.0}), ("Celu", {}),
    ("Celu", {"alpha": 2.0}), ("Softplus", {}), ("Softsign", {}), ("Tanh", {}), ("Erf", {}), ("Exp", {}), ("Log", {}),
    ("Sqrt", {}), ("Reciprocal", {}), ("Abs", {}), ("Neg", {}), ("Sign", {}), ("Floor", {}), ("Ceil", {}),
    ("Round", {}), ("Sin", {}), ("Cos", {}), ("Tan", {}), ("Asin", {}), ("Acos", {}), ("Atan", {}), ("Sinh", {}),
    ("Cosh", {}), ("Asinh", {}), ("Acosh", {}), ("Atanh", {}),
]  # fmt: skip
# The reference's formula overflows in an intermediate where the function itself stays finite.
LIMITS = {"Softplus": {np.inf: np.inf}}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(("op", "attrs"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_agrees_with_the_reference(op: str, attrs: dict[str, object], dtype: type) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([SPECIAL, rng.normal(0, 3, 46)]).astype(dtype)
    node = make_node(op, [x], attrs)
    with np.errstate(all="ignore"):
        expected = reference_op(node, [x])[0]
    for value, limit in LIMITS.get(op, {}).items():
        expected[x == value] = limit
    for isa in ISAS:
        ours = run_op(node, [x], isa=isa)[0]
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=3e-7, err_msg=isa)


SIGN_OF_ZERO = ["Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "Tanh", "Erf", "Relu", "LeakyRelu", "Elu", "Softsign"]


@pytest.mark.parametrize("op", SIGN_OF_ZERO)
def test_zero_keeps_its_sign_on_each_isa(op: str) -> None:
    x = np.array([0.0, -0.0] * 9, np.float32)
    expected = run_op(make_node(op, [x]), [x], isa="scalar")[0]
    for isa in ISAS:
        np.testing.assert_array_equal(np.signbit(run_op(make_node(op, [x]), [x], isa=isa)[0]), np.signbit(expected))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", ["Relu", "Tanh", "Swish", "Sin"])
@given(shape=st.lists(st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31]), max_size=4), threads=st.integers(1, 2))
@settings(max_examples=trials(20))
def test_odd_shapes(op: str, isa: str, shape: list[int], threads: int) -> None:
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    ours = run_op(make_node(op, [x]), [x], isa=isa, threads=threads)[0]
    np.testing.assert_allclose(ours, reference_op(make_node(op, [x]), [x])[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("isa", ISAS)
def test_results_do_not_depend_on_the_number_of_work_items(isa: str) -> None:
    x = np.random.default_rng(0).standard_normal(3 * (1 << 14) + 5).astype(np.float32)
    node = make_node("Sigmoid", [x])
    np.testing.assert_array_equal(run_op(node, [x], isa=isa, threads=2)[0], run_op(node, [x], isa=isa, threads=1)[0])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("c", [1, 16, 19])
def test_blocks_of_channels(c: int, isa: str) -> None:
    x = np.random.default_rng(c).standard_normal((2, c, 3, 5)).astype(np.float32)
    node = make_node("HardSwish", [x])
    ours = run_op(node, [x], blocked=True, isa=isa)[0]
    assert node.output.desc.storage_shape == (2, -(-c // 16), 3, 5, 16)
    np.testing.assert_allclose(ours, reference_op(node, [x])[0], rtol=1e-6, atol=1e-7)


SIGNED, UNSIGNED = [np.int8, np.int16, np.int32, np.int64], [np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("op", ["Relu", "Abs", "Neg", "Sign", "BitwiseNot"])
def test_integers(op: str, dtype: type) -> None:
    if dtype in UNSIGNED and op in {"Relu", "Neg"}:
        return  # not of these types in ONNX
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, 0, 1, 5, limits.max], dtype)
    node = make_node(op, [x])
    with np.errstate(all="ignore"):
        expected = np.where(x < 0, 0, x) if op == "Relu" else reference_op(node, [x])[0]
    np.testing.assert_array_equal(run_op(node, [x])[0], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, *SIGNED, *UNSIGNED], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("bias", [0.0, 1.5, 2.0, -3.25])
@pytest.mark.parametrize("lambd", [0.5, 3.0, -1.0])
def test_shrink(lambd: float, bias: float, dtype: type) -> None:
    x = np.arange(0 if dtype in UNSIGNED else -20, 20).astype(dtype)
    if np.dtype(dtype).kind == "u":
        x = x[(x > lambd + 4) | (x <= lambd)]  # an unsigned result below zero is undefined
    node = make_node("Shrink", [x], {"lambd": lambd, "bias": bias})
    np.testing.assert_array_equal(run_op(node, [x])[0], reference_op(node, [x])[0])


def test_shrink_keeps_large_integers() -> None:
    x = np.array([2**63 - 1, -(2**63), 2**60 + 1])
    np.testing.assert_array_equal(run_op(make_node("Shrink", [x], {"bias": 1.0}), [x])[0], x - np.sign(x))
    ours = run_op(make_node("Shrink", [x], {"bias": 0.5}), [x])[0]
    np.testing.assert_array_equal(ours, [-(2**63), -(2**63), 2**60])


def test_not() -> None:
    x = np.array([True, False, True])
    np.testing.assert_array_equal(run_op(make_node("Not", [x]), [x])[0], [False, True, False])


@pytest.mark.parametrize("op", sorted({case[0] for case in CASES}))
def test_supported_types_are_those_of_onnx(op: str) -> None:
    x = np.zeros((2, 3, 4, 5), np.float64)
    node = make_node(op, [x])
    assert [node.output.desc] == infer_by_onnx(node, known_constant)


@pytest.mark.parametrize(
    ("op", "attrs", "dtype", "reason"),
    [("Exp", {}, np.float16, "dtype"), ("Neg", {}, np.complex64, "dtype")],
)
def test_reasons_against_the_kernels(op: str, attrs: dict[str, object], dtype: type, reason: str) -> None:
    node = make_node(op, [np.zeros(3, dtype)], attrs)
    opdef = find_opdef(node)
    assert opdef is not None
    (supports,) = opdef.engines.values()
    assert [reject.reason for reject in supports(node)] == [reason]


def test_an_unknown_gelu_is_refused() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(ModelInvalid, match="approximate"):
        run_op(make_node("Gelu", [x], {"approximate": "erf"}), [x])


@pytest.mark.parametrize("op", ["LeakyRelu", "HardSigmoid"])
def test_default_attributes_are_rounded_to_float32(op: str) -> None:
    x = np.array([-1.0, -3.0, 0.3])
    stated = {"LeakyRelu": {"alpha": 0.01}, "HardSigmoid": {"alpha": 0.2}}[op]
    as_stored = {name: float(np.float32(number)) for name, number in stated.items()}
    for attrs in ({}, as_stored):
        node = make_node(op, [x], attrs)
        np.testing.assert_allclose(run_op(node, [x])[0], reference_op(node, [x])[0], rtol=1e-14)


@pytest.mark.parametrize("op", ["Erf", "Gelu", "HardSwish", "Softsign"])
@pytest.mark.parametrize("shape", [(), (5,)])
def test_constants_are_folded_in_their_own_precision(op: str, shape: tuple[int, ...]) -> None:
    """Folding agrees with the kernel; ONNX's reference rounds some results to float32 or fails on scalars."""
    x = np.random.default_rng(7).standard_normal(shape)
    node, opdef = make_node(op, [x]), find_opdef(make_node(op, [x]))
    assert opdef is not None and opdef.evaluate is not None
    np.testing.assert_allclose(opdef.evaluate(node, [x])[0], run_op(node, [x])[0], rtol=1e-13, atol=1e-15)
    half = x.astype(np.float16)
    assert opdef.evaluate(node, [half])[0].dtype == np.float16


def test_gelu_by_tanh_is_folded_in_its_own_precision() -> None:
    x = np.random.default_rng(7).standard_normal(5)
    node = make_node("Gelu", [x], {"approximate": "tanh"})
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    np.testing.assert_allclose(opdef.evaluate(node, [x])[0], run_op(node, [x])[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("op_type", "x"),
    [
        ("Sin", np.arange(1, 3000) * np.pi),
        ("Sin", np.linspace(-99_000, 99_000, 3001)),
        ("Cos", (np.arange(1, 3000) + 0.5) * np.pi),
        ("Tan", np.linspace(-900, 900, 3001)),
        ("Sin", np.geomspace(1e5, 1e30, 100)),
        ("Asin", np.linspace(-1, 1, 3001)),
        ("Acos", 1 - np.geomspace(6e-8, 2, 3000)),
        ("Atan", np.geomspace(1e-30, 1e30, 3000)),
    ],
)
def test_functions_of_angles_are_rounded_right_but_for_half_a_unit(op_type: str, x: Array, isa: str) -> None:
    x = x.astype("f4")
    (ours,) = run_op(make_node(op_type, [x]), [x], isa=isa)
    function = {"Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan}
    right = function[op_type](x.astype("f8"))
    units = np.spacing(np.abs(right).astype("f4")).astype("f8")
    assert np.abs((ours - right) / units).max() < 0.51


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", ["Asin", "Acos", "Atan"])
def test_arcs_of_all_exponents_are_rounded_right_but_for_half_a_unit(op_type: str, isa: str) -> None:
    rng = np.random.default_rng(5)
    sizes = ((np.repeat(np.arange(256), 60) << 23) | rng.integers(0, 1 << 23, 60 * 256)).astype("u4").view("f4")
    bends = np.nextafter(np.repeat(np.array([0.5, 1], "f4"), 3), np.array([0, 0.7, 2] * 2, "f4"))
    x = np.concatenate([sizes, -sizes, bends, -bends, np.array([0.5, -0.5, 1, -1, np.inf, -np.inf, np.nan], "f4")])
    (ours,) = run_op(make_node(op_type, [x]), [x], isa=isa)
    function = {"Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan}[op_type]
    with np.errstate(invalid="ignore"):
        right = function(x.astype("f8"))
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(right))
    error = np.abs(ours - right) / np.spacing(np.abs(right).astype("f4")).astype("f8")
    assert np.nanmax(error) < 0.51


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", ["Sin", "Tan", "Asin", "Atan"])
def test_odd_functions_keep_the_sign_of_zero(op_type: str, isa: str) -> None:
    x = np.array([0.0, -0.0], np.float32)
    assert list(np.signbit(run_op(make_node(op_type, [x]), [x], isa=isa)[0])) == [False, True]
