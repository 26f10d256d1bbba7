"""Models of 16-bit floats: what they compute is what the same numbers in float32 give, rounded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from atcpy import InferenceSession
from atcpy.ir import CompiledModel, DType, Engine, walk
from atcpy.ir.tensor import Array
from atcpy.kernels.table import pack_compiled_task, read_number
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.half_models import to_half, widened
from tests.models_in_text import model

HALVES = pytest.mark.parametrize("half", [TensorProto.FLOAT16, TensorProto.BFLOAT16], ids=["f16", "bf16"])

NETS = {
    "conv": """conv (float[1,3,9,9] x) => (float[1,8,4,4] y) <float[24,3,3,3] w, float[24] b, float[8,3,1,1] v,
        float[8] s, float[8] h, float[8] m, float[8] var> {
        a = Conv<pads = [1,1,1,1]>(x, w, b)  r = Relu(a)  t = Concat<axis = 1>(r, x)  q = MaxPool<kernel_shape = [2,2],
        strides = [2,2]>(t)  u, unused = Split<axis = 1, num_outputs = 2>(q)  k = Conv<group = 1>(x, v)
        n = BatchNormalization(k, s, h, m, var)  c = AveragePool<kernel_shape = [3,3], strides = [2,2]>(n)
        p = GlobalAveragePool(u)  g = ReduceMax<keepdims = 1>(p)  y = Add(c, g) }""",
    "transformer": """transformer (float[2,7,24] x) => (float[2,7,24] y) <float[24,48] w, float[48,24] v, float[48] b,
        float[24] s, float[24] h, float[24,24] q, float[24,24] k> {
        l = LayerNormalization(x, s, h)  a = MatMul(l, q)  c = MatMul(l, k)  t = Transpose<perm = [0,2,1]>(c)
        d = MatMul(a, t)  e = Softmax(d)  f = MatMul(e, l)  r = Add(f, x)  m = MatMul(r, w)  n = Add(m, b)
        g = Gelu(n)  z = MatMul(g, v)  y = Add(z, r) }""",
    "vision": """vision (float[1,8,6,6] x) => (float[1,5,24,24] y) <float[8,5,2,2] w, float[8,1,3,3] d,
        float[4] e = {1, 1, 2, 2}> {
        n = InstanceNormalization(x, i, j)  c = Conv<group = 8, pads = [1,1,1,1]>(n, d)  s = HardSwish(c)
        r = Resize<mode = "linear">(s, , e)  t = ConvTranspose<strides = [2,2]>(r, w)  y = Sigmoid(t) }""".replace(
        "float[4] e", "float[8] i, float[8] j, float[4] e"
    ),
}


def halved(text: str, half: int) -> onnx.ModelProto:
    """The model in 16 bits; Resize keeps its scales, which are float32 always."""
    source = model(text)
    half_model = to_half(source, half)
    for tensor, original in zip(half_model.graph.initializer, source.graph.initializer, strict=True):
        if tensor.name == "e":
            tensor.CopyFrom(original)
    return half_model


def compiled(proto: onnx.ModelProto, **options: object) -> CompiledModel:
    return compile_model(proto, convert_options({"debug": True, **options}))[0]


def run(package: CompiledModel, feeds: dict[str, Array]) -> list[Array]:
    session = InferenceSession(writer.to_bytes(package), threads=1)
    return [np.asarray(array) for array in session.run(None, feeds)]


def host_ops(package: CompiledModel) -> list[str]:
    return [node.op_type for node in package.graph.nodes if node.engine is Engine.HOST_CPU]


def feeds_of(proto: onnx.ModelProto) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        info.name: rng.standard_normal([dim.dim_value for dim in info.type.tensor_type.shape.dim]).astype(
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        )
        for info in proto.graph.input
    }


@HALVES
@pytest.mark.parametrize("net", NETS)
def test_a_model_of_halves_is_the_one_of_floats_rounded_once(net: str, half: int) -> None:
    proto = halved(NETS[net], half)
    package, feeds = compiled(proto), feeds_of(proto)
    assert host_ops(package) == []
    (ours,) = run(package, feeds)
    wide = {name: array.astype(np.float32) for name, array in feeds.items()}
    (expected,) = run(compiled(widened(proto)), wide)
    rounded = expected.astype(ours.dtype)
    step = np.spacing(np.abs(expected).max().astype(np.float16)) * (8 if half == TensorProto.BFLOAT16 else 1)
    np.testing.assert_allclose(ours.astype(np.float64), rounded.astype(np.float64), atol=float(step))
    if net == "transformer" and half == TensorProto.FLOAT16:  # products of bfloat16 round the other factor
        np.testing.assert_array_equal(ours, rounded)


@pytest.mark.parametrize("net", NETS)
def test_onnxruntime_agrees(net: str) -> None:
    proto = halved(NETS[net], TensorProto.FLOAT16)
    feeds = feeds_of(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (ours,), theirs = run(compiled(proto), feeds), session.run(None, feeds)[0]
    np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), atol=4e-3)


def test_weights_stay_in_16_bits_and_large_constants_are_cast_at_run_time() -> None:
    text = """big (float[1,600] x) => (float[600,600] y) <float[600,600] w, float[600,600] c> {
        a = MatMul(x, w)  y = Add(a, c) }"""
    proto = to_half(model(text))
    package = compiled(proto)
    assert sum(weight.nbytes for weight in package.weights) <= 1.25 * proto.ByteSize()
    assert {weight.desc.dtype.short for weight in package.weights} == {"f16"}


def test_a_cast_to_integers_reads_the_rounded_value() -> None:
    proto = model("cast (float16[3] x, float16[3] z) => (int32[3] y, float[3] w) "
                  "{ a = Mul(x, z)  y = Cast<to = 6>(a)  w = Cast<to = 1>(a) }")  # fmt: skip
    feeds = {"x": np.array([0.1] * 3, np.float16), "z": np.array([29.999, 30, 2], np.float16)}
    product = feeds["x"].astype(np.float32) * feeds["z"].astype(np.float32)
    ours = run(compiled(proto), feeds)
    np.testing.assert_array_equal(ours[0], product.astype(np.float16).astype(np.int32))
    assert ours[0].tolist() == [3, 3, 0]
    assert product[0] < 3
    np.testing.assert_array_equal(ours[1], product)


def test_inputs_and_outputs_may_stay_in_float32() -> None:
    text = """mixed (float[1,4,6,6] x) => (float[1,4,6,6] y) <float16[4,4,3,3] w, float[4,4,1,1] v> {
        h = Cast<to = 10>(x)  a = Conv<pads = [1,1,1,1]>(h, w)  r = Relu(a)  k = Cast<to = 1>(r)  c = Conv(k, v)
        n = Cast<to = 10>(c)  s = Softmax<axis = 1>(n)  t = Mul(s, r)  y = Cast<to = 1>(t) }"""
    proto = model(text)
    package = compiled(proto)
    assert host_ops(package) == []
    # One Cast each into and out of 16 bits where the model rounds; none else.
    assert [node.op_type for node in walk(package.graph)].count("Cast") == 4
    feeds = feeds_of(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(run(package, feeds)[0], session.run(None, feeds)[0], atol=2e-3)


def test_what_runs_on_the_host_gets_its_own_type() -> None:
    text = (
        "host (float16[1,4,2] x) => (float16[1,4,2] y) {"
        " a = Exp(x)  b = DFT<inverse = 1>(a)  c = Mul(a, b)  y = Relu(c) }"
    )
    package = compiled(model(text))
    assert host_ops(package) == ["DFT"]
    x = np.random.default_rng(0).standard_normal((1, 4, 2)).astype(np.float16)
    a = np.exp(x.astype(np.float32))
    transformed = np.fft.ifft(a[..., 0] + 1j * a[..., 1])
    expected = np.maximum(a * np.stack([transformed.real, transformed.imag], -1), 0)
    (ours,) = run(package, {"x": x})
    assert ours.dtype == np.float16
    np.testing.assert_allclose(ours.astype(np.float32), expected, rtol=5e-3, atol=1e-2)


def test_without_the_pass_the_reference_evaluator_rounds_after_each_op() -> None:
    proto = model("skip (float16[4] x) => (float16[4] y) { a = Exp(x)  y = Neg(a) }")
    assert host_ops(compiled(proto, skip_pass=["InsertCastPass"])) == ["Exp", "Neg"]


def check_by_onnxruntime(proto: onnx.ModelProto, feeds: dict[str, Array]) -> CompiledModel:
    """Fails unless our results are near those of ONNX Runtime."""
    package = compiled(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(run(package, feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), atol=4e-3)
    return package


def test_shapes_may_be_known_at_run_time_only() -> None:
    text = """open (float16[N,3,H,9] x) => (float16[N,8] y) <float16[24,3,3,3] w, float16[24] b, float16[24,8] v,
        float16[24] s, float16[24] h, float16[24] m, float16[24] var> {
        a = Conv<pads = [1,1,1,1]>(x, w, b)  n = BatchNormalization(a, s, h, m, var)  r = Relu(n)
        g = GlobalAveragePool(r)  f = Flatten(g)  y = MatMul(f, v) }"""
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 9)).astype(np.float16)
    assert host_ops(check_by_onnxruntime(model(text), {"x": x})) == []


def test_branches_compute_in_float32_too() -> None:
    text = """branch (float16[4] x, bool c) => (float16[4] y) {
        s = Exp(x)
        z = If (c) <
          then_branch = yes () => (float16[4] a) { a = Mul(s, x) },
          else_branch = no () => (float16[4] b) { n = Neg(s)  b = Relu(n) }
        >
        y = Tanh(z) }"""
    x = np.random.default_rng(0).standard_normal(4).astype(np.float16)
    for c in (True, False):
        package = check_by_onnxruntime(model(text), {"x": x, "c": np.array(c)})
        assert host_ops(package) == []


@pytest.mark.parametrize(("size", "spatial", "dtype"), [("9", 3, DType.FLOAT32), ("9", 2, DType.FLOAT16),
                                                        ("s", 3, DType.FLOAT16), ("s", 2, DType.FLOAT16)])  # fmt: skip
def test_filters_stay_narrow_where_the_blocked_kernel_may_read_them(size: str, spatial: int, dtype: DType) -> None:
    x, w = ",".join(["1,8", *[size] * spatial]), ",".join(["4,8", *["3"] * spatial])
    ops = "c = Conv(x, w)  g = GlobalAveragePool(c)  y = Flatten(g)"
    narrow = halved(f"net (float[{x}] x) => (float[1,4] y) <float[{w}] w> {{ {ops} }}", TensorProto.FLOAT16)
    package, whole = compiled(narrow), compiled(widened(narrow))
    (conv,) = (node for node in walk(package.graph) if node.op_type in {"Conv", "FusedConv"})
    assert conv.operand(1).desc.dtype is dtype
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 8, *[9] * spatial)).astype(np.float16)}
    ours, expected = run(package, feeds)[0], run(whole, {"x": feeds["x"].astype(np.float32)})[0]
    np.testing.assert_allclose(ours.astype(np.float32), expected, rtol=2**-10, atol=1e-6)


CONV_AND_PRODUCT = """net (float[1,8,6,6] x) => (float[1,8,6,5] y) <float[8,8,1,1] w, float[6,5] m> {
    c = Conv(x, w)  s = Softmax(c)  y = MatMul(s, m) }"""


def test_products_of_bfloat16_read_what_was_not_rounded() -> None:
    source = model(CONV_AND_PRODUCT)
    package = compiled(source, precision_mode_v2="mixed_bfloat16", keep_fp32="OpType::Softmax")
    assert {weight.desc.format.kind.name for weight in package.weights} == {"N1C1HWC0N0_VNNI2", "FRACTAL_NZ_VNNI2"}
    assert not {"Cast", "GraphKernel"} & {node.op_type for node in package.graph.nodes}
    half_package = compiled(source, precision_mode_v2="mixed_float16", keep_fp32="OpType::Softmax")
    assert {"Cast", "GraphKernel"} & {node.op_type for node in half_package.graph.nodes}


def test_a_result_that_the_user_rounds_to_bfloat16_is_rounded(tmp_path: Path) -> None:
    (tmp_path / "types.cfg").write_text("OpType::Softmax:InputDtype:float32,OutputDtype:bfloat16")
    package = compiled(model(CONV_AND_PRODUCT), customize_dtypes=str(tmp_path / "types.cfg"))
    assert {"Cast", "GraphKernel"} & {node.op_type for node in package.graph.nodes}


@pytest.mark.parametrize("product", ["MatMul(x, w)", "Gemm(x, w)", "Gemm(x, w, b)", "Gemm<transB = 1>(x, w)"])
def test_a_product_of_bfloat16_stays_one_when_it_is_fused(product: str) -> None:
    text = f"net (float[6,6] x) => (float[6,6] y) <float[6,6] w, float[6] b> {{ s = {product}  y = Relu(s) }}"
    package = compiled(model(text), precision_mode_v2="mixed_bfloat16")
    assert {node.op_type for node in package.graph.nodes} >= {"FusedMatMul"}
    kinds = {weight.desc.format.kind.name for weight in package.weights if weight.desc.shape == (6, 6)}
    assert kinds == {"FRACTAL_NZ_VNNI2"}


@pytest.mark.parametrize(
    ("options", "is_rounded"),
    [
        ({"precision_mode_v2": "mixed_bfloat16"}, 1), ({"precision_mode_v2": "mixed_float16"}, 0), ({}, 0),
        ({"precision_mode_v2": "mixed_bfloat16", "keep_fp32": "OpType::Attention"}, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("operands", ["q, k, v", "q, q, q"])
def test_attention_of_bfloat16_multiplies_that_type(operands: str, options: dict[str, object], is_rounded: int) -> None:
    heads = "float[1,2,9,8]"
    source = model(f"net ({heads} q, {heads} k, {heads} v) => ({heads} y) {{ y = Attention({operands}) }}")
    source.opset_import[0].version = 23
    package = compiled(source, **options)
    [task] = [task for task in package.tasks if task.kernel == "attention"]
    assert read_number(pack_compiled_task(task), task.kernel, "bf16") == is_rounded


def test_attention_of_float32_values_multiplies_float32() -> None:
    narrow = "bfloat16[1,2,9,8]"
    text = f"net ({narrow} q, {narrow} k, float[1,2,9,8] v) => ({narrow} y) {{ y = Attention(q, k, v) }}"
    source = model(text)
    source.opset_import[0].version = 23
    [task] = [task for task in compiled(source).tasks if task.kernel == "attention"]
    assert read_number(pack_compiled_task(task), task.kernel, "bf16") == 0


@pytest.mark.parametrize("half", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_ops_of_16_bits_run_in_c(op: str, gates: int, half: int) -> None:
    """The weights of the steps are converted once, and packed; those of the product before stay in 16 bits."""
    n = 256
    text = f"""net (float[5,1,{n}] x) => (float[5,1,1,{n}] y) <float[1,{gates * n},{n}] w, float[1,{gates * n},{n}] r>
        {{ y = {op}<hidden_size = {n}>(x, w, r) }}"""
    source = to_half(model(text), half)
    package = compiled(source)
    [steps] = [node for node in package.graph.nodes if node.op_type == "Recurrence"]
    [product] = [node for node in package.graph.nodes if node.op_type in ("MatMul", "FusedMatMul")]
    weights = steps.operand(1)
    assert weights.tensor is not None
    assert (weights.desc.dtype, weights.desc.format.kind.name) == (DType.FLOAT32, "FRACTAL_NZ")
    assert product.operand(1).desc.dtype.bits == 16
    assert host_ops(package) == []
    feeds = feeds_of(source)
    (ours,) = run(package, feeds)
    (expected,) = run(compiled(widened(source)), {name: array.astype(np.float32) for name, array in feeds.items()})
    np.testing.assert_allclose(ours.astype(np.float32), expected, atol=1e-3 if half == TensorProto.FLOAT16 else 1e-2)
