"""Every step that the parser takes upwards has its way back: the op at the model's own opset, the same results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from atcpy.ir import Graph
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx, read_model
from atcpy.parsers.onnx.opsets.changes import CHANGES
from atcpy.parsers.onnx.opsets.downgrade import form_at, oldest_opset
from atcpy.parsers.onnx.opsets.form import CannotDowngrade
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase
from atcpy.rewrite.export import export_rewritten
from atcpy.rewrite.optimize import read_source
from atcpy.rewrite.options import RewriteOptions
from atcpy.rewrite.serialize import serialize
from tests.ort import open_ort

assert _passes

# No op of ai.onnx.ml is downgraded; for the others the older schema says that a node does not train.
UP_ONLY = {("ai.onnx.ml::LabelEncoder", 2), ("BatchNormalization", 9), ("BatchNormalization", 14)}


def scaled(scales: str, op_type: str) -> str:
    return f's = Constant<value = float[4] {{{scales}}}>() y = {op_type}<mode = "nearest">(x, s)'


# opset, inputs, body: each body gives y of what the graph's inputs hold.
CASES = {
    "squeeze": (11, "float[1,3,1] x", "y = Squeeze<axes = [0, 2]>(x)"),
    "squeeze_all": (11, "float[1,3,1] x", "y = Squeeze(x)"),
    "unsqueeze": (9, "float[3] x", "y = Unsqueeze<axes = [0, 2]>(x)"),
    "reduce_sum": (11, "float[2,3] x", "y = ReduceSum<axes = [1], keepdims = 0>(x)"),
    "reduce_mean": (13, "float[2,3] x", "y = ReduceMean<axes = [-1]>(x)"),
    "reduce_all": (13, "float[2,3] x", "y = ReduceMax<keepdims = 0>(x)"),
    "clip": (8, "float[2,3] x", "y = Clip<min = -0.5, max = 0.5>(x)"),
    "clip_below": (10, "float[2,3] x", "y = Clip<min = 0.25>(x)"),
    "pad": (10, "float[2,3] x", 'y = Pad<pads = [1, 0, 0, 2], mode = "constant", value = 2.5>(x)'),
    "pad_reflect": (10, "float[2,3] x", 'y = Pad<pads = [1, 0, 0, 2], mode = "reflect">(x)'),
    "slice": (9, "float[4,5] x", "y = Slice<starts = [1, -3], ends = [3, 9], axes = [0, 1]>(x)"),
    "topk": (9, "float[4,5] x", "y, i = TopK<k = 2>(x)"),
    "split": (11, "float[2,6] x", "y, z = Split<axis = 1, split = [2, 4]>(x)"),
    "split_equal": (13, "float[2,6] x", "y, z = Split<axis = 1>(x)"),
    "softmax": (11, "float[2,6] x", "y = Softmax<axis = 1>(x)"),
    "dropout": (10, "float[2,6] x", "y = Dropout<ratio = 0.25>(x)"),
    "upsample": (9, "float[1,1,2,3] x", scaled("1, 1, 2, 3", "Upsample")),
    "upsample_attr": (8, "float[1,1,2,3] x", 'y = Upsample<mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]>(x)'),
    "resize_grows": (10, "float[1,1,2,3] x", scaled("1, 1, 2, 3", "Resize")),
    "resize_shrinks": (10, "float[1,1,4,4] x", scaled("1, 1, 0.5, 0.5", "Resize")),
    "resize_roi": (
        11,
        "float[1,1,2,3] x",
        "r = Constant<value = float[0] {}>() s = Constant<value = float[4] {1, 1, 2, 2}>() y = Resize(x, r, s)",
    ),
    "batchnorm": (
        7,
        "float[2,2,3] x, float[2] a, float[2] b, float[2] m",
        "v = Constant<value = float[2] {1, 2}>() y = BatchNormalization(x, a, b, m, v)",
    ),
    "gemm": (7, "float[2,3] x, float[3,4] w, float[4] b", "y = Gemm(x, w, b)"),
    "scatter": (
        9,
        "float[2,3] x",
        """i = Constant<value = int64[1,2] {0, 1}>() u = Constant<value = float[1,2] {7, 8}>()
        y = Scatter(x, i, u)""",
    ),
    "roi_align": (
        13,
        "float[1,1,4,4] x",
        """r = Constant<value = float[1,4] {0, 0, 2, 2}>() i = Constant<value = int64[1] {0}>()
        y = RoiAlign<output_height = 2, output_width = 2>(x, r, i)""",
    ),
    "grid_sample": (16, "float[1,1,4,4] x, float[1,2,2,2] g", 'y = GridSample<mode = "bicubic">(x, g)'),
    "dft": (17, "float[1,4,1] x", "y = DFT<axis = 1>(x)"),
    "shape_range": (15, "float[N,3,M] x", "y = Shape<start = 1, end = 3>(x)"),
    "broadcast": (7, "float[2,3] x, float[3] b", "y = Add(x, b)"),
}  # fmt: skip


def model_of(name: str) -> onnx.ModelProto:
    opset, inputs, body = CASES[name]
    outputs = "int64[2] y" if name == "shape_range" else "float y"
    model = onnx.parser.parse_model(
        f"<ir_version: 8, opset_import: ['' : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}".replace("''", '""')
    )
    onnx.checker.check_model(model)
    return model


def written_anew(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model through the IR, without one node copied."""
    parsed, source = read_source(read_model(model), RewriteOptions())
    PassManager().run(parsed.graph, Phase.INFER)
    source.origins.clear()
    written = export_rewritten(parsed.graph, source)
    assert written.raised == ""
    return onnx.ModelProto.FromString(b"".join(serialize(written, "data", external=False).model))


def run(model: onnx.ModelProto) -> np.ndarray:
    session = open_ort(model)
    rng = np.random.default_rng(0)
    feeds = {
        arg.name: rng.standard_normal([2 if isinstance(dim, str) else dim for dim in arg.shape]).astype(np.float32)
        for arg in session.get_inputs()
    }
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("name", CASES)
def test_the_way_back(name: str) -> None:
    model = model_of(name)
    written = written_anew(model)
    onnx.checker.check_model(written)
    assert written.opset_import == model.opset_import
    kinds = [[node.op_type for node in each.graph.node if node.op_type != "Constant"] for each in (written, model)]
    if not name.startswith("resize"):  # an Upsample says the same
        assert kinds[0] == kinds[1]
    np.testing.assert_array_equal(run(written), run(model))


def test_every_step_up_has_one_down() -> None:
    up_only = [change for change in CHANGES if not change.renamed and not any(step.down for step in change.steps)]
    assert {(op, change.version) for change in up_only for op in change.ops.split()} == UP_ONLY


@pytest.mark.parametrize(
    ("op_type", "attrs", "rank", "oldest", "why"),
    [
        ("Softmax", {"axis": 1}, 4, 13, "axes from the given one on were flattened"),
        ("HardSwish", {}, 4, 14, "HardSwish is newer"),
        ("Reshape", {"allowzero": 1}, 4, 14, "allowzero is newer"),
        ("Relu", {}, 4, 7, ""),
    ],
)
def test_what_has_no_older_form(op_type: str, attrs: dict[str, object], rank: int, oldest: int, why: str) -> None:
    from atcpy.ir import DType, TensorDesc

    graph = Graph("g")
    x = graph.append("Data", (), {"index": 0}, name="x").output
    x.desc = TensorDesc.plain(DType.FLOAT32, (2,) * rank)
    shape = [graph.append("Data", (), {"index": 1}, name="s").output] if op_type == "Reshape" else []
    node = graph.append(op_type, [x, *shape], attrs, name="n")
    assert oldest_opset(node, 7) == (oldest, why)
    if why:
        with pytest.raises(CannotDowngrade, match=why):
            form_at(node, 7)


INDEX = "i = Constant<value = int64[1] {1}>()"
ONE_TO_THREE = f"{INDEX} j = Constant<value = int64[1] {{3}}>()"
RATIO = "r = Constant<value = float {0.1}>()"
SCALES = "s = Constant<value = float[4] {1, 1, 2, 2}>()"
ASYMMETRIC = 'mode = "nearest", coordinate_transformation_mode = "asymmetric"'


@pytest.mark.parametrize(
    ("signature", "body", "oldest", "why"),
    [
        ("float[2,3,4,5] x", f"{ONE_TO_THREE} y = Slice(x, i, j, i, i)", 1, ""),
        ("float[2,3,4,5] x", f"{ONE_TO_THREE} k = Constant<value = int64[1] {{2}}>() y = Slice(x, i, j, i, k)", 10,
         "input 4 is not 1"),
        ("float[2,3,4,5] x, int64[1] n", f"{INDEX} y = Slice(x, i, n)", 10, "input 2 is computed"),
        ("float[2,3,4,5] x", f"{INDEX} y = ReduceSum<noop_with_empty_axes = 1>(x, i)", 1, ""),
        ("float[2,3,4,5] x", "y = ReduceSum<noop_with_empty_axes = 1>(x)", 13, "no axes were all axes"),
        ("float[2,3,4,5] x", f"{RATIO} t = Constant<value = bool {{0}}>() y = Dropout(x, r, t)", 1, ""),
        ("float[2,3,4,5] x", f"{RATIO} t = Constant<value = bool {{1}}>() y = Dropout(x, r, t)", 12,
         "input 2 is not 0"),
        ("float[2,3,4,5] x", f"{INDEX} y, z = TopK(x, i)", 1, ""),
        ("int64[2,3] x", f"{INDEX} y, z = TopK(x, i)", 11, "it did not take int64"),
        ("float[2,3] x", f"{INDEX} y, z = TopK<largest = 0>(x, i)", 11, "largest is newer"),
        ("float[1,1,4,4] x, float[1,4] r, int64[1] b", "y = RoiAlign(x, r, b)", 16,
         "coordinate_transformation_mode is not output_half_pixel"),
        ("float[1,1,4,4] x, float[1,4] r, int64[1] b",
         'y = RoiAlign<coordinate_transformation_mode = "half_pixel">(x, r, b)', 16,
         "coordinate_transformation_mode is not output_half_pixel"),
        ("float[1,1,4,4] x, float[1,4] r, int64[1] b",
         'y = RoiAlign<coordinate_transformation_mode = "output_half_pixel">(x, r, b)', 10, "RoiAlign is newer"),
        ("float[2,2,3,3] x", f'{SCALES} y = Resize<{ASYMMETRIC}, nearest_mode = "floor">(x, , s)', 7,
         "it was another op"),
        ("float[2,2,3,3] x", f'{SCALES} y = Resize<{ASYMMETRIC}, nearest_mode = "ceil">(x, , s)', 11,
         "it took the pixel before the point when growing, behind it when shrinking"),
        ("float[1,1,2,2,2] x, float[1,2,2,2,3] g", "y = GridSample(x, g)", 20, "it sampled images only"),
    ],
)  # fmt: skip
def test_how_old_a_node_may_become(signature: str, body: str, oldest: int, why: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 20]> g ({signature}) => (y) {{ {body} }}'
    graph = import_onnx(onnx.parser.parse_model(text), ParseOptions()).graph
    node = next(node for node in graph.nodes if any(value.name == "y" for value in node.outputs))
    assert oldest_opset(node, 1) == (oldest, why)


@pytest.mark.parametrize(
    ("body", "opset", "attrs"),
    [
        ("y = Selu(x)", 5, {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}),
        ("y = Selu<alpha = 2.0>(x)", 5, {"alpha": 2.0, "gamma": 1.0507010221481323}),
        ("y = Concat<axis = -1>(x, x)", 3, {"axis": 3}),
        ("y = Concat<axis = -1>(x, x)", 11, {"axis": -1}),
        ("y = Cast<to = 6>(x)", 5, {"to": "INT32"}),
        ("l = Constant<value = float {0}>() y = Clip(x, l)", 10, {"min": 0.0}),
        ("y = GlobalLpPool<p = 3>(x)", 1, {"p": 3.0}),
    ],
)  # fmt: skip
def test_attributes_of_the_older_form(body: str, opset: int, attrs: dict[str, object]) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 20]> g (float[2,3,4,5] x) => (y) {{ {body} }}'
    graph = import_onnx(onnx.parser.parse_model(text), ParseOptions()).graph
    form = form_at(graph.net_output.operand(0).producer, opset)
    assert (form.attrs, len(form.inputs)) == (attrs, 2 if form.op_type == "Concat" else 1)
