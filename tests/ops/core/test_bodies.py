"""Bodies of If, Loop, Scan and SequenceMap that break the standard's rule for their op, beside those that keep it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import atcpy
from atcpy.errors import ModelInvalid
from tests.models_in_text import model

# What is refused, by the text of a model whose node `n` is wrong; `{}` is what is wrong, or right.
IF = "g (bool{shape} c, float[2] x) => (float[2] y) {{ [n] y = If(c)<then_branch = {then}, else_branch = {other}> }}"
THEN = "t () => (float[2] a) { a = Relu(x) }"
ELSE = "e () => (float[2] b) { b = Neg(x) }"
LOOP = "g (float[2] x, int64{shape} m, bool{shape} c) => (float[2] y) {{ [n] y = Loop(m, c, x)<body = {body}> }}"
SCAN = (
    "g (float[2] s, float[3,2] x) => (float[2] y, float[3,2] z) "
    "{{ [n] y, z = Scan(s, x)<body = {body}, num_scan_inputs = {count}{attrs}> }}"
)
STEP = "b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo) { co = Identity(ci) vo = Neg(v) }"
SUM = "b (float[2] v, float[2] r) => (float[2] vo, float[2] ro) { vo = Add(v, r) ro = Identity(vo) }"
ITEMS = STEP.replace("float[2] vo)", "float[2] vo, float[2] w)").replace("vo = Neg(v)", "vo = Neg(v) w = Neg(v)")


def if_node(*, then: str = THEN, other: str = ELSE, shape: str = "") -> str:
    return IF.format(then=then, other=other, shape=shape)


def loop(body: str = STEP, shape: str = "") -> str:
    return LOOP.format(body=body, shape=shape)


def scan(body: str = SUM, count: int = 1, attrs: str = "") -> str:
    return SCAN.format(body=body, count=count, attrs=attrs)


RIGHT = {
    "If": if_node(),
    "If of one element": if_node(shape="[1,1]"),
    "Loop": loop(),
    "Loop of one element": loop(STEP.replace("bool ", "bool[1] "), shape="[1]"),
    "Loop that declares another shape": loop(STEP.replace("float[2] v)", "float[7,7] v)")),
    "Scan": scan(),
    "Scan with all lists": scan(
        attrs=", scan_input_axes = [0], scan_input_directions = [1]"
        ", scan_output_axes = [-2], scan_output_directions = [0]"
    ),
}

WRONG = {
    "If with an input of a branch": (if_node(then="t (float[2] x) => (float[2] a) { a = Relu(x) }"), "1 inputs"),
    "If with a branch of two outputs": (
        if_node(then="t () => (float[2] a, float[2] b) { a = Relu(x) b = Neg(x) }"),
        "2 outputs",
    ),
    "If with a branch of no outputs": (if_node(other="e () => () { b = Neg(x) }"), "0 outputs"),
    "If whose branches differ in type": (
        if_node(other="e () => (int64[2] b) { b = Cast<to = 7>(x) }"),
        "a branch returns output 0 as int64, it must be float32",
    ),
    "If of a float": (if_node().replace("bool c", "float c"), "input 0 is float32"),
    "If of two bools": (if_node(shape="[2]"), "condition has the shape [2]"),
    "If of no bool": (if_node(shape="[0]"), "condition has the shape [0]"),
    "Loop without inputs of its body": (
        loop("b () => (bool co, float[2] vo) { co = Constant<value = bool {1}>() vo = Neg(x) }"),
        "0 inputs",
    ),
    "Loop with one input too few": (
        loop("b (int64 i, bool ci) => (bool co, float[2] vo) { co = Identity(ci) vo = Neg(x) }"),
        "2 inputs",
    ),
    "Loop with one input too many": (loop(STEP.replace("float[2] v)", "float[2] v, float[2] w)")), "4 inputs"),
    "Loop without a condition from its body": (
        loop("b (int64 i, bool ci, float[2] v) => (float[2] vo) { vo = Neg(v) }"),
        "1 outputs",
    ),
    "Loop that collects what nobody takes": (loop(ITEMS), "3 outputs"),
    "Loop that carries more than it returns": (
        loop("b (int64 i, bool ci, float[2] v, float[2] w) => (bool co, float[2] vo) { co = Identity(ci) vo = Neg(v) }")
        .replace("Loop(m, c, x)", "Loop(m, c, x, x)"),
        "has 1 outputs, it carries 2",
    ),
    "Loop of a float": (loop().replace("int64 m", "float m"), "input 0 is float32"),
    "Loop of two counts": (loop(shape="[2]"), "trip count has the shape [2]"),
    "Loop whose condition is a float": (
        loop(STEP.replace("co = Identity(ci)", "co = Cast<to = 1>(ci)").replace("bool co", "float co")),
        'returns "co" as float32, it must be bool',
    ),
    "Loop whose condition is a row": (
        loop(STEP.replace("co = Identity(ci)", "k = Constant<value_ints = [3]>() co = Expand(ci, k)")),
        "condition in the body has the shape [3]",
    ),
    "Loop that declares another type": (
        loop(STEP.replace("float[2] v)", "double[2] v)").replace("float[2] vo", "double[2] vo")),
        'reads "v" as float64, it must be float32',
    ),
    "Loop that declares a number of another type": (loop(STEP.replace("int64 i", "float i")), 'reads "i" as float32'),
    "Loop that carries on another type": (
        loop(STEP.replace("vo = Neg(v)", "vo = Cast<to = 11>(v)").replace("float[2] vo", "double[2] vo")),
        'returns "vo" as float64, it must be float32',
    ),
    "Scan of nothing": (scan(count=0), "num_scan_inputs = 0 of 2"),
    "Scan of more than there is": (scan(count=3), "num_scan_inputs = 3 of 2"),
    "Scan of one input": (scan("b (float[2] v) => (float[2] vo, float[2] ro) { vo = Neg(v) ro = Neg(v) }"), "1 inputs"),
    "Scan of one output": (scan("b (float[2] v, float[2] r) => (float[2] vo) { vo = Add(v, r) }"), "1 outputs"),
    "Scan with too many axes": (scan(attrs=", scan_input_axes = [0, 1]"), "scan_input_axes has 2 numbers"),
    "Scan with too many directions": (scan(attrs=", scan_output_directions = [0, 1]"), "scan_output_directions has 2"),
    "Scan in a third direction": (scan(attrs=", scan_input_directions = [2]"), "a direction is 0 or 1"),
    "Scan along no axis": (scan(attrs=", scan_output_axes = [2]"), "scan_output_axes"),
    "Scan that changes the type of a state": (
        scan("b (float[2] v, float[2] r) => (double[2] vo, float[2] ro) { vo = Cast<to = 11>(v) ro = Neg(r) }"),
        'returns "vo" as float64, it must be float32',
    ),
    "Scan that changes the size of a state": (
        scan(SUM.replace("float[2] vo", "float[4] vo").replace("vo = Add(v, r)", "vo = Concat<axis = 0>(v, r)")),
        "turns a state [2] into [4]",
    ),
    "Scan of other lengths": (
        scan("b (float[2] v, float[2] r) => (float[2] vo, float[2] ro) { vo = Add(v, r) ro = Add(v, r) }", 2)
        .replace("float[2] s", "float[4,2] s")
        .replace("float[2] y", "float[4,2] y"),
        "lengths 4 and 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_bodies_that_fit_compute_what_the_standard_says(name: str, tmp_path: Path) -> None:
    proto = model(RIGHT[name])
    atcpy.convert(proto, tmp_path / "m.om")
    feeds = {port.name: array_of(port) for port in proto.graph.input}
    for ours, theirs in zip(
        atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds),
        ort.InferenceSession(proto.SerializeToString()).run(None, feeds),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def array_of(port: onnx.ValueInfoProto) -> np.ndarray:
    kind = port.type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    return np.full(shape, 3, helper.tensor_dtype_to_np_dtype(kind.elem_type))


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("name", WRONG)
def test_a_body_that_does_not_fit_is_refused_with_its_node(name: str, level: str, tmp_path: Path) -> None:
    text, why = WRONG[name]
    with pytest.raises(ModelInvalid) as raised:
        atcpy.convert(model(text), tmp_path / "m.om", oo_level=level)
    assert (raised.value.code, raised.value.where.node) == ("E13014", "n"), raised.value
    assert why in raised.value.what
