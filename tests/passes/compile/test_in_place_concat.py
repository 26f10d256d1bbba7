"""Concat, Split and Slice without copies: results stay the same to the bit, and the arena does not grow."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from atcpy import InferenceSession
from atcpy.ir import CompiledModel, Engine
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.passes.compile import in_place_concat
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.models_in_text import model
from tests.ort import open_ort
from tests.random_models import OPSET, Sketch

SWITCHES = ("SplitNotaskPass", "ConcatNotaskPass")
TYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.INT8: np.int8,
    TensorProto.INT64: np.int64,
}
# Results are exact, so that the order in which they are computed shows nowhere. Most kernels may write over operands.
OPS = {"Neg": 1, "Abs": 1, "Max": 2, "Sub": 2}


@st.composite
def part_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Rows that are joined, split, sliced and changed; outputs are from anywhere."""
    sketch = Sketch(draw, np.random.default_rng(0))
    kind, width = draw(st.sampled_from(sorted(TYPES))), draw(st.sampled_from([1, 3, 16, 33]))
    inputs = [(f"x{i}", draw(st.integers(1, 4))) for i in range(draw(st.integers(1, 2)))]
    values = list(inputs)
    for _ in range(draw(st.integers(2, 14))):
        name, rows = draw(st.sampled_from(values[-4:]))
        what = draw(st.sampled_from(["Concat", "Concat", "Split", "Slice", "Reshape", "Pad", "ScatterND", *OPS]))
        if what == "Concat":
            parts = [(name, rows), *draw(st.lists(st.sampled_from(values[-5:]), min_size=1, max_size=3))]
            if sum(rows for _, rows in parts) <= 64:
                values.append((sketch.add("Concat", *(part for part, _ in parts), axis=0), sum(r for _, r in parts)))
        elif what in {"Split", "Slice"} and rows > 1:
            at = draw(st.integers(1, rows - 1))
            if what == "Split":
                left = sketch.add("Split", name, sketch.constant(np.array([at, rows - at])), axis=0)
                sketch.nodes[-1].output.append(f"{left}b")
                values += [(left, at), (f"{left}b", rows - at)]
            else:
                bounds = draw(st.sampled_from([(0, at), (at, rows)]))
                ends = (sketch.constant(np.array([bound])) for bound in (*bounds, 0))
                values.append((sketch.add("Slice", name, *ends), bounds[1] - bounds[0]))
        elif what == "Reshape":
            flat = sketch.add("Reshape", name, sketch.constant(np.array([-1])))
            values.append((sketch.add("Reshape", flat, sketch.constant(np.array([rows, width]))), rows))
        elif what == "Pad":
            before, after = draw(st.tuples(st.integers(-1, 2), st.integers(0, 2)))
            if rows + before > 0:
                pads = sketch.constant(np.array([before, 0, after, 0]))
                values.append((sketch.add("Pad", name, pads), rows + before + after))
        elif what == "ScatterND":
            row = sketch.constant(np.array([[draw(st.integers(0, rows - 1))]]))
            update = sketch.constant(np.full((1, width), 7, TYPES[kind]))
            values.append((sketch.add("ScatterND", name, row, update), rows))
        elif what in OPS:
            others = [other for other, count in values if count == rows]
            operands = [name, *(draw(st.sampled_from(others)) for _ in range(OPS[what] - 1))]
            values.append((sketch.add(what, *operands), rows))
    computed = values[len(inputs) :] or values
    outputs = [*draw(st.lists(st.sampled_from(computed), max_size=2)), computed[-1]]
    ports = [
        [helper.make_tensor_value_info(name, kind, (rows, width)) for name, rows in side]
        for side in (inputs, dict(outputs).items())
    ]
    graph = helper.make_graph(sketch.nodes, "parts", *ports, sketch.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def compiled(proto: onnx.ModelProto, **options: object) -> CompiledModel:
    return compile_model(proto, convert_options({"debug": True, "enable_graph_kernel": False, **options}))[0]


@pytest.mark.slow
@settings(max_examples=trials(60))
@given(proto=part_models())
def test_nothing_changes_but_copies_go(proto: onnx.ModelProto) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        port.name: rng.integers(-100, 100, [dim.dim_value for dim in port.type.tensor_type.shape.dim]).astype(
            TYPES[port.type.tensor_type.elem_type]
        )
        for port in proto.graph.input
    }
    oracle = open_ort(proto)
    ours, copied = compiled(proto), compiled(proto, skip_pass=",".join(SWITCHES))
    for name, result, theirs in zip(
        [port.name for port in proto.graph.output],
        InferenceSession(writer.to_bytes(ours), threads=1).run(None, feeds),
        oracle.run(None, feeds),
        strict=True,
    ):
        np.testing.assert_array_equal(result, theirs, err_msg=name)
    assert ours.memory.lower_bound <= copied.memory.lower_bound
    assert len(ours.tasks) <= len(copied.tasks)


CHAIN = "m (float[1,16,4,4] x) => (float[1,48,4,4] y) { a = Exp(x) b = Relu(a) y = Concat<axis = 1>(a, b, x) }"


def copies(package: CompiledModel) -> int:
    """How many tasks are parts of Concat."""
    return Counter(task.op_type for task in package.tasks)["Concat"]


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 1), ({"oo_level": "O0"}, 3), ({"skip_pass": SWITCHES[1]}, 3), ({"disable_reuse_memory": "1"}, 3)],
)
def test_copies_are_left_out_from_o1_on(options: dict[str, str], count: int) -> None:
    assert copies(compiled(model(CHAIN), **options)) == count


def test_a_concat_without_a_copy_runs_on_no_engine() -> None:
    package = compiled(model("m (float[2] x) => (float[4] y) { a = Exp(x) b = Relu(a) y = Concat<axis = 0>(a, b) }"))
    concat = next(node for node in package.graph.nodes if node.op_type == "Concat")
    assert (concat.engine, concat.passes, copies(package)) == (Engine.GE_LOCAL, ("ConcatNotaskPass",), 0)


def test_a_buffer_with_very_many_readers_stays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place_concat, "MAX_ACCESSES", 3)
    package = compiled(model(CHAIN))
    (record,) = [record for record in package.graph.decisions.passes if record.name == "ConcatNotaskPass"]
    assert {reject.reason for reject in record.rejects} == {"too-many-accesses", "fixed-memory"}


def test_a_value_that_is_written_over_is_split_for_all_sizes() -> None:
    text = (
        "m (float[3,n,4] x) => (float[1,n,4] z) <int64[1] a={0}, int64[1] b={1}>"
        " { s = Slice(x, a, b, a) t = Abs(s) z = Neg(t) }"
    )
    session = InferenceSession(writer.to_bytes(compiled(model(text))), threads=1)
    for n in (2, 5, 7, 900):
        x = np.random.default_rng(n).standard_normal((3, n, 4), np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], -abs(x[:1]))
    assert session.shape_cache is not None and session.shape_cache.misses == 0
