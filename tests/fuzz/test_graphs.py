"""42 random graphs agree with the oracle, 120 in the slow tests; `make fuzz-graphs` runs thousands."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from atcpy.ir import DType
from tests.fuzz.builder import Case, Value, make_model
from tests.fuzz.graphs import Tally, check, random_case
from tests.fuzz.oracle import Oracle, compare
from tests.fuzz.shrink import shrink

PARTS, QUICK, EACH = 20, 7, 6


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.slow if part >= QUICK else ()) for part in range(PARTS)]
)
def test_agrees_with_float64(part: int) -> None:
    tally = Tally()
    reports = [check(seed, tally) for seed in range(part * EACH, (part + 1) * EACH)]
    assert not any(reports), "\n".join(reports)
    assert tally.compared > 0.6 * tally.elements


def two_nodes(op_type: str, x: list[float]) -> Case:
    """Build y = op(x · 0.1) and its maximum z."""
    value, y, z = (
        Value("x", DType.FLOAT32, (len(x),)),
        Value("y", DType.FLOAT32, (len(x),)),
        Value("z", DType.FLOAT32, ()),
    )
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["p"], name="mul"),
        helper.make_node(op_type, ["p"], ["y"], name="op"),
        helper.make_node("ReduceMax", ["y"], ["z"], name="max", keepdims=0),
    ]
    constant = numpy_helper.from_array(np.float32(0.1), "c")
    return Case(make_model(nodes, [value], [y, z], [constant]), {"x": np.array(x, np.float32)})


def test_results_that_depend_on_rounding_may_be_either_neighbour() -> None:
    samples = Oracle(two_nodes("Floor", [20, 25])).values["y"]
    compared, wrong = compare(np.array([1, 2], np.float32), samples, DType.FLOAT32)
    assert compared.all() and not wrong.any()  # 1 or 2: the distance of the samples is 1
    compared, wrong = compare(np.array([2, 3], np.float32), samples, DType.FLOAT32)
    np.testing.assert_array_equal(wrong, [False, True])


def test_undefined_integers_are_not_compared() -> None:
    x = Value("x", DType.FLOAT32, (2,))
    node = helper.make_node("Cast", ["x"], ["y"], name="cast", to=DType.UINT8.onnx)
    case = Case(make_model([node], [x], [Value("y", DType.UINT8, (2,))], []), {"x": np.array([7, -1e9], np.float32)})
    compared, wrong = Oracle(case).compare("y", np.array([8, 3], np.uint8))
    np.testing.assert_array_equal(compared, [True, False])
    np.testing.assert_array_equal(wrong, [True, False])


def test_the_larger_of_0_and_minus_0_may_be_either() -> None:
    x, y = Value("x", DType.FLOAT32, (2,)), Value("y", DType.FLOAT32, ())
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], name="max", keepdims=0),
        helper.make_node("Reciprocal", ["m"], ["y"], name="op"),
    ]
    for numbers, infinite in (([0.0, -0.0], True), ([1.0, -0.0], False)):
        case = Case(make_model(nodes, [x], [y], []), {"x": np.array(numbers, np.float32)})
        for result in (np.inf, -np.inf):
            _, wrong = Oracle(case).compare("y", np.float32(result).reshape(()))
            assert wrong.any() != infinite


def test_a_small_error_is_detected() -> None:
    samples = Oracle(two_nodes("Exp", [1, 2])).values["y"]
    right = samples[0].astype(np.float32)
    assert not compare(right, samples, DType.FLOAT32)[1].any()
    assert compare(right * np.float32(1 + 1e-4), samples, DType.FLOAT32)[1].all()


def test_a_failing_case_is_minimised() -> None:
    case = two_nodes("Exp", [1, 2])
    small = shrink(case, lambda part: any(node.op_type == "ReduceMax" for node in part.model.graph.node))
    assert [node.op_type for node in small.model.graph.node] == ["ReduceMax"]
    np.testing.assert_allclose(small.feeds["y"], np.exp([0.1, 0.2]), rtol=1e-6)


def test_a_seed_always_gives_the_same_case() -> None:
    first, second = random_case(7), random_case(7)
    assert first.model == second.model
    assert 3 <= len(first.model.graph.node) <= 20
