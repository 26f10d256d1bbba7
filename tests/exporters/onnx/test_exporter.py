import numpy as np
import onnx
import pytest

from atcpy.errors import Unsupported
from atcpy.exporters.onnx import export_model
from atcpy.exporters.onnx.types import type_from_text
from atcpy.ir import DType, Graph, Tensor, TensorDesc
from atcpy.ir.dump import dump
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.onnx.value_types import type_text

HEAD = '<ir_version: 8, opset_import: ["" : 21]>'


def round_trip(text: str) -> tuple[Graph, Graph]:
    graph = import_onnx(onnx.parser.parse_model(text), ParseOptions()).graph
    model = export_model(graph)
    return graph, import_onnx(model, ParseOptions()).graph


TEXTS = [
    f"{HEAD} g (float[N,3] x) => (float[N,3] y) {{ y = LeakyRelu<alpha = 0.5>(x) }}",
    f"{HEAD} g (float[4] x, float l) => (float[4] y) {{ y = Clip(x, , l) }}",
    f"{HEAD} g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add(x, w) }}",
    f"{HEAD} g (float[2,2,4] x) => (y, z) {{ y, z = Split<axis = 1, num_outputs = 2>(x) }}",
    f"""{HEAD} g (float[2] x, bool c) => (y) {{ y = If (c) <then_branch = a () => (r) {{ r = Neg(x) }},
        else_branch = b () => (r) {{ s = If (c) <then_branch = d () => (q) {{ q = Abs(x) }},
        else_branch = e () => (q) {{ q = Exp(x) }}> r = Relu(s) }}> }}""",
    f"{HEAD} g (seq(float[2]) s, int64 i) => (y) {{ y = SequenceAt(s, i) }}",
    f"{HEAD} g (float[2,3] x) => (float[6] y) {{ s = Constant<value_ints = [-1]>() y = Reshape(x, s) }}",
    f"{HEAD} g (float[2] x) => (float[2] x) {{ unused = Neg(x) }}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_exported_reads_as_it_was(text: str) -> None:
    before, after = round_trip(text)
    assert dump(after) == dump(before)


def test_the_oldest_opset_that_means_the_same_is_imported() -> None:
    def opset(text: str) -> int:
        return export_model(round_trip(text)[0]).opset_import[0].version

    assert opset(TEXTS[0]) == 21
    assert opset('<ir_version: 11, opset_import: ["" : 24]> g (float[2] x) => (y) { y = Swish(x) }') == 24
    crd = '<ir_version: 13, opset_import: ["" : 28]> g (float[1,1,2,2] x) => (y) '
    crd += "{{ y = SpaceToDepth<blocksize = 2{}>(x) }}"
    assert opset(crd.format("")) == 21
    assert opset(crd.format(', mode = "CRD"')) == 28


def test_the_exported_model_passes_the_checker() -> None:
    graph = round_trip(TEXTS[2])[0]
    graph.outputs[0].desc = TensorDesc.plain(DType.FLOAT32, (2,))  # types of results are prepare's to find
    model = export_model(graph)
    onnx.checker.check_model(model, full_check=True)
    assert model.producer_name == "atcpy"


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype not in (DType.UNDEFINED, DType.STRING)])
def test_constants_of_every_type_survive(dtype: DType) -> None:
    array = (np.arange(5).astype(np.float32) % 2).astype(dtype.numpy)
    graph = Graph("g")
    const = graph.add_const(Tensor.of(array, dtype), "w")
    graph.append("NetOutput", [graph.append("Identity", [const], outputs=("y",)).output], outputs=())
    (tensor,) = export_model(graph).graph.initializer
    assert (tensor.name, tensor.data_type) == ("w", dtype.onnx)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor).astype(np.complex64), array.astype(np.complex64))


def test_strings_survive() -> None:
    graph = Graph("g")
    const = graph.add_const(Tensor.of(np.array(["ä", "\udcff"], object)), "w")
    graph.append("NetOutput", [const], outputs=())
    assert list(export_model(graph).graph.initializer[0].string_data) == ["ä".encode(), b"\xff"]


def test_an_empty_list_has_the_type_that_the_standard_gives_it() -> None:
    graph = Graph("g")
    x = graph.append("Data", (), {"index": 0}, name="x", outputs=("x",)).output
    x.desc = TensorDesc.plain(DType.FLOAT32, (1,))
    node = graph.append(
        "LSTM", [x, x, x], {"activation_alpha": (), "activations": (), "hidden_size": 1}, outputs=("y",)
    )
    graph.append("NetOutput", [node.output], outputs=())
    types = {attr.name: attr.type for attr in export_model(graph).graph.node[0].attribute}
    assert types == {
        "activation_alpha": onnx.AttributeProto.FLOATS,
        "activations": onnx.AttributeProto.STRINGS,
        "hidden_size": onnx.AttributeProto.INT,
    }


def test_what_is_ours_alone_is_refused() -> None:
    graph = Graph("g")
    x = graph.append("Data", (), {"index": 0}, name="x", outputs=("x",)).output
    graph.append("NetOutput", [graph.append("TransData", [x], name="t").output], outputs=())
    with pytest.raises(Unsupported, match="TransData has no ONNX form"):
        export_model(graph)


@pytest.mark.parametrize(
    "text",
    ["seq(tensor(float))", "optional(seq(tensor(int64)))", "seq(map(int64,tensor(float)))", "sparse_tensor(double)",
     "optional(tensor(string))", "opaque(d,n)"],
)  # fmt: skip
def test_the_text_of_a_type_reads_back(text: str) -> None:
    assert type_text(type_from_text(text)) == text
