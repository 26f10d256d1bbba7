"""Small models that together reach every kernel family: is what this CPU computes right?

Each case is ONNX text, after its opset where that is not 17; values that it declares without data are
constants, filled from a fixed seed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import numpy_helper, parser

from atcpy import InferenceSession
from atcpy.aipp.config import AippConfig, Fields
from atcpy.aipp.settings import read_settings
from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.table import ParamValue, families, pack_params, pack_task
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from atcpy.verify.compare import compare
from atcpy.verify.inputs import Fill, Port, make_array
from atcpy.verify.ort import load_onnxruntime, oracle_options
from atcpy.verify.picture_feeds import PictureFeeds

_AIPP = {
    "input_format": "RGB888_U8", "csc_switch": True, "matrix_r0c0": 77, "matrix_r0c1": 150, "matrix_r0c2": 29,
    "matrix_r1c0": -43, "matrix_r1c1": -85, "matrix_r1c2": 128, "matrix_r2c0": 128,
    "matrix_r2c1": -107, "matrix_r2c2": -21, "output_bias_1": 128, "output_bias_2": 128,
    "mean_chn_0": 100, "var_reci_chn_1": 0.25,
}  # fmt: skip
_OPSET = 17
_OPSET_OF = {"Col2Im": 18}
CASES: tuple[str, ...] = (
    """(float[1,20,9,7] x) => (float[1,24,5,4] y) <float[24,20,3,3] w, float[24] b>
       { y = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w, b) }""",
    """(float[1,32,9,9] x) => (float[1,32,9,9] y) <float[32,1,3,3] w>
       { c = Conv<group = 32, pads = [1,1,1,1]>(x, w)  y = Relu(c) }""",
    "(float[3,17] x) => (float[3,35] y) <float[17,35] w> { y = MatMul(x, w) }",
    "(float[3,17] x) => (float[3,9] y) <float[9,17] w, float[9] b> { y = Gemm<transB = 1>(x, w, b) }",
    "(float[2,5,33] a, float[2,33,6] b) => (float[2,5,6] y) { y = MatMul(a, b) }",
    "(float[2,1,33] a, float[2,33,37] b) => (float[2,1,37] y) { y = MatMul(a, b) }",
    "(float[21,33] x) => (float[21,1] y) <float[33,1] w> { y = MatMul(x, w) }",
    """(float[1,18,7,9] x) => (float[1,18,4,5] y)
       { y = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(x) }""",
    """(float[1,18,8,8] x) => (float[1,18,4,4] y)
       { y = AveragePool<kernel_shape = [2,2], strides = [2,2]>(x) }""",
    """(float[1,3,8,8] x) => (float[1,3,8,8] y)
       { m, i = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x)
         y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(m, i) }""",
    "(float[1,19,6,6] x) => (float[1,19,1,1] y) { y = GlobalAveragePool(x) }",
    "(float[1,19,6,6] x) => (float[1,19,1,1] y) { y = GlobalMaxPool(x) }",
    """(float[2,3,21] a, float[3,1] b) => (float[2,3,21] y)
       { s = Add(a, b)  m = Mul(s, a)  d = Sub(m, b)  y = Div(d, s) }""",
    "(float[5,21] x) => (float[5,21] y) { a = Relu(x)  b = Sigmoid(a)  c = Tanh(b)  y = Exp(c) }",
    "(float[5,21] x) => (float[5,21] y) { a = Erf(x)  b = HardSigmoid(a)  c = Abs(b)  y = Sqrt(c) }",
    "(float[2,7,5] x) => (float[2,7,5] y) <float[7,1] s> { y = PRelu(x, s) }",
    """(float[5,21] x) => (int64[n] y) <int64 zero = {0}, int64 one = {1}>
       { r = Relu(x)  i = NonZero(r)  s = Shape<start = 1>(i)  n = Squeeze(s)  y = Range(zero, n, one) }""",
    "(float[5,21] x) => (float[5,21] y) { a = Abs(x)  e = Constant<value_float = 2.5>()  y = Pow(a, e) }",
    "(float[5,21] x, int64[21] e) => (float[5,21] y) { a = Abs(x)  y = Pow(a, e) }",
    "(float[5,21] x) => (bool[5,21] y) { a = Log(x)  y = IsNaN(a) }",
    "(float[4,37] x) => (float[4,37] y) { y = Softmax<axis = -1>(x) }",
    """(float[2,3,19,9] q, float[2,3,9,31] k, float[2,3,31,21] v, float[19,31] m) => (float[2,3,19,21] y)
       { s = MatMul(q, k)  a = Add(s, m)  p = Softmax<axis = -1>(a)  y = MatMul(p, v) }""",
    "23 (float[2,3,5,18] x, float[2,5,8] c, float[2,5,8] s) => (float[2,3,5,18] y) "
    "{ y = RotaryEmbedding<rotary_embedding_dim = 16>(x, c, s) }",
    "(float[4,5,6] x) => (float[4,1,6] y) { y = ReduceMean<axes = [1]>(x) }",
    "(float[4,5,6] x) => (float[4,5] y) { y = ReduceMax<axes = [2], keepdims = 0>(x) }",
    "(float[4,5,6] x) => (int64[4,5] y) { y = ArgMax<axis = -1, keepdims = 0>(x) }",
    """(float[2,12,5,5] x) => (float[2,12,5,5] y) <float[12] s, float[12] b, float[12] m, float[12] v>
       { p = Abs(v)  y = BatchNormalization(x, s, b, m, p) }""",
    "(float[1,12,5,5] x) => (float[1,12,5,5] y) { y = LRN<size = 5>(x) }",
    "(float[3,5,24] x) => (float[3,5,24] y) <float[24] s, float[24] b> { y = LayerNormalization<axis = -1>(x, s, b) }",
    """(float[1,6,5,5] x) => (float[1,10,10,10] y) <float[6,10,2,2] w>
       { y = ConvTranspose<strides = [2,2]>(x, w) }""",
    "(float[1,4,21] x, float[6,4,3] w) => (float[1,6,19] y) { y = Conv(x, w) }",
    "(float[3,4] x, float[3,4] z) => (float[3,4] y) { c = Greater(x, z)  y = Where(c, x, z) }",
    """(float[3,1] x) => (float[3,5] y) { s = Constant<value_ints = [3,5]>()  y = Expand(x, s) }""",
    "(float[1,16,3,3] a, float[1,8,3,3] b) => (float[1,24,3,3] y) { y = Concat<axis = 1>(a, b) }",
    "(float[1,24,3,3] x) => (float[1,12,3,3] y, float[1,12,3,3] z) { y, z = Split<axis = 1>(x) }",
    """(float[6,7] x) => (float[4,3] y)
       { s = Constant<value_ints = [1,1]>()  e = Constant<value_ints = [5,7]>()
         a = Constant<value_ints = [0,1]>()  t = Constant<value_ints = [1,2]>()  y = Slice(x, s, e, a, t) }""",
    "(float[2,3,4,5] x) => (float[4,2,5,3] y) { y = Transpose<perm = [2,0,3,1]>(x) }",
    """(float[1,3,5,5] x) => (float[1,3,8,7] y)
       { p = Constant<value_ints = [0,0,1,2,0,0,2,0]>()  y = Pad<mode = "constant">(x, p) }""",
    """(float[1,5,4,4] x) => (float[1,5,8,8] y)
       { e = Constant<value_floats = [1.0,1.0,2.0,2.0]>()  y = Resize<mode = "nearest",
         coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , e) }""",
    """(float[1,5,4,4] x) => (float[1,5,8,8] y)
       { e = Constant<value_floats = [1.0,1.0,2.0,2.0]>()  y = Resize<mode = "linear",
         coordinate_transformation_mode = "half_pixel">(x, , e) }""",
    """(float[1,2,5,6] x) => (float[1,2,9,8] y)
       { e = Constant<value_ints = [1,2,9,8]>()  y = Resize<mode = "cubic">(x, , , e) }""",
    "(float[3,5,5] x) => (float[3] y) { y = Det(x) }",
    """(float[1,2,5,6] x, float[1,3,4,2] g) => (float[1,2,3,4] y) { y = GridSample<mode = "bilinear">(x, g) }""",
    """(float[1,2,8,8] x, float[3,4] r) => (float[3,2,2,2] y)
       { b = Constant<value_ints = [0,0,0]>()  y = RoiAlign<output_height = 2, output_width = 2>(x, r, b) }""",
    """(float[1,8,4] x) => (float[1,2,4,4] y)
       { i = Constant<value_ints = [4,4]>()  b = Constant<value_ints = [2,2]>()
         y = Col2Im<strides = [2,2]>(x, i, b) }""",
    """(float[1,40,1] x) => (float[1,4,7,2] y)
       { s = Constant<value_int = 8>()  l = Constant<value_int = 12>()  y = STFT(x, s, , l) }""",
    "(float[9,4] x, int64[5] i) => (float[5,4] y) { y = Gather<axis = 0>(x, i) }",
    "(float[9,4] x, int64[5,4] i) => (float[5,4] y) { y = GatherElements<axis = 0>(x, i) }",
    """(float[9,4] x, int64[5,4] i, float[5,4] u) => (float[9,4] y)
       { y = ScatterElements<axis = 0, reduction = "add">(x, i, u) }""",
    "(float[9,4] x, int64[3,1] i, float[3,4] u) => (float[9,4] y) { y = ScatterND<reduction = \"mul\">(x, i, u) }",
    "24 (float[2,9,4] x, float[2,3,4] u, int64[2] i) => (float[2,9,4] y) { y = TensorScatter(x, u, i) }",
    """(float[3,40] x) => (float[3,5] y, int64[3,5] i)
       { k = Constant<value_ints = [5]>()  y, i = TopK(x, k) }""",
    "(float[3,5,4] x) => (float[3,5,4] y) { a = Constant<value_int = 1>()  y = CumSum<reverse = 1>(x, a) }",
    """(int64[3] i) => (float[3,7] y)
       { d = Constant<value_int = 7>()  v = Constant<value_floats = [0.5,2.0]>()  y = OneHot(i, d, v) }""",
    "(float[6,3,4] x, int64[3] i) => (float[6,3,4] y) { y = ReverseSequence(x, i) }",
    """19 (float[3,5] x) => (float[3,28] y)
       { p = Constant<value_ints = [0,11,0,12]>()  y = Pad<mode = "wrap">(x, p) }""",
    "(float[3,4] x) => (int32[3,4] y) { y = Cast<to = 6>(x) }",
    """(float[4,5,7] x) => (float[4,2,5,19] y, float[2,5,19] h) <float[2,76,7] w, float[2,76,19] r, float[2,152] b>
       { y, h = LSTM<hidden_size = 19, direction = "bidirectional">(x, w, r, b) }""",
    """(float[4,1,7] x) => (float[4,1,1,16] y) <float[1,48,7] w, float[1,48,16] r>
       { y = GRU<hidden_size = 16, direction = "reverse">(x, w, r) }""",
    "(float[2,5,6] x) => (float[2,5,6] y) { y = Trilu(x) }",
    "(float[2,5,7] x) => (float[2,5,7] y) { y = Trilu<upper = 0>(x) }",
    "(float[3,4] x) => (float[2,6] y) { s = Constant<value_ints = [2,6]>()  y = Reshape(x, s) }",
    """(float[5,37] a, float[37,19] b) => (float[5,19] y)
       { p, s, z = DynamicQuantizeLinear(a)  q, t, u = DynamicQuantizeLinear(b)
         c = MatMulInteger(p, q, z, u)  y = Cast<to = 1>(c) }""",
    """(float[5,32] x) => (float[5,1] y) <float[1,1] s>
       { b = Constant<value = uint8[1,1,16] {0,17,34,51,68,85,102,119,136,153,170,187,204,221,238,255}>()
         y = com.microsoft.MatMulNBits<K = 32, N = 1, bits = 4, block_size = 32>(x, b, s) }""",
    """(float[1,20,9,7] x) => (float[1,24,5,4] y) <float[24,20,3,3] w>
       { s = Constant<value_float = 0.03125>()  z = Constant<value = uint8 {128}>()
         a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
         v = QuantizeLinear(w, s, z)  u = DequantizeLinear(v, s, z)
         c = Conv<pads = [1,1,1,1], strides = [2,2]>(b, u)
         d = QuantizeLinear(c, s, z)  y = DequantizeLinear(d, s, z) }""",
    """(float[1,64,24,24] x) => (float[1,48,24,24] y) <float[48,64,3,3] w>
       { s = Constant<value_float = 0.03125>()  z = Constant<value = uint8 {128}>()
         a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
         v = QuantizeLinear(w, s, z)  u = DequantizeLinear(v, s, z)
         c = Conv<pads = [1,1,1,1]>(b, u)
         d = QuantizeLinear(c, s, z)  y = DequantizeLinear(d, s, z) }""",
    """(float[1,32,7,6] x) => (float[1,32,7,6] y) <float[32,1,3,3] w>
       { s = Constant<value_float = 0.03125>()  z = Constant<value = uint8 {128}>()
         a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
         v = QuantizeLinear(w, s, z)  u = DequantizeLinear(v, s, z)
         c = Conv<group = 32, pads = [1,1,1,1]>(b, u)
         d = QuantizeLinear(c, s, z)  e = DequantizeLinear(d, s, z)
         f = Add(b, e)  g = QuantizeLinear(f, s, z)  h = DequantizeLinear(g, s, z)
         i = Sigmoid(h)  j = QuantizeLinear(i, s, z)  y = DequantizeLinear(j, s, z) }""",
    "(float[5,21] x) => (float[n] y) { a = Relu(x)  b = NonZero(a)  c = Transpose(b)  y = GatherND(a, c) }",
    "(float[5,21] x, bool[5] c) => (float[n,21] y) { y = Compress<axis = 0>(x, c) }",
    "(int64[31] x) => (int64[n] y) { y, i, j, k = Unique(x) }",
    """(float[1,9,4] x, float[1,2,9] s) => (int64[n,3] y)
       { a = Abs(x)  m = Constant<value_ints = [4]>()  t = Constant<value_floats = [0.5]>()
         y = NonMaxSuppression(a, s, m, t) }""",
    """(float[9,3] x) => (float[9,1] y)
       { y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0,0,0], nodes_nodeids = [0,1,2],
           nodes_featureids = [1,0,0], nodes_values = [0.5,0.0,0.0], nodes_modes = ["BRANCH_LEQ","LEAF","LEAF"],
           nodes_truenodeids = [1,0,0], nodes_falsenodeids = [2,0,0], target_treeids = [0,0], target_nodeids = [1,2],
           target_ids = [0,0], target_weights = [1.0,-2.0]>(x) }""",
    """(float[9,2] x) => (int64[9] l, float[9,3] y)
       { l, y = ai.onnx.ml.SVMClassifier<kernel_type = "LINEAR", kernel_params = [0.5,0.0,3.0],
           classlabels_ints = [0,1,2], vectors_per_class = [1,1,1], support_vectors = [1.0,0.0,0.0,1.0,-1.0,-1.0],
           coefficients = [0.5,-0.5,0.25,0.75,-0.25,-1.0], rho = [0.1,-0.2,0.3], prob_a = [-1.0,-1.5,-0.5],
           prob_b = [0.1,0.0,-0.1]>(x) }""",
    "19 (float[1,3,6,6] x, float[1,18,4,4] o) => (float[1,2,4,4] y) <float[2,3,3,3] w> { y = DeformConv(x, w, o) }",
    """(float[4,7] x) => (float[4,7] y)
       { m = ReduceMean<keepdims = 0>(x)  z = Constant<value_float = 0.0>()  c = Greater(m, z)
         y = If(c) <then_branch = t () => (float[4,7] a) { a = Relu(x) },
                    else_branch = e () => (float[4,7] b) { b = Neg(x) }> }""",
    """(float[4,7] x) => (float[4,7] y)
       { n = Constant<value_int = 3>()
         y = Loop(n, , x) <body = b (int64 i, bool c, float[4,7] v) => (bool d, float[4,7] w)
           { d = Identity(c)  f = Cast<to = 1>(i)  w = Add(v, f) }> }""",
    # Branches that run beside each other.
    """(float[64,64] x) => (float[64,64] y)
       { p = Sin(x)  a = Softmax(p)  q = Cos(x)  b = Softmax(q)  r = Exp(x)  c = Softmax(r)  s = Neg(x)  d = Softmax(s)
         y = Sum(a, b, c, d) }""",
    # Draws that can have one result only.
    "(float[3,4] x) => (float[3,4] y) { y = RandomUniformLike<low = 2.0, high = 2.0>(x) }",
    """(float[2,2] x) => (int32[2,5] y)
       { c = Constant<value = float[2,2] {1000.0,-1000.0,-1000.0,1000.0}>()
         a = Add(x, c)  y = Multinomial<sample_size = 5>(a) }""",
    """(float[1,32,8,8] x) => (float[1,40,8,8] y) <float[40,32,1,1] w, float[40,40,3,3] v>
       { a = Conv(x, w)  r = Relu(a)  c = Conv<pads = [1,1,1,1]>(r, v)  s = Add(c, r)  y = Relu(s) }""",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CaseReport:
    """One case: the kernel families that it ran through, how far off it was, and what went wrong, if anything."""

    ops: str
    families: tuple[str, ...]
    max_abs: float
    problem: str


def run_cases(*, has_onnxruntime: bool = True) -> Iterator[CaseReport]:
    """Convert and run every case, on one thread, and compare it with ONNX Runtime; without that, only those
    that are compared with numpy.

    Not with the ONNX reference evaluator: its LRN is wrong.
    """
    for number, text in enumerate(CASES if has_onnxruntime else ()):
        model = build(text, seed=number)
        ops = " ".join(dict.fromkeys(node.op_type for node in model.graph.node if node.op_type != "Constant"))
        try:
            yield _run(ops, model)
        except Exception as error:  # noqa: BLE001  a broken kernel may fail in any way; the report names its case
            yield CaseReport(ops, (), 0.0, str(error).partition("\n")[0] or type(error).__name__)
    yield _run_program()
    yield _run_pictures()


def untested_families(reports: list[CaseReport]) -> list[str]:
    """Families of the kernel table that no case reached."""
    reached = {family for report in reports for family in report.families}
    return sorted(set(families()) - {HOST_FAMILY} - reached)


def build(text: str, *, seed: int) -> onnx.ModelProto:
    """The model of a case."""
    stated, _, rest = text.partition(" ")
    of_op = next((number for op, number in _OPSET_OF.items() if f"{op}<" in text), _OPSET)
    opset, body = (int(stated), rest) if stated.isdigit() else (of_op, text)
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "ai.onnx.ml" : 3, "com.microsoft" : 1]> selftest {body}'
    )
    result = {name for node in model.graph.node for name in node.output}
    rng = np.random.default_rng(seed)
    for value in model.graph.value_info:
        if value.name not in result:
            dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            array = (rng.standard_normal(dims) / max(1, math.prod(dims[1:])) ** 0.5).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
    return model


def _run_program() -> CaseReport:
    """A program of graph kernel, written by hand: y = relu(a · b + 1), b a column."""
    unary, binary = (_numbers_of(family) for family in ("unary", "binary"))
    one = int(np.float32(1).view(np.int32))
    code = [
        64 + binary["Mul"] | 2 << 8 | 0 << 16 | 1 << 24,
        64 + binary["Add"] | 2 << 8 | 2 << 16 | 255 << 24 | one << 32,
        unary["Relu"] | 2 << 8 | 2 << 16,
    ]
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal(shape).astype(np.float32) for shape in ((7, 150), (7, 1))]
    result = np.empty((7, 150), np.float32)
    arrays = [*feeds, result]
    slots = [
        Slot(region, 0, array.nbytes, TensorDesc.plain(DType.FLOAT32, array.shape), index)
        for array, region, index in zip(arrays, (Region.INPUT, Region.INPUT, Region.OUTPUT), (0, 1, 0), strict=True)
    ]
    params: dict[str, ParamValue] = {"dims": [1, 1, 1, 7, 150], "masks": 16 << 5, "types": 1 | 1 << 5 | 1 << 10}
    params |= {"n_src": 2, "n_dst": 1, "results": 2, "n_code": len(code), "code": code}
    record = pack_task("graph_kernel", slots[:2], slots[2:], pack_params("graph_kernel", params))
    plan = _kernels.Plan(record, None, 0, [array.nbytes for array in feeds], [result.nbytes], 1)
    plan.start([array.reshape(-1).view(np.uint8) for array in feeds], [result.reshape(-1).view(np.uint8)]).execute(0, 1)
    report = compare("y", result, np.maximum(feeds[0] * feeds[1] + 1, 0))
    problem = "" if report.passed else f"{report.name} {report.why}"
    return CaseReport("Mul Add Relu", ("graph_kernel",), report.max_abs, problem)


def _run_pictures() -> CaseReport:
    """Pictures of bytes, of which AIPP makes the input of a model, beside what numpy makes of them."""
    block = read_settings(_AIPP, Fields())
    options = convert_options({"enable_graph_kernel": False})
    options = replace(options, parse=replace(options.parse, aipp=AippConfig((block,))))
    compiled, _ = compile_model(build("(float[2,3,9,13] x) => (float[2,3,9,13] y) { y = Relu(x) }", seed=0), options)
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    pictures = PictureFeeds.of(session)
    [picture] = session.get_inputs()
    feeds = {"x": make_array(Port("x", picture.dtype, tuple(picture.shape or ())), Fill())}
    [result] = session.run(None, pictures.package_feeds(feeds))
    report = compare("y", result, np.maximum(pictures.model_feeds(feeds)["x"], 0))
    used = tuple(dict.fromkeys(task.kernel for plan in session.plans for task in plan.tasks))
    return CaseReport("AIPP", used, report.max_abs, "" if report.passed else f"{report.name} {report.why}")


def _numbers_of(family: str) -> dict[str, int]:
    """The ops of a kernel family by name."""
    choices = next(field.choices for field in families()[family] if field.name == "op")
    return {name: number for number, name in enumerate(choices or ())}


def _run(ops: str, model: onnx.ModelProto) -> CaseReport:
    # One node, one task: graph kernels would take the families away that the case is for.
    compiled, _ = compile_model(model, convert_options({"enable_graph_kernel": False}))
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    ports = [Port(arg.name, arg.dtype, tuple(arg.shape or ())) for arg in session.get_inputs()]
    feeds = {port.name: make_array(port, Fill(), 5 if port.dtype is DType.INT64 else None) for port in ports}
    names = [value.name for value in model.graph.output]
    oracle = load_onnxruntime().InferenceSession(
        model.SerializeToString(), oracle_options(), providers=["CPUExecutionProvider"]
    )
    expected = oracle.run(names, feeds)
    reports = [compare(n, a, np.asarray(e)) for n, a, e in zip(names, session.run(names, feeds), expected, strict=True)]
    used = tuple(dict.fromkeys(task.kernel for plan in session.plans for task in plan.tasks))
    problems = [f"{report.name} {report.why}" for report in reports if not report.passed]
    return CaseReport(ops, used, max(report.max_abs for report in reports), "; ".join(problems))
