from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from atcpy.errors import AtcError, ModelInvalid, ResourceLimit, Unsupported
from atcpy.ir import DType, Graph, Node, Sym, walk
from atcpy.ir.dump import dump
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from tests.parsers.onnx.canonical import Array, assert_same_meaning, ops_of, parsed, run_canonical

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def refusal(model: onnx.ModelProto | str, cls: type[AtcError] = ModelInvalid) -> AtcError:
    if isinstance(model, str):
        model = onnx.parser.parse_model(model)
    with pytest.raises(cls) as raised:
        import_onnx(model, ParseOptions())
    return raised.value


def codes(error: AtcError) -> list[str]:
    return sorted(problem.code for problem in error.problems)


def model_of(nodes: list[onnx.NodeProto], *initializers: TensorProto, opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [onnx.ValueInfoProto(name="y")],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize(
    "attribute", ['value_int = "a"', "value_float = [1]", 'value_floats = ["a"]', "value_string = 1", "value = 1.5"]
)
def test_a_constant_of_an_attribute_of_another_type_is_refused(attribute: str) -> None:
    error = refusal(f"{HEAD} g () => (float y) {{ c = Constant<{attribute}>()  y = Identity(c) }}")
    assert (error.code, error.where.op) == ("E13014", "Constant")


@pytest.mark.parametrize("inputs", [["", "x"], ["x", "", "x"]])
def test_no_input_of_many_may_be_left_out(inputs: list[str]) -> None:
    error = refusal(model_of([helper.make_node("Concat", inputs, ["y"], axis=0)]))
    assert (error.code, error.what) == ("E13014", f"Concat: input {inputs.index('')} is missing")


def node_named(graph: Graph, name: str) -> Node:
    return next(node for node in walk(graph) if node.name == name)


def test_the_dump_of_an_imported_model() -> None:
    text = f"""{HEAD} g (float[N,3,8,8] x) => (float[N,4,8,8] y) <float[4,3,3,3] w> {{
        [conv] c = Conv<pads = [1,1,1,1]>(x, w)
        y = LeakyRelu<alpha = 0.5>(c) }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "w"))
    graph = parsed(model).graph
    assert dump(graph).splitlines() == [
        "x: f32[N,3,8,8] NCHW = Data() {index=0}",
        "w: f32[4,3,3,3] NCHW = Const()",
        "c: f32[N,4,8,8] NCHW = Conv(x, w) {pads=[1,1,1,1]}",
        "y: f32[N,4,8,8] NCHW = LeakyRelu(c) {alpha=0.5}",
        "NetOutput(y)",
    ]
    assert node_named(graph, "conv").sources == ("conv",)
    assert node_named(graph, "y").sources == ("y",)
    assert graph.node_count_before == 2


def test_initializers_that_are_also_inputs_are_constants() -> None:
    text = '<ir_version: 3, opset_import: ["" : 8]> g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> '
    graph = parsed(text + "{ y = Add(x, w) }").graph
    assert [node.name for node in graph.inputs] == ["x"]
    np.testing.assert_array_equal(graph.outputs[0].producer.operand(1).array, [1, 2])


def test_named_dims_are_symbols_and_unnamed_ones_differ() -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])])
    shape = model.graph.input[0].type.tensor_type.shape
    del shape.dim[:]
    for fields in ({"dim_param": "batch"}, {"dim_value": -1}, {"dim_param": "?"}, {}, {"dim_value": 0}):
        shape.dim.add(**fields)
    (node,) = parsed(model).graph.inputs
    assert node.output.desc.shape == (Sym("batch"), Sym("x.1"), Sym("x.2"), Sym("x.3"), 0)


def test_omitted_optional_inputs_are_none() -> None:
    graph = parsed(f"{HEAD} g (float[2] x, float m) => (float[2] y) {{ y = Clip(x, , m) }}").graph
    clip = graph.outputs[0].producer
    assert [value.name if value else None for value in clip.inputs] == ["x", None, "m"]


def test_an_unnamed_output_is_not_an_omitted_input() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,6] x, float m) => (y)
        { "", z = Split<axis = 1>(x) y = Clip(z, "", m) }"""
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    (y,) = run_canonical(parsed(text).graph, {"x": x, "m": np.array(9, np.float32)})
    np.testing.assert_array_equal(y, np.minimum(x[:, 3:], 9))


def test_attributes_keep_their_types() -> None:
    tensor = helper.make_tensor("t", TensorProto.INT64, [1], [7])
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["a"], value=tensor),
        helper.make_node("Conv", ["x4", "w"], ["b"], auto_pad="SAME_UPPER", group=1, strides=[1, 2]),
        helper.make_node("Elu", ["x"], ["y"], alpha=2.0),
        helper.make_node("TfIdfVectorizer", ["k"], ["q"], max_gram_length=1, max_skip_count=0, min_gram_length=1,
                         mode="TF", ngram_counts=[0], ngram_indexes=[0], pool_strings=["ä"], weights=[0.5]),
    ]  # fmt: skip
    model = model_of(
        nodes, helper.make_tensor("s", 7, [1], [2]), numpy_helper.from_array(np.zeros((1, 1, 1, 1), "f"), "w")
    )
    model.graph.input.append(helper.make_tensor_value_info("x4", 1, [1, 1, 4, 4]))
    model.graph.input.append(helper.make_tensor_value_info("k", TensorProto.STRING, [1]))
    graph = parsed(model).graph
    attrs = {node.op_type: node.attrs for node in graph.nodes}
    assert attrs["Conv"] == {"auto_pad": "SAME_UPPER", "group": 1, "strides": (1, 2)}
    assert attrs["Elu"] == {"alpha": 2.0}
    assert (attrs["TfIdfVectorizer"]["pool_strings"], attrs["TfIdfVectorizer"]["weights"]) == (("ä",), (0.5,))
    assert attrs["ConstantOfShape"]["value"].array.tolist() == [7]  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype not in (DType.UNDEFINED, DType.STRING)])
@pytest.mark.parametrize("raw", [True, False])
def test_every_element_type_is_read(dtype: DType, raw: bool) -> None:
    count = 5
    values = np.arange(count).astype(np.float32) % 2 if dtype.bits < 8 else np.arange(count)
    array = values.astype(dtype.numpy)
    tensor = (
        numpy_helper.from_array(array, "w") if raw else helper.make_tensor("w", dtype.onnx, [count], array.tolist())
    )
    op, attrs = ("Identity", {}) if np.dtype(dtype.numpy).kind == "c" else ("Cast", {"to": TensorProto.FLOAT})
    graph = parsed(model_of([helper.make_node(op, ["w"], ["y"], **attrs)], tensor, opset=25)).graph
    found = graph.outputs[0].producer.operand(0).array
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found.astype(np.complex128), array.astype(np.complex128))


def test_packed_integers_keep_their_sign() -> None:
    tensor = TensorProto(name="w", data_type=DType.INT4.onnx, dims=[3], raw_data=b"\x8f\x07")
    found = parsed(model_of([helper.make_node("Identity", ["w"], ["y"])], tensor, opset=25)).graph
    np.testing.assert_array_equal(found.outputs[0].producer.operand(0).array, np.array([-1, -8, 7], ml_dtypes.int4))
    tensor = TensorProto(name="w", data_type=DType.INT2.onnx, dims=[5], raw_data=b"\xe4\x01")
    found = parsed(model_of([helper.make_node("Identity", ["w"], ["y"])], tensor, opset=25)).graph
    assert found.outputs[0].producer.operand(0).array.astype(int).tolist() == [0, 1, -2, -1, 1]


def test_string_tensors_are_decoded() -> None:
    tensor = helper.make_tensor("w", TensorProto.STRING, [2], ["ä".encode(), b"\xff"])
    array = parsed(model_of([helper.make_node("Identity", ["w"], ["y"])], tensor)).graph.outputs[0].producer.operand(0)
    assert array.array.tolist() == ["ä", "\udcff"]


def test_sparse_constants_become_dense() -> None:
    values = helper.make_tensor("w", 1, [2], [5.0, 7.0])
    for indices in (helper.make_tensor("i", 7, [2], [1, 5]), helper.make_tensor("i", 7, [2, 2], [0, 1, 1, 2])):
        model = model_of([helper.make_node("Add", ["x", "w"], ["y"])])
        model.graph.sparse_initializer.append(onnx.SparseTensorProto(dims=[2, 3], values=values, indices=indices))
        array = parsed(model).graph.outputs[0].producer.operand(1).array
        assert array.tolist() == [[0, 5, 0], [0, 0, 7]]


def test_a_huge_sparse_constant_is_refused() -> None:
    model = model_of([helper.make_node("Identity", ["w"], ["y"])])
    values, indices = helper.make_tensor("w", 1, [1], [5.0]), helper.make_tensor("i", 7, [1], [1])
    model.graph.sparse_initializer.append(onnx.SparseTensorProto(dims=[2**20, 2**20], values=values, indices=indices))
    assert refusal(model, ResourceLimit).code == "R0001"


@pytest.mark.parametrize("indices", [[3, 1], [1, 1], [-1, 2], [1, 6]])
def test_wrong_sparse_indices_are_refused(indices: list[int]) -> None:
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])])
    values = helper.make_tensor("w", 1, [2], [5.0, 7.0])
    tensor = helper.make_tensor("i", 7, [2], indices)
    model.graph.sparse_initializer.append(onnx.SparseTensorProto(dims=[2, 3], values=values, indices=tensor))
    assert "indices" in refusal(model).what


@pytest.mark.parametrize(
    ("attr", "expected"),
    [("value_int = 3", (DType.INT64, 3)), ("value_ints = [1, 2]", (DType.INT64, [1, 2])),
     ("value_float = 0.5", (DType.FLOAT32, 0.5)), ("value_floats = [0.5]", (DType.FLOAT32, [0.5])),
     ('value_string = "a"', (DType.STRING, "a")), ('value_strings = ["a", "b"]', (DType.STRING, ["a", "b"])),
     ("value = double[1] {2.0}", (DType.FLOAT64, [2.0]))],
)  # fmt: skip
def test_each_kind_of_constant_node_becomes_a_const(attr: str, expected: tuple[DType, object]) -> None:
    graph = parsed(f"{HEAD} g (float[1] x) => (y) {{ [k] c = Constant<{attr}>() y = Identity(c) }}").graph
    value = graph.outputs[0].producer.operand(0)
    assert (value.desc.dtype, value.array.tolist()) == expected
    assert value.producer.sources == ("k",)


def test_duplicate_node_names_get_numbers_and_a_warning() -> None:
    result = parsed(f"{HEAD} g (float[1] x) => (float[1] y) {{ [n] a = Relu(x) [n] b = Neg(a) [m] y = Abs(b) }}")
    assert [node.name for node in result.graph.nodes][1:4] == ["n", "n.1", "m"]
    assert [node.sources for node in result.graph.nodes][1:4] == [("n",), ("n",), ("m",)]
    assert [(warning.code, '"n" (2)' in warning.message) for warning in result.warnings] == [("W0007", True)]


def test_subgraphs_capture_outer_values() -> None:
    text = f"""{HEAD} g (float[2,3] x, bool c, float[2,3] z) => (float[2,3] y) <float[1] k = {{2}}> {{
        t = Relu(x)
        [branch] u = If (c) <
            then_branch = a () => (float[2,3] r) {{ r = Mul(t, k) }},
            else_branch = b () => (float[2,3] r) {{ s = If (c) <
                then_branch = d () => (float[2,3] q) {{ q = Identity(z) }},
                else_branch = e () => (float[2,3] q) {{ q = Add(z, k) }}> (c) r = Sub(s, x) }}>
        y = Add(u, k) }}"""
    text = text.replace("}> (c) r", "}> r")
    feeds: dict[str, Array] = {"x": np.ones((2, 3), "f"), "z": np.full((2, 3), 3, "f")}
    for flag in (True, False):
        graph = assert_same_meaning(text, {**feeds, "c": np.array(flag)})
    assert [node.name for node in graph.nodes if node.op_type == "Const"] == ["k"]
    body = node_named(graph, "branch").attrs["else_branch"]
    assert isinstance(body, Graph)
    assert body.name == "branch/else_branch"
    assert body.names is graph.names


def nested(depth: int) -> onnx.ModelProto:
    """`depth` nested If nodes, built from the outside in: protobuf cannot copy deeply nested messages."""
    model = model_of([], helper.make_tensor("flag", TensorProto.BOOL, [], [True]))
    model.graph.output[0].name = "r0"
    graph = model.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["flag"], output=[f"r{level}"])
        other = node.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH).g
        other.name = "other"
        other.node.append(helper.make_node("Identity", ["x"], [f"e{level}"]))
        other.output.append(helper.make_tensor_value_info(f"e{level}", 1, None))
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.name = "level"
        graph.output.append(helper.make_tensor_value_info(f"r{level + 1}", 1, None))
    graph.node.append(helper.make_node("Relu", ["x"], [f"r{depth}"]))
    return model


@pytest.mark.parametrize("depth", [31, 64])
def test_sixty_four_nested_graphs_are_read(depth: int) -> None:
    assert sum(node.op_type == "If" for node in walk(parsed(nested(depth)).graph)) == depth


@pytest.mark.parametrize("depth", [65, pytest.param(300, marks=pytest.mark.slow)])
def test_sixty_five_nested_graphs_are_refused(depth: int) -> None:
    assert "nested 65 deep, the limit is 64" in refusal(nested(depth), ResourceLimit).what


def test_functions_may_nest_graphs_to_sixty_four() -> None:
    def calls(depth: int) -> onnx.ModelProto:
        model = model_of([helper.make_node("F0", ["x", "flag"], ["y"], domain="f")])
        model.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
        model.opset_import.append(helper.make_opsetid("f", 1))
        opsets = list(model.opset_import)
        for level in range(depth):
            inner = helper.make_node(f"F{level + 1}", ["a", "c"], ["r"], domain="f")
            if level == depth - 1:
                inner = helper.make_node("Neg", ["a"], ["r"])
            body = helper.make_graph([inner], "b", [], [onnx.ValueInfoProto(name="r")])
            node = helper.make_node("If", ["c"], ["o"], then_branch=body, else_branch=body)
            model.functions.append(helper.make_function("f", f"F{level}", ["a", "c"], ["o"], [node], opsets))
        # The else branch would call as well, which gives 2^depth nodes, so it is replaced by a plain one.
        for function in model.functions:
            del function.node[0].attribute[0].g.node[:]
            function.node[0].attribute[0].g.node.append(helper.make_node("Neg", ["a"], ["r"]))
        return model

    assert sum(node.op_type == "If" for node in walk(parsed(calls(64)).graph)) == 64
    assert "nested 65 deep, the limit is 64" in refusal(calls(65), ResourceLimit).what


def test_nodes_in_any_order_are_sorted() -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["y"]),
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
    ]
    assert ops_of(parsed(model_of(nodes)).graph) == ["Relu", "Neg", "Add"]


def test_a_node_is_sorted_after_the_values_its_subgraphs_read() -> None:
    body = helper.make_graph([helper.make_node("Neg", ["late"], ["r"])], "b", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body),
        helper.make_node("Relu", ["x"], ["late"]),
    ]
    graph = parsed(model_of(nodes, helper.make_tensor("flag", TensorProto.BOOL, [], [True]))).graph
    assert ops_of(graph) == ["Relu", "If"]


def test_a_cycle_is_reported_with_its_nodes() -> None:
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("Neg", ["b"], ["c"], name="third"),
        helper.make_node("Neg", ["c"], ["y"], name="outside"),
    ]
    error = refusal(model_of(nodes))
    assert error.code == "E2100C"
    assert error.what == "the graph has a cycle: first → second → third → first"


def test_all_problems_are_reported_at_once() -> None:
    text = """<ir_version: 8, opset_import: ["" : 11, "com.microsoft" : 1]> g (float[2,3] x) => (float[2,3] y, z) {
        [one] a = com.microsoft.Tokenizer(x)
        [two] b = Gelu(a)
        [three] c = Foo(b)
        [four] d = Softmx(c)
        [five] e = LeakyRelu<alfa = 0.5>(d)
        [six] f = Concat<axis = 0.5>(e, missing)
        [seven] y = Relu(f, f) }"""
    error = refusal(text)
    found = {(problem.where.node, problem.code) for problem in error.problems}
    assert found == {
        ("one", "E19010"), ("two", "E10501"), ("three", "E19010"), ("four", "E19010"), ("five", "E13014"),
        ("six", "E12009"), ("six", "E13014"), ("seven", "E13014"), ("", "E12009"),
    }  # fmt: skip
    hints = {problem.where.node: problem.hint for problem in error.problems}
    assert "without ONNX Runtime's optimization" in hints["one"]
    assert hints["two"] == "export the model with opset 20 or later"
    assert hints["four"].startswith('did you mean "Softmax"')
    assert hints["five"] == 'did you mean "alpha"?'


def test_equal_problems_are_reported_once_with_a_count() -> None:
    nodes = " ".join(f"[n{i}] v{i + 1} = my.dom.Deform(v{i})" for i in range(30))
    text = f'<ir_version: 8, opset_import: ["" : 17, "my.dom" : 1]> g (float[1] v0) => (v30) {{ {nodes} }}'
    error = refusal(text, Unsupported)
    (cause,) = error.as_dicts()
    assert (cause["code"], cause["more"], len(cause["nodes"])) == ("E19010", 29, 30)
    assert "--custom-ops" in cause["hint"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('<ir_version: 8, opset_import: ["" : 17, "ai.onnx" : 13]> g (float x) => (float y) { y = Relu(x) }', "E16005"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => () { y = Relu(x) }', "E16001"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { y = Relu(x) y = Neg(x) }', "E13009"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { y = Relu(z) }', "E12009"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { y = Conv<group = 1.5>(x, x) }', "E13014"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { y = Transpose<perm = [0], perm = [0]>(x) }',
         "E13014"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { y = Cast(x) }', "E13014"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { '
         "y = Constant<value_int = 1, value_float = 2.0>() }", "E13014"),
        (f'<ir_version: 8, opset_import: ["" : 17]> g (float[{2**41}] x) => (y) {{ y = Relu(x) }}', "E13014"),
        ('<ir_version: 8, opset_import: ["" : 99]> g (float x) => (y) { y = Relu(x) }', "E10501"),
        ('<ir_version: 8, opset_import: ["ai.onnx.ml" : 3]> g (float x) => (y) { y = Relu(x) }', "E10501"),
        ('<ir_version: 8, opset_import: ["" : 17]> g (x) => (y) { y = Relu(x) }', "E13014"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_code(text: str, code: str) -> None:
    assert codes(refusal(text, AtcError)) == [code]


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="w", data_type=1, dims=[2], raw_data=b"\0" * 7),
        TensorProto(name="w", data_type=1, dims=[2], float_data=[1]),
        TensorProto(name="w", data_type=1, dims=[-1], float_data=[1]),
        TensorProto(name="w", data_type=99, dims=[1], raw_data=b"\0"),
        TensorProto(name="w", data_type=0, dims=[1], raw_data=b"\0"),
        TensorProto(name="w", data_type=1, dims=[2**33, 2**33], raw_data=b"\0"),
        TensorProto(name="w", data_type=1, dims=[4194305, 4194305, 211106198978564], raw_data=b"\0" * 16),
        TensorProto(name="w", data_type=8, dims=[1], raw_data=b"a"),
        TensorProto(name="w", data_type=1, dims=[1], float_data=[1], segment=TensorProto.Segment(begin=0, end=1)),
    ],
)
def test_constants_of_wrong_size_are_refused(tensor: TensorProto) -> None:
    error = refusal(model_of([helper.make_node("Add", ["x", "w"], ["y"])], tensor))
    assert codes(error) == ["E13014"]
    assert 'constant "w"' in error.what


ELEMENTS = (
    "float_data",
    "int32_data",
    "string_data",
    "int64_data",
    "double_data",
    "uint64_data",
    "raw_data",
    "outside",
)


@pytest.mark.parametrize("other", ELEMENTS)
@pytest.mark.parametrize("own", ELEMENTS)
@pytest.mark.parametrize("place", ["initializer", "attribute", "sparse", "in a large file"])
def test_elements_in_two_fields_are_refused(own: str, other: str, place: str, tmp_path: Path) -> None:
    """Which of them count nobody says: other programs take other ones."""
    dtypes = {"int32_data": 6, "string_data": 8, "int64_data": 7, "double_data": 11, "uint64_data": 13}
    count = 2_200_000 if place == "in a large file" and own == "raw_data" else 2
    tensor = TensorProto(name="w", data_type=dtypes.get(own, 1), dims=[count])
    for field in {own, other}:
        if field == "outside":
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="w.bin")
        elif field == "raw_data":
            tensor.raw_data = b"\0" * 4 * count
        else:
            getattr(tensor, field).extend([b"a", b"b"] if field == "string_data" else [1, 2])
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    if place == "attribute":
        model = model_of(
            [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Cast", ["w"], ["y"], to=1)]
        )
    elif place == "sparse":
        model = model_of([helper.make_node("Cast", ["w"], ["y"], to=1)])
        indices = helper.make_tensor("i", 7, [2], [0, 2])
        model.graph.sparse_initializer.append(onnx.SparseTensorProto(values=tensor, indices=indices, dims=[4]))
    else:
        model = model_of([helper.make_node("Cast", ["w"], ["y"], to=1)], tensor)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    if own == other:
        assert import_onnx(tmp_path / "m.onnx", ParseOptions()).graph.outputs
        return
    with pytest.raises(ModelInvalid, match='E13014: constant "w"'):
        import_onnx(tmp_path / "m.onnx", ParseOptions())


@pytest.mark.parametrize("kind", ["nothing", "a tensor of nothing", "a number that is no type"])
def test_inputs_need_a_type(kind: str) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])])
    model.graph.input[0].type.Clear()
    if kind != "nothing":
        model.graph.input[0].type.tensor_type.elem_type = 0 if kind == "a tensor of nothing" else 77
    assert codes(refusal(model)) == ["E13014"]


def test_a_name_that_is_not_utf8_is_refused() -> None:
    raw = model_of([helper.make_node("Relu", ["x"], ["y"], name="qqqq")]).SerializeToString()
    damaged = onnx.ModelProto.FromString(raw.replace(b"qqqq", b"q\xffqq"))
    assert "not UTF-8" in refusal(damaged).what


def test_a_model_that_only_the_onnx_checker_rejects_is_refused() -> None:
    body = helper.make_graph([helper.make_node("Relu", ["z"], ["x"])], "b", [], [onnx.ValueInfoProto(name="x")])
    flag = helper.make_tensor("flag", TensorProto.BOOL, [], [True])
    shadowing = helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body)
    error = refusal(model_of([helper.make_node("Neg", ["x"], ["z"]), shadowing], flag))
    assert error.hint.startswith("onnx.checker says so")


def test_standard_ops_with_a_function_body_are_not_expanded() -> None:
    graph = parsed(f"{HEAD} g (float[1,2,3,4] x) => (y) {{ a = MeanVarianceNormalization(x) y = Celu(a) }}").graph
    assert ops_of(graph) == ["MeanVarianceNormalization", "Celu"]


def test_names_of_values_and_nodes_are_kept_despite_constants_of_equal_name() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) <float[2] n = {{1, 2}}> {{ [n] y = Add(x, n) }}"
    graph = parsed(text).graph
    assert [(node.name, [value.name for value in node.outputs]) for node in graph.nodes] == [
        ("x", ["x"]), ("n.const", ["n"]), ("n", ["y"]), ("NetOutput", []),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_nodes_is_read() -> None:
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(100_000)]
    model = model_of(nodes)
    model.graph.input[0].name, model.graph.output[0].name = "v0", "v100000"
    assert len(import_onnx(model, ParseOptions()).graph) == 100_002


def test_a_long_chain_of_old_ops_is_typed_without_recursion() -> None:
    nodes = [
        helper.make_node(
            *(("Relu",) if i % 2 else ("Clip",)), [f"v{i}"], [f"v{i + 1}"], **({} if i % 2 else {"min": 0.5})
        )
        for i in range(2_000)
    ]
    nodes.append(helper.make_node("Softmax", ["v2000"], ["y"]))
    model = model_of(nodes, opset=10)
    model.graph.input[0].name = "v0"
    graph = parsed(model).graph
    assert ops_of(graph).count("Clip") == 1_000
    assert ops_of(graph)[-1] == "Softmax"


def test_the_import_is_deterministic() -> None:
    text = f"{HEAD} g (float[2,3] x, bool c) => (float[2,3] y) {{ t = Shape<start = 1>(x) u = If (c) <then_branch = a "
    text += (
        "() => (float[2,3] r) { r = Neg(x) }, else_branch = b () => (float[2,3] r) { r = Abs(x) }> y = Expand(u, t) }"
    )
    assert dump(parsed(text).graph) == dump(parsed(text).graph)
    (y,) = run_canonical(parsed(text).graph, {"x": np.ones((2, 3), "f"), "c": np.array(True)})
    assert y.tolist() == [[-1, -1, -1], [-1, -1, -1]]
