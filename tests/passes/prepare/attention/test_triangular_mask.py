"""What is known of matrices that are computed at run time: those up to the diagonal, and those behind it."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from atcpy.ir.tensor import Array
from atcpy.ops.custom import CustomOps
from atcpy.options import convert_options
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.prepare.attention.triangular_mask import Triangle, triangle_of
from atcpy.stages.parse import parse
from atcpy.stages.prepare import prepare

HEAD = """<ir_version: 10, opset_import: ["" : 21]> m (float[n,m] x) => (float[a,b] w)
<int64 none = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, int64[1] ones = {1}, float fill = {2.5},
 float zero = {0}, bool[3,3] tri = {1,0,0,1,1,0,1,1,1}, bool[3,3] ring = {1,0,1,0,1,0,1,0,1}>
{ s = Shape(x) r = Gather(s, none) c = Gather(s, one) f = ConstantOfShape(s)
  i = Range(none, r, one) j = Range(none, c, one) rows = Unsqueeze(i, ones) """

KNOWN = [
    "e = Expand(fill, s) v = Trilu<upper = 0>(e)",
    "e = Expand(fill, s) v = Trilu(e, one)",
    "e = Add(f, fill) t = Trilu<upper = 0>(e) d = Equal(t, zero) v = Where(d, fill, zero)",
    "v = LessOrEqual(j, rows)",
    "v = Less(rows, j)",
    "p = Add(one, rows) v = Less(j, p)",
    "p = Sub(j, one) v = GreaterOrEqual(p, rows)",
    "a = Cast<to = 1>(j) b = Cast<to = 1>(rows) v = Greater(a, b)",
    "v = Not(tri)",
    "l = LessOrEqual(j, rows) g = Greater(j, rows) v = Or(l, g)",
]
UNKNOWN = [
    "e = Expand(fill, s) t = Trilu(e, one) v = Unsqueeze(t, ones)",
    "e = Expand(fill, s) v = Trilu(e)",
    "e = Expand(fill, s) v = Trilu(e, two)",
    "v = Less(j, rows)",
    "p = Add(j, three) v = LessOrEqual(p, rows)",
    "p = Sub(j, three) v = LessOrEqual(p, rows)",
    "v = Equal(j, rows)",
    "e = Expand(fill, s) t = Trilu(e, one) v = Clip(t, , fill)",
    "t = Range(none, c, two) v = LessOrEqual(t, rows)",
    "v = LessOrEqual(rows, i)",
    "v = Not(ring)",
    "e = Cast<to = 1>(x) v = Trilu(e)",
    "a = Cast<to = 1>(j) b = Cast<to = 1>(rows) e = Div(fill, zero) p = Add(a, e) v = Less(p, b)",
    "h = Cast<to = 10>(j) k = Cast<to = 10>(rows) v = Greater(h, k)",
]


def known_of(body: str) -> tuple[Triangle | None, Array]:
    """What is known of `v`, and what it is for five rows and seven columns."""
    model = parser.parse_model(f"{HEAD} {body} w = Cast<to = 1>(v) }}")
    options = convert_options({"oo_level": "O0"})
    graph = parse(model, options.parse, CustomOps()).graph
    prepare(graph, PassManager(options))
    found = triangle_of(graph.outputs[0].producer.operand(0))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (matrix,) = session.run(None, {"x": np.ones((5, 7), np.float32)})
    return found, matrix


@pytest.mark.parametrize("body", KNOWN)
def test_it_is_what_is_computed(body: str) -> None:
    found, matrix = known_of(body)
    assert found is not None
    low = np.tri(*matrix.shape[-2:], dtype=bool)
    np.testing.assert_array_equal(np.broadcast_to(np.where(low, found.low, found.high), matrix.shape), matrix)


@pytest.mark.parametrize("body", UNKNOWN)
def test_nothing_is_known_of_others(body: str) -> None:
    assert known_of(body)[0] is None


def test_what_is_made_of_itself_again_and_again_takes_no_longer() -> None:
    doubled = " ".join(f"a{i} = Add(a{i - 1}, a{i - 1})" for i in range(1, 50))
    found, _ = known_of(f"a0 = Expand(fill, s) {doubled} v = Trilu(a49, one)")
    assert found is not None and (found.low, found.high) == (0, 2.5 * 2**49)
