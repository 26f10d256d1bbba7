import numpy as np
import onnx
import pytest
from onnx import helper

from atcpy.errors import AtcError, ModelInvalid, ResourceLimit
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from tests.parsers.onnx.canonical import Array, assert_same_meaning, ops_of, parsed

HEAD = '<ir_version: 8, opset_import: ["" : 17, "d" : 1]>'
X: dict[str, Array] = {"x": np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)}


def call_chain(depth: int, calls: int = 1) -> onnx.ModelProto:
    """A model in which F0 calls F1 `calls` times, F1 calls F2 …; the last function is a Neg."""
    graph = helper.make_graph(
        [helper.make_node("F0", ["x"], ["y"], domain="d")],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [helper.make_tensor_value_info("y", 1, [2, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    for level in range(depth):
        last = level == depth - 1
        names = ["a", *(f"t{i}" for i in range(calls - 1)), "b"]
        nodes = [
            helper.make_node("Neg" if last else f"F{level + 1}", [names[i]], [names[i + 1]], domain="" if last else "d")
            for i in range(calls)
        ]
        model.functions.append(helper.make_function("d", f"F{level}", ["a"], ["b"], nodes, opsets))
    return model


def test_calls_are_inlined_with_their_attributes() -> None:
    text = f"""{HEAD} g (float[2,3] x) => (float[2,3] y) {{
        [first] t = d.f<slope = 0.25>(x)
        [second] y = d.f(t) }}
        <domain: "d", opset_import: ["" : 17]>
        f <slope: float = 0.5>(a) => (c) {{ [leaky] b = LeakyRelu<alpha : float = @slope>(a) [neg] c = Neg(b) }}"""
    graph = assert_same_meaning(text, X)
    nodes = [node for node in graph.nodes if node.op_type not in ("Data", "NetOutput")]
    assert [(node.name, node.output.name) for node in nodes] == [
        ("first/leaky", "first/b"), ("first/neg", "t"), ("second/leaky", "second/b"), ("second/neg", "y"),
    ]  # fmt: skip
    assert [node.attrs for node in nodes if node.op_type == "LeakyRelu"] == [{"alpha": 0.25}, {"alpha": 0.5}]
    assert nodes[0].sources == ("first/leaky",)


def test_a_function_may_import_another_opset_only_if_its_ops_mean_the_same() -> None:
    error = refused(f"""{HEAD} g (float[2,3] x) => (float[2] y) {{ y = d.f(x) }}
        <domain: "d", opset_import: ["" : 11]> f (a) => (b) {{ b = Softmax<axis = 0>(a) }}""")
    assert "FunctionOp imports version 11 whereas model imports version 17" in error.what
    text = f"""{HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = d.f(x) }}
        <domain: "d", opset_import: ["" : 16]> f (a) => (b) {{ b = Softmax<axis = 0>(a) }}"""
    assert ops_of(parsed(text).graph) == ["Softmax"]


def test_omitted_and_forwarded_inputs_and_outputs() -> None:
    text = f"""{HEAD} g (float[2,3] x) => (float[2,3] y, float[2,3] z) {{
        one, , two = d.f(x) y = Neg(one) z = Abs(two) }}
        <domain: "d", opset_import: ["" : 17]>
        f (a, low) => (a, unused, c) {{ unused = Exp(a) c = Clip(a, low) }}"""
    model = onnx.parser.parse_model(text)
    graph = parsed(model).graph
    assert ops_of(graph) == ["Exp", "Clip", "Identity", "Neg", "Abs"]
    clip = next(node for node in graph.nodes if node.op_type == "Clip")
    assert clip.input_count == 1


def test_subgraphs_in_functions_read_outer_values_and_attributes() -> None:
    text = f"""{HEAD} g (float[2,3] x, bool c) => (float[2,3] y) {{ y = d.f<k = 0.25>(x, c) }}
        <domain: "d", opset_import: ["" : 17]>
        f <k>(a, c) => (r) {{ b = Neg(a) r = If (c) <
            then_branch = t () => (u) {{ u = LeakyRelu<alpha : float = @k>(b) }},
            else_branch = e () => (u) {{ u = Identity(a) }}> }}"""
    text = text.replace("f <k>", "f <k>")
    for flag in (True, False):
        assert_same_meaning(text, {**X, "c": np.array(flag)})


def test_two_hundred_and_fifty_six_levels_are_inlined_and_one_more_is_not() -> None:
    assert ops_of(parsed(call_chain(256)).graph) == ["Neg"]
    with pytest.raises(ResourceLimit, match="nested 257 deep, the limit is 256"):
        import_onnx(call_chain(257), ParseOptions())


def test_calls_that_multiply_are_counted_before_they_are_inlined() -> None:
    assert len(ops_of(parsed(call_chain(3, calls=10)).graph)) == 1000
    with pytest.raises(ResourceLimit, match="nodes when its functions are inlined"):
        import_onnx(call_chain(12, calls=10), ParseOptions())


def refused(text: str) -> AtcError:
    with pytest.raises(ModelInvalid) as raised:
        import_onnx(onnx.parser.parse_model(text), ParseOptions())
    return raised.value


def test_mutually_recursive_functions_are_refused() -> None:
    error = refused(f"""{HEAD} g (float x) => (float y) {{ y = d.f(x) }}
        <domain: "d", opset_import: ["" : 17, "d" : 1]> f (a) => (b) {{ b = d.h(a) }}
        <domain: "d", opset_import: ["" : 17, "d" : 1]> h (a) => (b) {{ b = d.f(a) }}""")
    assert (error.code, error.what) == ("E2100C", "functions call each other in a cycle: f → h → f")


def test_a_function_defined_twice_is_refused() -> None:
    definition = '<domain: "d", opset_import: ["" : 17]> f (a) => (b) { b = Neg(a) }'
    error = refused(f"{HEAD} g (float x) => (float y) {{ y = d.f(x) }} {definition} {definition}")
    assert error.code == "E13009"


def test_problems_inside_a_function_name_the_call() -> None:
    error = refused(f"""{HEAD} g (float x) => (float y) {{ [here] y = d.f(x, x) }}
        <domain: "d", opset_import: ["" : 17]> f (a) => (b) {{ [inner] b = Neg<beta = 1>(nothing) }}""")
    assert {(problem.code, str(problem.where)) for problem in error.problems} == {
        ("E13014", 'g/node "here" (#0, f)'),
        ("E13014", 'g/f/node "inner" (#0, Neg)'),
        ("E12009", 'g/f/node "inner" (#0, Neg), input 0 "nothing"'),
    }
