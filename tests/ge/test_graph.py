"""Graphs of operators compute what the same models of ONNX do, and say what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import atcpy
from atcpy import ge
from atcpy.errors import AtcError, ModelInvalid, UsageError
from atcpy.ge import op
from atcpy.ge.model import model_of
from tests.ort import open_ort

RNG = np.random.default_rng(0)
CNN = {
    "w1": RNG.standard_normal((8, 3, 3, 3), np.float32) / 5,
    "b1": RNG.standard_normal(8, np.float32),
    "w2": RNG.standard_normal((16, 4, 3, 3), np.float32) / 5,
    "scale": RNG.uniform(0.5, 1.5, 16).astype(np.float32),
    "shift": RNG.standard_normal(16, np.float32),
    "mean": RNG.standard_normal(16, np.float32),
    "var": RNG.uniform(0.5, 1.5, 16).astype(np.float32),
    "w3": RNG.standard_normal((16, 10), np.float32),
    "b3": RNG.standard_normal(10, np.float32),
}
CNN_IN_ONNX = """cnn (float[2,3,16,16] x) => (float[2,10] prob) {
    c1 = Conv<pads = [1,1,1,1]>(x, w1, b1)
    r1 = Relu(c1)
    p1 = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r1)
    c2 = Conv<pads = [1,1,1,1], group = 2>(p1, w2)
    n2 = BatchNormalization<epsilon = 1e-3>(c2, scale, shift, mean, var)
    s = Sigmoid(n2)
    m = Mul(n2, s)
    g = GlobalAveragePool(m)
    f = Flatten(g)
    l = Gemm(f, w3, b3)
    prob = Softmax(l)
}"""
LSTM = {
    "w": RNG.standard_normal((2, 24, 5), np.float32),
    "r": RNG.standard_normal((2, 24, 6), np.float32),
    "b": RNG.standard_normal((2, 48), np.float32),
    "proj": RNG.standard_normal((12, 3), np.float32),
}
LSTM_IN_ONNX = """lstm (float[7,2,5] x, float[2,2,6] h0, float[2,2,6] c0)
    => (float[7,2,3] y, float[2,2,6] h, float[2,2,6] c) {
    z, h, c = LSTM<hidden_size = 6, direction = "bidirectional">(x, w, r, b, , h0, c0)
    t = Transpose<perm = [0,2,1,3]>(z)
    shape = Constant<value_ints = [7,2,12]>()
    u = Reshape(t, shape)
    y = MatMul(u, proj)
}"""


def const(name: str, value: Any) -> Any:
    return op.Const(name).set_attr_value(value)


def data(name: str, shape: list[int | str], dtype: Any = ge.DT_FLOAT) -> Any:
    return op.Data(name).update_output_desc_y(ge.TensorDesc(shape, dtype=dtype))


def cnn() -> ge.Graph:
    k = {name: const(name, value) for name, value in CNN.items()}
    x = op.Data("x")
    x.update_input_desc_x(ge.TensorDesc([2, 3, 16, 16], ge.FORMAT_NCHW, ge.DT_FLOAT))
    c1 = op.Conv2D("c1").set_input_x(x).set_input_filter(k["w1"]).set_input_bias(k["b1"]).set_attr_pads([1, 1, 1, 1])
    r1 = op.Relu("r1").set_input_x(c1)
    p1 = op.MaxPool("p1").set_input_x(r1).set_attr_kernel_shape([2, 2]).set_attr_strides([2, 2])
    c2 = op.Conv2D("c2").set_input_x(p1).set_input_filter(k["w2"]).set_attr_pads([1, 1, 1, 1]).set_attr_groups(2)
    n2 = op.BatchNorm("n2").set_input_x(c2).set_input_scale(k["scale"]).set_input_b(k["shift"])
    n2.set_input_input_mean(k["mean"]).set_input_input_var(k["var"]).set_attr_epsilon(1e-3)
    m = op.Mul("m").set_input_x1(n2).set_input_x2(op.Sigmoid("s").set_input_x(n2))
    f = op.Flatten("f").set_input_x(op.GlobalAveragePool("g").set_input_x(m))
    dense = op.Gemm("l").set_input_a(f).set_input_b(k["w3"]).set_input_c(k["b3"])
    return ge.Graph("cnn").SetInputs([x]).SetOutputs([op.Softmax("prob").set_input_x(dense)])


def lstm() -> ge.Graph:
    k = {name: const(name, value) for name, value in LSTM.items()}
    x, h0, c0 = data("x", [7, 2, 5]), data("h0", [2, 2, 6]), data("c0", [2, 2, 6])
    z = op.LSTM("z").set_input_x(x).set_input_w(k["w"]).set_input_r(k["r"]).set_input_b(k["b"])
    z.set_input_initial_h(h0).set_input_initial_c(c0).set_attr_hidden_size(6).set_attr_direction("bidirectional")
    t = op.Transpose("t").set_input_x(z, "y").set_attr_perm([0, 2, 1, 3])
    u = op.Reshape("u").set_input_data(t).set_input_shape(const("shape", np.array([7, 2, 12])))
    y = op.MatMul("y").set_input_x1(u).set_input_x2(k["proj"])
    return ge.Graph("lstm").SetInputs([x, h0, c0]).SetOutputs([y, (z, ["y_h", 2])])


def in_onnx(text: str, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return model


@pytest.mark.parametrize(
    ("graph", "oracle", "shapes"),
    [
        (cnn, in_onnx(CNN_IN_ONNX, CNN), [(2, 3, 16, 16)]),
        (lstm, in_onnx(LSTM_IN_ONNX, LSTM), [(7, 2, 5), (2, 2, 6), (2, 2, 6)]),
    ],
    ids=["cnn", "lstm"],
)
def test_a_graph_of_operators_computes_what_onnx_runtime_does(
    graph: Any, oracle: onnx.ModelProto, shapes: list[tuple[int, ...]], session: ge.Session
) -> None:
    inputs = [np.random.default_rng(1).standard_normal(shape, np.float32) for shape in shapes]
    session.AddGraph(0, graph())
    ours = session.RunGraph(0, inputs)
    runtime = open_ort(oracle)
    theirs = runtime.run(None, dict(zip([port.name for port in runtime.get_inputs()], inputs, strict=True)))
    assert len(ours) == len(theirs)
    for own, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)


def test_outputs_may_be_several_of_one_operator(session: ge.Session) -> None:
    x = data("x", [6])
    split = op.Split("split").set_input_input(x).create_dynamic_output_outputs(3).set_attr_num_outputs(3)
    topk = op.TopK("topk").set_input_x(x).set_input_k(const("k", np.array([2])))
    session.AddGraph(0, ge.Graph().SetInputs([x]).SetOutputs([(split, [2, 0]), (topk, "indices"), topk, x]))
    outputs = session.RunGraph(0, [np.array([3, 1, 2, 9, 8, 7], np.float32)])
    assert [item.tolist() for item in outputs] == [[8, 7], [3, 1], [3, 4], [9, 8], [3, 4], [3, 1, 2, 9, 8, 7]]


def test_the_outputs_of_a_package_are_named_after_operators() -> None:
    x = data("x", [4])
    topk = op.TopK("topk").set_input_x(x).set_input_k(const("k", np.array([2])))
    pool = op.MaxPool("pool").set_input_x(data("image", [1, 1, 4, 4])).set_attr_kernel_shape([2, 2])
    assert [(each.output_count, each.required_output_count) for each in (topk, pool)] == [(2, 2), (2, 1)]
    package = ge.aclgrphBuildModel(ge.Graph().SetInputs([x]).SetOutputs([topk]))
    loaded = atcpy.InferenceSession(package)
    assert [port.name for port in loaded.get_inputs()] == ["x"]
    assert [port.name for port in loaded.get_outputs()] == ["topk", "topk:1"]


def test_outputs_that_nobody_reads_are_left_out() -> None:
    """Dropout has no mask; of TopK both outputs must be there."""
    x = data("x", [4])
    topk = op.TopK("topk").set_input_x(op.Dropout("drop").set_input_data(x)).set_input_k(const("k", np.array([2])))
    model = model_of(ge.Graph().SetInputs([x]).SetOutputs([(topk, 0)]))
    assert isinstance(model, onnx.ModelProto)
    assert [list(node.output) for node in model.graph.node] == [["drop"], ["topk", "topk:1"]]


def test_inputs_are_in_the_order_of_their_indices(session: ge.Session) -> None:
    a, b = data("a", [1]).set_attr_index(1), data("b", [1]).set_attr_index(0)
    difference = op.Sub("d").set_input_x1(a).set_input_x2(b)
    session.AddGraph(0, ge.Graph().SetInputs([a, b]).SetOutputs([difference]))
    assert session.RunGraph(0, [np.float32([1]), np.float32([5])])[0].tolist() == [4]


def test_an_open_size_is_minus_one_or_a_name(session: ge.Session) -> None:
    a, b = data("a", ["n", -1]), data("b", ["n", -1])
    session.AddGraph(0, ge.Graph().SetInputs([a, b]).SetOutputs([op.Add("s").set_input_x1(a).set_input_x2(b)]))
    for shape in ((2, 3), (4, 1)):
        ones = np.ones(shape, np.float32)
        assert session.RunGraph(0, [ones, ones])[0].tolist() == (ones + ones).tolist()
    with pytest.raises(UsageError, match="n is 2 elsewhere"):
        session.RunGraph(0, [np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)])


def test_a_body_reads_operators_of_the_graph_around_it(session: ge.Session) -> None:
    """If condition: x + 1, else −(x · 2): `doubled` is of the outer graph, for that reads it, too."""
    condition, x = data("condition", [], ge.DT_BOOL), data("x", [3])
    doubled = op.Mul("doubled").set_input_x1(x).set_input_x2(const("two", np.float32(2)))
    more = op.Add("more").set_input_x1(x).set_input_x2(const("one", np.float32(1)))
    less = op.Neg("less").set_input_x(doubled)
    chosen = op.If("chosen").set_input_cond(condition)
    chosen.set_subgraph_builder_then_branch(lambda: ge.Graph("then").SetOutputs([more]))
    chosen.set_subgraph_builder_else_branch(lambda: ge.Graph("else").SetOutputs([less]))
    session.AddGraph(0, ge.Graph().SetInputs([condition, x]).SetOutputs([chosen, doubled]))
    values = np.array([1, 2, 3], np.float32)
    assert session.RunGraph(0, [np.array(True), values])[0].tolist() == [2, 3, 4]
    assert session.RunGraph(0, [np.array(False), values])[0].tolist() == [-2, -4, -6]


def test_a_loop_has_a_body_with_inputs_of_its_own(session: ge.Session) -> None:
    start, step = data("start", [2]), data("step", [2])

    def body() -> ge.Graph:
        number, going, carried = op.Data("number"), op.Data("going"), op.Data("carried")
        total = op.Add("total").set_input_x1(carried).set_input_x2(step)
        still = op.Identity("still").set_input_x(going)
        return ge.Graph("body").SetInputs([number, going, carried]).SetOutputs([still, total])

    loop = op.Loop("loop").set_input_m(const("trips", np.array(5))).create_dynamic_input_v_initial(1)
    loop.set_dynamic_input_v_initial(0, start).set_subgraph_builder_body(body)
    session.AddGraph(0, ge.Graph().SetInputs([start, step]).SetOutputs([loop]))
    assert session.RunGraph(0, [np.float32([0, 1]), np.float32([2, 3])])[0].tolist() == [10, 16]


def test_ops_of_other_domains_take_part(session: ge.Session) -> None:
    x = data("x", [4])
    gelu = ge.OperatorFactory.CreateOperator("gelu", "com.microsoft::Gelu").SetInput("x", x)
    session.AddGraph(0, ge.Graph().SetInputs([x]).SetOutputs([gelu]))
    oracle = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> '
        "g (float[4] x) => (float[4] y) { y = com.microsoft.Gelu(x) }"
    )
    values = np.array([-2, -0.5, 0.5, 2], np.float32)
    np.testing.assert_allclose(
        session.RunGraph(0, [values])[0], open_ort(oracle).run(None, {"x": values})[0], rtol=1e-5, atol=1e-6
    )


def test_a_model_of_onnx_becomes_a_graph(session: ge.Session, tmp_path: Path) -> None:
    model = in_onnx(CNN_IN_ONNX, CNN)
    onnx.save(model, tmp_path / "cnn.onnx")
    x = RNG.standard_normal((2, 3, 16, 16), np.float32)
    results = []
    for number, source in enumerate((model, tmp_path / "cnn.onnx", str(tmp_path / "cnn.onnx"))):
        graph = ge.aclgrphParseONNX(source)
        assert graph.GetName() == "cnn"
        session.AddGraph(number, graph)
        results.append(session.RunGraph(number, [x])[0].tobytes())
    assert len(set(results)) == 1


def test_a_message_is_copied_when_it_is_parsed(session: ge.Session) -> None:
    model = parser.parse_model('<ir_version: 10, opset_import: ["": 21]> g (float[1] x) => (float[1] y) { y = Neg(x) }')
    graph = ge.aclgrphParseONNX(model)
    model.graph.node[0].op_type = "Exp"
    session.AddGraph(0, graph)
    assert session.RunGraph(0, [np.float32([3])])[0].tolist() == [-3]


def test_what_is_no_model_is_refused_when_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("<!DOCTYPE html>")
    with pytest.raises(ModelInvalid) as caught:
        ge.aclgrphParseONNX(tmp_path / "m.onnx")
    assert caught.value.code == "E10041"
    with pytest.raises(UsageError) as missing:
        ge.aclgrphParseONNX(tmp_path / "nothing.onnx")
    assert missing.value.code == "E10410"


def test_a_package_is_written_with_its_suffix(tmp_path: Path) -> None:
    package = ge.aclgrphBuildModel(cnn(), {"ge.oo.level": "O1"})
    ge.aclgrphSaveModel(tmp_path / "cnn", package)
    ge.aclgrphSaveModel(tmp_path / "same.om", package)
    assert (tmp_path / "cnn.om").read_bytes() == (tmp_path / "same.om").read_bytes() == package
    with pytest.raises(AtcError) as caught:
        ge.aclgrphSaveModel(tmp_path / "no", b"no package")
    assert caught.value.code == "P0001"
    assert not (tmp_path / "no.om").exists()


def test_a_graph_builds_the_same_package_each_time() -> None:
    assert ge.aclgrphBuildModel(cnn()) == ge.aclgrphBuildModel(cnn())


def cycle() -> ge.Graph:
    x = data("x", [2])
    first, second = op.Add("first"), op.Neg("second")
    first.set_input_x1(x).set_input_x2(second)
    second.set_input_x(first)
    return ge.Graph().SetInputs([x]).SetOutputs([second])


def test_a_cycle_is_refused_by_the_compiler(session: ge.Session) -> None:
    session.AddGraph(0, cycle())
    with pytest.raises(ModelInvalid, match=r"first → second|second → first") as caught:
        session.CompileGraph(0)
    assert caught.value.code == "E2100C"
    assert session.IsGraphNeedRebuild(0)


def test_strides_as_ge_writes_them_are_refused(session: ge.Session) -> None:
    x = data("x", [1, 3, 8, 8])
    conv = op.Conv2D("conv").set_input_x(x).set_input_filter(const("w", CNN["w1"])).set_attr_strides([1, 1, 1, 1])
    session.AddGraph(0, ge.Graph().SetInputs([x]).SetOutputs([conv]))
    with pytest.raises(ModelInvalid, match="strides") as caught:
        session.CompileGraph(0)
    assert (caught.value.code, caught.value.where.node) == ("E13014", "conv")


def unlisted_data() -> ge.Graph:
    return ge.Graph().SetOutputs([op.Relu("r").set_input_x(data("x", [2]))])


def untyped_data() -> ge.Graph:
    x = op.Data("x")
    return ge.Graph().SetInputs([x]).SetOutputs([op.Relu("r").set_input_x(x)])


def two_of_one_name() -> ge.Graph:
    x = data("x", [2])
    return ge.Graph().SetInputs([x]).SetOutputs([op.Relu("r").set_input_x(op.Neg("r").set_input_x(x))])


def wrong_indices() -> ge.Graph:
    a, b = data("a", [2]).set_attr_index(1), data("b", [2]).set_attr_index(1)
    return ge.Graph().SetInputs([a, b]).SetOutputs([op.Add("s").set_input_x1(a).set_input_x2(b)])


def body_of_itself() -> ge.Graph:
    x = data("x", [], ge.DT_BOOL)
    graph = ge.Graph()
    chosen = op.If("chosen").set_input_cond(x).set_subgraph_builder_then_branch(lambda: graph)
    chosen.set_subgraph_builder_else_branch(lambda: 3)
    return graph.SetInputs([x]).SetOutputs([chosen])


def unset() -> ge.Graph:
    x = data("x", [2, 2])
    concat = op.Concat("c").create_dynamic_input_inputs(2).set_dynamic_input_inputs(0, x)
    empty = op.Concat("e").set_attr_axis(0)
    return ge.Graph().SetInputs([x]).SetOutputs([op.Conv("conv").set_input_w(x), concat, empty])


@pytest.mark.parametrize(
    ("graph", "problems"),
    [
        (unlisted_data, [("E12009", 'Data "x" is no input of the graph')]),
        (untyped_data, [("E13014", 'the input "x" has no type')]),
        (two_of_one_name, [("E13009", 'two operators are named "r"')]),
        (wrong_indices, [("E13014", "the indices [1, 1]")]),
        (body_of_itself, [("E13014", "not a graph of its own"), ("E13014", "returns 3")]),
        (
            unset,
            [
                ("E12009", 'input "x" is not connected'),
                ("E12009", 'value 1 of input "inputs" is not connected'),
                ("E13014", 'attribute "axis" is required'),
                ("E12009", 'input "inputs" has no values'),
            ],
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_all_that_is_wrong_with_the_operators_is_refused_when_a_graph_is_added(
    graph: Any, problems: list[tuple[str, str]], session: ge.Session
) -> None:
    with pytest.raises(AtcError) as caught:
        session.AddGraph(0, graph())
    found = caught.value.problems
    assert [problem.code for problem in found] == [code for code, _ in problems]
    for problem, (_, text) in zip(found, problems, strict=True):
        assert text in str(problem)
        assert str(problem.where)
    session.AddGraph(0, cnn())  # the id is still free


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (lambda: ge.Graph().SetInputs([op.Relu("r")]), "E10017"),
        (lambda: ge.Graph().SetOutputs(["r"]), "E10003"),
        (lambda: ge.Graph().SetOutputs([(op.Relu("r"), None)]), "E10003"),
        (lambda: ge.Graph().SetOutputs([(op.Relu("r"), 1)]), "E13014"),
        (lambda: ge.aclgrphBuildModel(object()), "E10003"),
        (lambda: ge.aclgrphBuildModel(ge.Graph()), "E16001"),
    ],
)
def test_what_is_no_graph_is_refused(action: Any, code: str) -> None:
    with pytest.raises(AtcError) as caught:
        action()
    assert caught.value.code == code


def test_a_long_chain_is_no_recursion_error() -> None:
    x: Any = data("x", [1])
    last = x
    for index in range(3000):
        last = op.Neg(f"n{index}").set_input_x(last)
    package = ge.aclgrphBuildModel(ge.Graph().SetInputs([x]).SetOutputs([last]))
    assert atcpy.InferenceSession(package).run(None, {"x": np.float32([5])})[0].tolist() == [5]
