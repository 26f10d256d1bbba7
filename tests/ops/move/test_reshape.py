"""Views: shapes as ONNX infers them, symbolic sizes kept, elements unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Reject, Shape, Sym, TensorDesc
from atcpy.ops import Layout, Trait, find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.move.reshape import infer_reshape, layout_view, reshaped, supports_dropout
from tests.harness import make_node, reference_op
from tests.ops.exact import arange, assert_same

N, S = Sym("n"), Sym("s")

CASES = [
    ("Reshape", (2, 3, 4), [4, -1], {}),
    ("Reshape", (2, 3, 4), [0, 0, 4, 1], {}),
    ("Reshape", (2, 3, 4), [-1], {}),
    ("Reshape", (), [1, 1], {}),
    ("Reshape", (1,), [], {}),
    ("Reshape", (0, 3), [3, 0], {"allowzero": 1}),
    ("Reshape", (0, 3), [0, 3, 1], {}),
    ("Squeeze", (1, 3, 1), [0, -1], {}),
    ("Squeeze", (1, 3, 1), None, {}),
    ("Unsqueeze", (3, 2), [0, -1], {}),
    ("Unsqueeze", (), [0], {}),
    ("Flatten", (2, 3, 4), None, {}),
    ("Flatten", (2, 3, 4), None, {"axis": 0}),
    ("Flatten", (2, 3, 4), None, {"axis": -1}),
    ("Flatten", (2, 3, 4), None, {"axis": 3}),
    ("Identity", (2, 0), None, {}),
]


@pytest.mark.parametrize(("op_type", "shape", "operand", "attrs"), CASES)
def test_agrees_with_the_reference(
    op_type: str, shape: tuple[int, ...], operand: list[int] | None, attrs: dict[str, object]
) -> None:
    arrays = [arange(shape)] + ([] if operand is None else [np.array(operand, np.int64)])
    node = make_node(op_type, arrays, attrs, constants=(1,))
    assert [value.desc for value in node.outputs] == infer_by_onnx(node, known_constant)
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    assert_same(opdef.evaluate(node, arrays), reference_op(node, arrays))
    assert Trait.VIEW in opdef.traits and not [reject for engine in opdef.engines.values() for reject in engine(node)]


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((N, 3, 4), (0, -1), (N, 12)),
        ((N, 3, 4), (-1, 12), (N, 12)),
        ((N, S, 4), (-1, 4), (Sym("(n*s)"), 4)),
        ((N, S, 8), (N, -1, 4), (N, Sym("(2*s)"), 4)),
        ((N, 3), (S, -1), (S, Sym("Reshape.1"))),
        ((0, 5, 4), (0, -1, 2), (0, 10, 2)),
        ((N, 3), (-1, 5), (Sym("Reshape.0"), 5)),
        (None, (2, -1), (2, Sym("Reshape.1"))),
    ],
)
def test_symbolic_sizes(shape: Shape | None, target: Shape, expected: Shape) -> None:
    node = make_node("Reshape", [arange((1,)), np.array([1])], constants=(1,))
    assert reshaped(node, shape, target) == expected


def test_a_computed_target_shape_gives_the_rank() -> None:
    node = make_node("Reshape", [arange((4,)), np.array([2, 2])])
    assert infer_reshape(node, known_constant)[0].shape == (Sym("Reshape.0"), Sym("Reshape.1"))


@pytest.mark.parametrize(
    ("op_type", "shape", "operand", "wrong"),
    [
        ("Reshape", (2, 3), [4, -1], r"shape \[2,3\] cannot become \[4,-1\]"),
        ("Reshape", (2, 3), [5], "6 elements are not 5"),
        ("Reshape", (2, 3), [-1, -1], "at most once"),
        ("Reshape", (6,), [2, 0], "there is no dim 1 to keep"),
        ("Squeeze", (2, 3), [1], r"dim 1 of \[2,3\] is not of size 1"),
        ("Unsqueeze", (2, 3), [1, 1], "names an axis twice"),
        ("Unsqueeze", (2, 3), [4], "axes = 4 is outside"),
    ],
)
def test_what_onnx_forbids_is_refused(op_type: str, shape: tuple[int, ...], operand: list[int], wrong: str) -> None:
    with pytest.raises(ModelInvalid, match=wrong):
        make_node(op_type, [arange(shape), np.array(operand)], constants=(1,))


def test_dropout_is_a_view_in_inference_only() -> None:
    x, ratio = arange((4,)), np.array(0.5, np.float32)
    assert not list(supports_dropout(make_node("Dropout", [x])))
    training = make_node("Dropout", [x, ratio, np.array(True)], constants=(2,))
    assert [reject.reason for reject in supports_dropout(training)] == ["training-mode"]
    masked = make_node("Dropout", [x], outputs=2)
    assert masked.outputs[1].desc == TensorDesc.plain(DType.BOOL, (4,))
    assert [reject.reason for reject in supports_dropout(masked)] == ["mask-used"]


def test_one_pixel_of_whole_blocks_needs_no_transdata() -> None:
    node = make_node("Flatten", [arange((2, 32, 1, 1))])
    assert layout_view(node, (NC1HWC0,)) == Layout((NC1HWC0,), (None,))
    reject = layout_view(make_node("Flatten", [arange((2, 33, 1, 1))]), (NC1HWC0,))
    assert isinstance(reject, Reject) and reject.reason == "elements-move"
