"""NonMaxSuppression: the ONNX reference, which is ONNX Runtime's algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops.image.nms import bound_nms
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import LOOP_ISAS
from tests.ops.exact import assert_same


def random_boxes(seed: int, batches: int, classes: int, boxes: int) -> list[Array]:
    """Boxes with large overlaps, and scores with ties."""
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, 8, (batches, boxes, 4)).astype(np.float32)
    return [corners, (rng.integers(0, 20, (batches, classes, boxes)) / 20).astype(np.float32)]


@settings(max_examples=trials(80), deadline=None)
@given(batches=st.integers(1, 3), classes=st.integers(1, 3), boxes=st.integers(0, 20), max_boxes=st.integers(0, 12),
       iou=st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_score=st.none() | st.sampled_from([0.0, 0.4, 2.0]),
       centred=st.booleans(), constant=st.booleans(), seed=st.integers(0, 999))  # fmt: skip
def test_agrees_with_the_reference(
    batches: int, classes: int, boxes: int, max_boxes: int, iou: float, min_score: float | None, centred: bool,
    constant: bool, seed: int,
) -> None:  # fmt: skip
    arrays = [*random_boxes(seed, batches, classes, boxes), np.array([max_boxes]), np.array([iou], np.float32)]
    if min_score is not None:
        arrays.append(np.array([min_score], np.float32))
    attrs = {"center_point_box": int(centred)}
    node = make_node("NonMaxSuppression", arrays, attrs, constants=(2,) if constant else ())
    assert_same(run_op(node, arrays), reference_op(node, arrays))


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("iou", [0.02, 0.2, 1.0])
def test_more_boxes_are_selected_than_a_vector_holds(iou: float, isa: str) -> None:
    rng = np.random.default_rng(4)
    corner, size = rng.uniform(0, 40, (1, 200, 2)), rng.uniform(-8, 8, (1, 200, 2))
    boxes = np.concatenate((corner, corner + size), 2).astype(np.float32)
    arrays = [boxes, rng.random((1, 2, 200), np.float32), np.array([100]), np.array([iou], np.float32)]
    node = make_node("NonMaxSuppression", arrays, constants=(2,))
    expected = reference_op(node, arrays)
    assert expected[0].shape[0] > 40
    assert_same(run_op(node, arrays, isa=isa), expected)


def test_without_a_maximum_no_box_is_selected() -> None:
    arrays = random_boxes(1, 1, 1, 5)
    assert run_op(make_node("NonMaxSuppression", arrays), arrays)[0].shape == (0, 3)


def test_omitted_optional_operands() -> None:
    arrays: list[Array | None] = [*random_boxes(1, 1, 2, 9), np.array([9]), None, np.array([0.3], np.float32)]
    filled = [*arrays[:3], np.array([0], np.float32), arrays[4]]
    node, whole = (make_node("NonMaxSuppression", inputs) for inputs in (arrays, filled))
    assert_same(run_op(node, arrays), reference_op(whole, filled))


def test_a_constant_maximum_bounds_the_result() -> None:
    arrays = [*random_boxes(1, 2, 3, 9), np.array([4])]
    assert bound_nms(make_node("NonMaxSuppression", arrays, constants=(2,))) == [(24, 3)]
    assert bound_nms(make_node("NonMaxSuppression", arrays)) == [(54, 3)]


def test_what_onnx_forbids_is_refused() -> None:
    boxes, scores = random_boxes(1, 2, 3, 9)
    with pytest.raises(ModelInvalid, match="do not fit"):
        make_node("NonMaxSuppression", [boxes, scores[..., 1:]])
