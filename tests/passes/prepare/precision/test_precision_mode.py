"""Precision modes: which nodes are lowered, and what the package computes then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16

from atcpy import InferenceSession
from atcpy.errors import AtcError
from atcpy.ir import CompiledModel, DType
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.report.package import PackageView
from atcpy.stages.pipeline import compile_model, convert
from atcpy.verify.verification import verify
from tests.models_in_text import model
from tests.passes.split.test_insert_cast import NETS

SMALL = """small (float[2,8] x) => (float[2,4] y) <float[8,8] w, float[8,4] v> {
    [first] a = MatMul(x, w)  [act] r = Relu(a)  [second] b = MatMul(r, v)  [last] y = Softmax(b) }"""
HALF = 2e-3, 1.6e-2  # of the output's scale, as verify has them: float16, bfloat16


def compiled(text: str, **options: object) -> CompiledModel:
    return compile_model(model(text), convert_options({"debug": True, **options}))[0]


def run(package: CompiledModel, seed: int = 0, sizes: int = 3) -> Array:
    session = InferenceSession(writer.to_bytes(package), threads=1)
    rng = np.random.default_rng(seed)
    feeds = {
        port.name: rng.standard_normal([dim if isinstance(dim, int) else sizes for dim in port.shape or ()]).astype(
            port.dtype.numpy
        )
        for port in session.get_inputs()
    }
    return np.asarray(session.run(None, feeds)[0])


def error_of(text: str, **options: object) -> AtcError:
    with pytest.raises(AtcError) as caught:
        compiled(text, **options)
    return caught.value


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(
    ("mode", "share"),
    [
        ({"precision_mode": "force_fp16"}, HALF[0]),
        ({"precision_mode_v2": "fp16"}, HALF[0]),
        ({"precision_mode": "allow_fp32_to_fp16"}, HALF[0]),
        ({"precision_mode_v2": "cube_fp16in_fp32out"}, HALF[0]),
        ({"precision_mode_v2": "mixed_float16"}, HALF[0]),
        ({"precision_mode_v2": "mixed_bfloat16"}, HALF[1]),
    ],
    ids=lambda item: next(iter(item.values())) if isinstance(item, dict) else "",
)
def test_lowered_models_are_near_the_model(name: str, mode: dict[str, object], share: float) -> None:
    package, exact = compiled(NETS[name], **mode), run(compiled(NETS[name]))
    result = run(package)
    assert result.dtype == np.float32
    assert 0 < np.abs(result - exact).max() <= share * np.abs(exact).max()
    assert package.graph.decisions.precision.lowered


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "force_fp32", "allow_fp32_to_bf16"])
def test_modes_that_leave_float32_alone(mode: str) -> None:
    package = compiled(SMALL, precision_mode=mode)
    assert package.graph.decisions.precision.lowered == ()
    assert np.array_equal(run(package), run(compiled(SMALL)))


def test_lists_of_the_modes() -> None:
    def lowered(**options: object) -> tuple[str, ...]:
        return compiled(SMALL, **options).graph.decisions.precision.lowered

    assert lowered(precision_mode_v2="fp16") == ("first", "act", "second", "last")
    assert lowered(precision_mode_v2="mixed_float16") == ("first", "act", "second")
    assert lowered(precision_mode="allow_fp32_to_fp16") == ("first", "second")
    assert lowered(precision_mode_v2="cube_fp16in_fp32out") == ("first", "second")


def test_inputs_of_products_are_rounded_and_their_sums_are_not() -> None:
    text = "cube (float[1,2] x) => (float[1,1] y) <float[2,1] w = {1, 1}> { y = MatMul(x, w) }"
    x = np.array([[60000.3, 60000.3]], np.float32)
    (y,) = InferenceSession(writer.to_bytes(compiled(text, precision_mode_v2="cube_fp16in_fp32out"))).run(
        None, {"x": x}
    )
    assert y[0, 0] == 2 * np.float32(np.float16(60000.3))  # which is beyond float16


@pytest.mark.parametrize("half", ["FLOAT16", "BFLOAT16"])
def test_float32_throughout(half: str) -> None:
    code = DType[half].onnx
    text = f"""casts (float[4] x) => (float[4] y) {{
        h = Cast<to = {code}>(x)  n = Neg(h)  a = Add(n, n)  y = Cast<to = 1>(a) }}"""
    x = np.array([1.0009, 2.0001, 3.3333, 70000], np.float32)

    def result(**options: object) -> Array:
        session = InferenceSession(writer.to_bytes(compiled(text, **options)))
        return np.asarray(session.run(None, {"x": x})[0])

    assert not np.array_equal(result(), -2 * x)
    assert np.array_equal(result(precision_mode="force_fp32"), -2 * x)


@pytest.mark.parametrize(
    ("keep", "left"),
    [("second", ("first", "act", "last")), ("*st", ("act", "second")), ("?ct", ("first", "second", "last"))],
)
def test_nodes_that_are_kept(tmp_path: Path, keep: str, left: tuple[str, ...]) -> None:
    inline = compiled(SMALL, precision_mode_v2="fp16", keep_fp32=keep).graph.decisions.precision
    (tmp_path / "keep.cfg").write_text(f"# comment\n{keep}\n")
    file = compiled(SMALL, precision_mode_v2="fp16", keep_dtype=tmp_path / "keep.cfg").graph.decisions.precision
    assert inline == file
    assert inline.lowered == left
    assert set(inline.kept) == {"first", "act", "second", "last"} - set(left)


@pytest.mark.parametrize("kind", ["MatMul", "BatchMatMul"])
def test_types_are_those_of_onnx_or_ge(kind: str) -> None:
    precision = compiled(SMALL, precision_mode_v2="fp16", keep_fp32=f"OpType::{kind}").graph.decisions.precision
    assert set(precision.kept) <= {"first", "second"}
    assert kind != "MatMul" or precision.kept == ("first", "second")


@pytest.mark.parametrize(
    ("keep", "code"), [("secnd", "E10016"), ("OpType::matmul", "E10003"), ("OpType::MatMull", "E10016")]
)
def test_names_that_nothing_has(keep: str, code: str) -> None:
    error = error_of(SMALL, precision_mode_v2="fp16", keep_fp32=keep)
    assert error.code == code
    assert {"secnd": "second", "OpType::matmul": "OpType::Matmul", "OpType::MatMull": "MatMul"}[keep] in error.hint


def test_lists_are_modified(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text(json.dumps({"black-list": {"to-remove": ["Softmax"], "to-add": ["Relu"]}}))
    precision = compiled(SMALL, precision_mode_v2="mixed_float16", modify_mixlist=path).graph.decisions.precision
    assert precision.lowered == ("first", "second", "last")
    assert precision.kept == ("act",)
    path.write_text(json.dumps({"black-list": {"to-add": ["Relu"]}, "white-list": {"to-add": ["Relu"]}}))
    assert error_of(SMALL, precision_mode_v2="mixed_float16", modify_mixlist=path).code == "E20003"
    path.write_text('{"gray-list": {"to-add": ["MatMul"]}}')  # on neither list: it follows its producers
    grey = compiled(SMALL, precision_mode_v2="mixed_float16", modify_mixlist=path).graph.decisions.precision
    assert grey.lowered == ()
    path.write_text('{"black-list": {"add": []}}')
    assert error_of(SMALL, precision_mode_v2="mixed_float16", modify_mixlist=path).code == "E20003"


def test_types_of_single_nodes(tmp_path: Path) -> None:
    path = tmp_path / "types.cfg"
    both = (
        "first::InputDtype:float16,float16,OutputDtype:float32",
        "OpType::Relu:InputDtype:float32,OutputDtype:float16",
    )
    path.write_text("\n".join(both))
    package = compiled(SMALL, customize_dtypes=path)
    assert package.graph.decisions.precision.lowered == ("first", "act")
    assert 0 < np.abs(run(package) - run(compiled(SMALL))).max() < 1e-3
    short = "first::InputDtype:float16,OutputDtype:float16"
    for line, code in (
        (short, "E10001"),
        ("act::InputDtype:int8,OutputDtype:int8", "E10055"),
        ("first::InputDtype:float16,float32,OutputDtype:float32", "E10055"),
        ("first:float16", "E20003"),
        ("act::InputDtype:half,OutputDtype:half", "E20003"),
        ("ats::InputDtype:float16,OutputDtype:float16", "E10016"),
    ):
        path.write_text(line)
        assert error_of(SMALL, customize_dtypes=path).code == code


def test_a_node_whose_listed_types_are_its_own_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "types.cfg"
    path.write_text("act::InputDtype:float32,OutputDtype:float32")
    precision = compiled(SMALL, precision_mode_v2="fp16", customize_dtypes=path).graph.decisions.precision
    assert precision.lowered == ("first", "second", "last")
    assert precision.kept == ("act",)
    path.write_text("OpType::Neg:InputDtype:int32,OutputDtype:int32")
    text = "ints (int32[2] x) => (int32[2] y) { y = Neg(x) }"
    assert compiled(text, customize_dtypes=path).graph.decisions.precision.lowered == ()


def test_the_name_of_a_node_beats_its_type(tmp_path: Path) -> None:
    path = tmp_path / "types.cfg"
    half, full = (f"InputDtype:{kind},{kind},OutputDtype:{kind}" for kind in ("float16", "float32"))
    path.write_text(f"OpType::MatMul:{half}\nsecond::{full}")
    assert compiled(SMALL, customize_dtypes=path).graph.decisions.precision.lowered == ("first",)


def test_types_of_a_node_in_a_body_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "types.cfg"
    path.write_text("inner::InputDtype:float16,OutputDtype:float16")
    error = error_of(BRANCH, customize_dtypes=path)
    assert (error.code, error.where.node) == ("E10055", "inner")


def test_numbers_that_are_rounded_to_the_largest_one_are_not_beyond_the_range() -> None:
    text = "near (float[1,2] x) => (float[1,1] y) <float[2,1] w = {65519, -65519}> { y = MatMul(x, w) }"
    package, report = compile_model(model(text), convert_options({"precision_mode_v2": "fp16"}))
    assert report.warnings == ()
    assert package.graph.decisions.precision.clipped == ()


def test_weights_beyond_bfloat16_become_its_largest_number() -> None:
    largest = float(np.finfo(np.float32).max)
    proto = model("large (float[1,2] x) => (float[1,1] y) <float[2,1] w = {1, 1}> { y = MatMul(x, w) }")
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([[-largest], [1]], np.float32), "w"))
    package, report = compile_model(proto, convert_options({"precision_mode_v2": "mixed_bfloat16"}))
    assert [warning.code for warning in report.warnings] == ["W0021"]
    (y,) = InferenceSession(writer.to_bytes(package)).run(None, {"x": np.array([[1, 0]], np.float32)})
    assert y[0, 0] == -float.fromhex("0x1.fep127")


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_steps_of_recurrent_ops_stay_in_float32(op: str, gates: int) -> None:
    """A kernel that has packed constants as its weights; the product with all inputs is one of bfloat16."""
    n = 256  # weights that are not so small as to be float32 anyway
    text = f"""net (float[5,1,{n}] x) => (y) <float[1,{gates * n},{n}] w, float[1,{gates * n},{n}] r>
        {{ y = {op}<hidden_size = {n}>(x, w, r) }}"""
    package = compiled(text, precision_mode_v2="mixed_bfloat16")
    [steps] = [node for node in package.graph.nodes if node.op_type == "Recurrence"]
    [product] = [node for node in package.graph.nodes if node.op_type in ("MatMul", "FusedMatMul")]
    assert {value.desc.dtype for value in steps.operands} == {DType.FLOAT32}
    assert all(value.tensor is not None for value in steps.operands[1:])
    assert product.operand(1).desc.dtype is DType.BFLOAT16


def test_a_name_beats_a_pattern_and_a_pattern_a_type(tmp_path: Path) -> None:
    path = tmp_path / "types.cfg"
    half, full = (f"InputDtype:{kind},{kind},OutputDtype:{kind}" for kind in ("float16", "float32"))
    path.write_text(f"OpType::MatMul:{full}\ns*::{half}\nsecond::{full}\nf*::{half}")
    assert compiled(SMALL, customize_dtypes=path).graph.decisions.precision.lowered == ("first",)


def test_infinite_weights_stay_infinite() -> None:
    proto = model("endless (float[2] x) => (float[2] y) <float[2] w = {1, -70000}> { y = Add(x, w) }")
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([np.inf, -7e4], np.float32), "w"))
    package, _ = compile_model(proto, convert_options({"precision_mode_v2": "fp16"}))
    (y,) = InferenceSession(writer.to_bytes(package)).run(None, {"x": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(y, [np.inf, -65504])


def test_weights_beyond_the_range() -> None:
    text = "big (float[1,2] x) => (float[1,1] y) <float[2,1] w = {100000, 1}> { y = MatMul(x, w) }"
    x = np.array([[1, 0]], np.float32)
    for clip, largest in ((1, 65504.0), (0, np.inf)):
        options = convert_options({"precision_mode_v2": "fp16", "is_weight_clip": clip})
        package, report = compile_model(model(text), options)
        assert [warning.code for warning in report.warnings] == ["W0021"]
        y = InferenceSession(writer.to_bytes(package)).run(None, {"x": x})[0]
        assert y[0, 0] == largest


def test_types_of_inputs_and_outputs() -> None:
    package = compiled(SMALL, output_type="FP16", input_fp16_nodes="x")
    assert [port.desc.dtype for port in (*package.inputs, *package.outputs)] == [DType.FLOAT16] * 2
    assert package.inputs[0].name == "x"
    assert run(package).dtype == np.float16
    assert [port.name for port in package.outputs] == ["y"]
    assert package.graph.decisions.precision.outputs == {}  # nothing is rounded but what callers feed and fetch
    one = compiled(SMALL, out_nodes="act:0;last:0", output_type="last:0:DOUBLE")
    assert [port.desc.dtype for port in one.outputs] == [DType.FLOAT32, DType.FLOAT64]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"output_type": "act:0:FP16"}, "E10001"),
        ({"output_type": "FP17"}, "E10001"),
        ({"output_type": "HIF8"}, "E10055"),
        ({"input_fp16_nodes": "z"}, "E10016"),
        ({"input_fp16_nodes": "act"}, "E10017"),
        ({"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}, "E10056"),
        ({"precision_mode": "fp16"}, "E10001"),
        ({"precision_mode_v2": "mixed_hif8"}, "E10055"),
        ({"precision_mode_v2": "fp16", "iterations_per_loop": 2}, "E10055"),
        ({"keep_fp32": "OpType::"}, "E10003"),
        ({"is_weight_clip": "2"}, "E10006"),
    ],
)
def test_what_is_refused(options: dict[str, object], code: str) -> None:
    assert error_of(SMALL, **options).code == code


def test_mix_lists_need_a_mixed_mode(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text("{}")
    assert error_of(SMALL, precision_mode_v2="fp16", modify_mixlist=path).code == "E10001"
    compiled(SMALL, precision_mode="allow_mix_precision", modify_mixlist=path)


OPEN = SMALL.replace("float[2,8] x", "float[N,8] x").replace("float[2,4] y", "float[N,4] y")


@pytest.mark.parametrize("options", [{}, {"input_shape": "x:-1,8", "dynamic_batch_size": "2,3"}], ids=["open", "gears"])
def test_open_dims_and_gears(options: dict[str, object]) -> None:
    package, exact = compiled(OPEN, precision_mode_v2="fp16", **options), run(compiled(OPEN, **options))
    assert package.has_unknown_shapes == (not options)
    assert not options or len(package.gears) == 2
    assert not package.unplanned
    assert 0 < np.abs(run(package) - exact).max() <= HALF[0]
    assert package.graph.decisions.precision.lowered == ("first", "act", "second", "last")


BRANCH = """branch (float[2,8] x, bool c) => (float[2,8] y) <float[8,8] w> {
    [outer] a = MatMul(x, w)
    y = If(c) <then_branch = t () => (float[2,8] p) { p = MatMul(a, w) },
               else_branch = e () => (float[2,8] q) { [inner] q = Neg(a) }> }"""
LOOP = """loop (float[2,8] x, int64 n, bool c) => (float[2,8] y) <float[8,8] w> {
    [outer] a = MatMul(x, w)
    y = Loop(n, c, a) <body = b (int64 i, bool ci, float[2,8] s) => (bool co, float[2,8] t) {
        co = Identity(ci)  u = MatMul(s, w)  t = Add(u, a) }> }"""


@pytest.mark.parametrize("text", [BRANCH, LOOP], ids=["If", "Loop"])
@pytest.mark.parametrize("go", [True, False])
def test_bodies_keep_their_types_and_read_lowered_values(text: str, go: bool) -> None:
    package = compiled(text, precision_mode_v2="fp16")
    assert package.graph.decisions.precision.lowered == ("outer",)
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 8), np.float32), "c": np.array(go)}
    feeds |= {"n": np.array(2)} if text is LOOP else {}
    lowered, exact = (InferenceSession(writer.to_bytes(each)).run(None, feeds)[0] for each in (package, compiled(text)))
    assert lowered.dtype == np.float32
    assert 0 < np.abs(lowered - exact).max() <= HALF[0] * np.abs(exact).max()


def test_quantised_models_keep_their_meaning() -> None:
    text = """q (float[2,8] x) => (float[2,8] y) <float s = {0.05}, uint8 z = {128}, float[8,8] w> {
        n = Neg(x)  a = QuantizeLinear(n, s, z)  b = DequantizeLinear(a, s, z)  y = Abs(b) }"""
    package = compiled(text, precision_mode_v2="fp16")
    assert package.graph.decisions.precision.lowered == ()
    assert np.array_equal(run(package), run(compiled(text)))


def test_sums_of_products_of_bytes_are_scaled_in_float32() -> None:
    """They are beyond 65504."""
    text = """dynamic (float[2,600] x) => (float[2,4] y) <uint8[600,4] w, float s = {0.0001},
        float[4] b = {1, 2, 3, 4}> {
        q, qs, qz = DynamicQuantizeLinear(x)  i = MatMulInteger(q, w)  f = Cast<to = 1>(i)
        m = Mul(f, s)  n = Mul(m, qs)  y = Add(n, b) }"""
    proto = model(text)
    next(each for each in proto.graph.initializer if each.name == "w").raw_data = bytes([200] * 2400)
    x = np.random.default_rng(2).uniform(0, 1, (2, 600)).astype(np.float32)
    lowered, exact = (
        InferenceSession(writer.to_bytes(compile_model(proto, convert_options(options))[0])).run(None, {"x": x})[0]
        for options in ({"precision_mode_v2": "fp16"}, {})
    )
    assert np.abs(exact).max() > 1
    np.testing.assert_allclose(lowered, exact, rtol=2**-10)


def test_thresholds_of_trees_keep_their_type() -> None:
    parts = """nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
        nodes_featureids = [0, 0, 0], nodes_values = [0.1, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
        nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],
        target_weights = [5.0, 7.0], n_targets = 1"""
    text = f"""<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
        trees (float[3,1] x) => (float[3,1] y) {{ y = ai.onnx.ml.TreeEnsembleRegressor<{parts}>(x) }}"""
    package = compile_model(onnx.parser.parse_model(text), convert_options({"precision_mode_v2": "fp16"}))[0]
    x = np.array([[0.1], [0.10001], [0.09999]], np.float32)  # one number in float16
    (y,) = InferenceSession(writer.to_bytes(package)).run(None, {"x": x})
    np.testing.assert_array_equal(y, [[5], [7], [5]])


def test_no_elements() -> None:
    text = "none (float[0,4] x) => (float[0,3] y, float[3] z) <float[4,3] w> { y = MatMul(x, w)  z = ReduceSum(y, a) }"
    text = text.replace("<float[4,3] w>", "<float[4,3] w, int64[1] a = {0}>").replace("float[3] z", "float[1,3] z")
    package = compiled(text, precision_mode_v2="fp16")
    y, z = InferenceSession(writer.to_bytes(package)).run(None, {"x": np.zeros((0, 4), np.float32)})
    assert (y.shape, y.dtype) == ((0, 3), np.float32)
    np.testing.assert_array_equal(z, np.zeros((1, 3), np.float32))


@pytest.mark.parametrize(
    ("text", "options", "outputs"),
    [
        ("m (float16[2] x) => (float16[2] y) { y = Tanh(x) }", {"precision_mode": "force_fp32"}, {"y": "float16"}),
        (
            "m (float16[2] x) => (float[2] y) { a = Tanh(x) y = Cast<to = 1>(a) }",
            {"precision_mode": "force_fp32"},
            {"y": "float16"},
        ),
        (
            "m (float[2] x) => (float[2] y) { a = Cast<to = 10>(x) y = Cast<to = 1>(a) }",
            {"precision_mode": "force_fp32"},
            {"y": "float16"},
        ),
        ("m (float[2] x) => (double[2] y) { a = Tanh(x) y = Cast<to = 11>(a) }", {}, {"y": "float16"}),
        (
            "m (float[2] x, float[2] z) => (float[2] y, float[2] k) { y = Tanh(x) [kept] k = Tanh(z) }",
            {},
            {"y": "float16"},
        ),
    ],
    ids=["raised", "raised behind a Cast", "not rounded any more", "double behind a Cast", "kept"],
)
def test_outputs_are_as_exact_as_the_coarsest_type_before_them(
    text: str, options: dict[str, object], outputs: dict[str, str]
) -> None:
    chosen = options or {"precision_mode_v2": "fp16", "keep_fp32": "kept" if "kept" in text else ()}
    assert dict(compiled(text, **chosen).graph.decisions.precision.outputs) == outputs


def test_a_type_that_the_user_lists_counts_for_the_output(tmp_path: Path) -> None:
    path = tmp_path / "types.cfg"
    path.write_text("second::InputDtype:bfloat16,bfloat16,OutputDtype:bfloat16")
    package = compiled(SMALL, precision_mode_v2="fp16", customize_dtypes=path)
    assert dict(package.graph.decisions.precision.outputs) == {"y": "bfloat16"}


def test_outputs_without_numbers_have_no_other_type() -> None:
    text = "flags (float[2] x) => (bool[2] y) { y = Less(x, x) }"
    assert compiled(text, output_type="INT8").outputs[0].desc.dtype is DType.INT8
    error = error_of("s (string[2] x) => (string[2] y) { y = Identity(x) }", output_type="FP16")
    assert (error.code, error.where.option) == ("E10001", "output_type")
    assert "--out_nodes" in error.hint


def test_casts_that_the_user_keeps_round() -> None:
    text = """keep (float[1] x) => (float[1] y) { [round] h = Cast<to = 10>(x)  y = Cast<to = 1>(h) }"""
    x = np.array([1.0009], np.float32)
    for keep, expected in (("round", np.float32(np.float16(x[0]))), ((), x[0])):
        package = compiled(text, precision_mode="force_fp32", keep_fp32=keep)
        assert InferenceSession(writer.to_bytes(package)).run(None, {"x": x})[0][0] == expected


@pytest.mark.parametrize(
    ("mode", "codes"), [("must_keep_origin_dtype", ["W0012"]), ("allow_fp32_to_bf16", ["W0012"]), ("force_fp16", [])]
)
def test_keeping_nodes_has_an_effect_where_others_are_lowered(mode: str, codes: list[str]) -> None:
    _, report = compile_model(model(SMALL), convert_options({"precision_mode": mode, "keep_fp32": "act"}))
    assert [warning.code for warning in report.warnings] == codes


def test_states_of_iterations_keep_their_type() -> None:
    text = "step (float[4] x, float[4] h) => (float[4] next) { a = Tanh(h)  next = Add(a, x) }"
    session = InferenceSession(writer.to_bytes(compiled(text, precision_mode_v2="fp16")))
    x, h = np.full((3, 4), 0.3, np.float32), np.ones(4, np.float32)
    (result,) = session.run_iterations({"x": x, "h": h}, 3, state={"next": "h"})
    for _ in range(3):
        (h,) = session.run(None, {"x": x[0], "h": h})
    np.testing.assert_array_equal(result, h)


def test_the_package_says_what_was_lowered_and_verify_judges_by_it(tmp_path: Path) -> None:
    onnx.save(model(SMALL), tmp_path / "m.onnx")
    options = convert_options({"precision_mode_v2": "fp16", "keep_fp32": "last", "input_fp16_nodes": "x"})
    report = convert(tmp_path / "m.onnx", tmp_path / "m.om", options)
    assert (report.precision.mode, len(report.precision.lowered)) == ("fp16", 3)
    shown = PackageView(tmp_path / "m.om").precision()
    assert (shown["mode"], shown["lowered"], shown["kept"]) == ("fp16", ["first", "act", "second"], ["last"])
    verdict = verify(tmp_path / "m.om")
    assert verdict.passed
    scale = verdict.outputs[0].atol / HALF[0]
    assert 0.1 < scale <= 1
    convert(tmp_path / "m.onnx", tmp_path / "m.om", convert_options({}))
    assert verify(tmp_path / "m.om").outputs[0].atol == pytest.approx(1e-4 * scale, rel=0.2)


def test_ops_whose_type_is_an_attribute() -> None:
    package = compiled(
        "r (float[4] x) => (float[4] y) { y = RandomUniformLike<dtype = 1>(x) }", precision_mode_v2="fp16"
    )
    reasons = {reject.reason for record in package.graph.decisions.passes for reject in record.rejects}
    assert "no-such-type" in reasons
    assert package.graph.decisions.precision.lowered == ()


TIED = """tied (int64[3] i) => (float[3,600] y) <float[600,40] w> {
    g = Gather(w, i)  r = Relu(g)  [transpose] t = Transpose <perm = [1, 0]>(w)  [head] y = MatMul(r, t) }"""


@pytest.mark.parametrize(("mode", "dtype"), [("mixed_float16", np.float16), ("mixed_bfloat16", bfloat16)])
def test_weights_that_an_embedding_shares_are_packed_in_16_bits_too(mode: str, dtype: type[np.generic]) -> None:
    """`t` does not become a constant by folding, which would add 96 000 bytes; in 16 bits it does."""
    exact = compiled(TIED, max_const="64K")
    assert [node.op_type for node in exact.graph.nodes].count("FusedMatMul") == 1  # which reads w, transposed
    package = compiled(TIED, max_const="64K", precision_mode_v2=mode)
    weights = {node.output.desc.dtype for node in package.graph.nodes if node.op_type == "Const"}
    assert weights == {DType.FLOAT32, DType[np.dtype(dtype).name.upper()]}
    assert not any(node.op_type == "Transpose" for node in package.graph.nodes)
    w = np.asarray(
        next(
            n.output.array for n in package.graph.nodes if n.output.desc.dtype is DType.FLOAT32 and n.op_type == "Const"
        )
    )
    rows = np.maximum(w[[7, 0, 599]], 0).astype(dtype).astype(np.float64)
    expected = rows @ w.astype(dtype).astype(np.float64).T
    (y,) = InferenceSession(writer.to_bytes(package)).run(None, {"i": np.array([7, 0, 599])})
    assert np.abs(y - expected).max() <= (1e-5 if mode == "mixed_bfloat16" else 1e-3) * np.abs(expected).max()
    assert package.graph.decisions.precision.lowered == ("head",)


def test_a_transpose_that_is_read_otherwise_stays() -> None:
    text = TIED.replace("float[3,600] y", "float[3,600] y, float[40,600] t")
    package = compiled(text, max_const="64K", precision_mode_v2="mixed_bfloat16")
    y, t = InferenceSession(writer.to_bytes(package)).run(None, {"i": np.array([7, 0, 599])})
    assert y.dtype == t.dtype == np.float32 and np.abs(t).max() > 0
