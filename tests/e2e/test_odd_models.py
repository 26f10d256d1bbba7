"""Valid models that few programs expect: they convert, and compute what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.ort import open_ort

Make = Callable[[], onnx.ModelProto]


def text(body: str, *, opset: int = 21) -> Make:
    source = f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}'
    return lambda: onnx.parser.parse_model(source)


def build(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int]],
    outputs: list[str],
    constants: dict[str, Array] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def relu_named(value: str, node: str = "n", graph: str = "g") -> Make:
    def make() -> onnx.ModelProto:
        model = build([helper.make_node("Relu", ["x"], [value], name=node)], {"x": [2, 3]}, [value])
        model.graph.name = graph
        return model

    return make


def chain(length: int) -> onnx.ModelProto:
    ops = ["Relu", "Neg", "Abs", "Neg"]
    nodes = [helper.make_node(ops[i % 4], [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(length)]
    return build(nodes, {"x": [7]}, [f"v{length}"])


def fan_out(width: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", f"c{i % 9}"], [f"v{i}"]) for i in range(width)]
    nodes += [helper.make_node("Sum", [f"v{i}" for i in range(k, width, 100)], [f"s{k}"]) for k in range(100)]
    nodes.append(helper.make_node("Sum", [f"s{k}" for k in range(100)], ["y"]))
    return build(nodes, {"x": [4]}, ["y"], {f"c{i}": np.array([i / width], np.float32) for i in range(9)})


def many_ports(count: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(count)]
    return build(nodes, {f"x{i}": [2] for i in range(count)}, [f"y{i}" for i in range(count)])


def without_names() -> onnx.ModelProto:
    model = text("(float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }")()
    for node in model.graph.node:
        node.name = ""
    model.graph.name = ""
    return model


def same_node_names() -> onnx.ModelProto:
    model = text("(float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }")()
    for node in model.graph.node:
        node.name = "same"
    return model


def unsorted() -> onnx.ModelProto:
    model = text("(float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }")()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def initializer_as_input() -> onnx.ModelProto:
    model = build([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"], {"w": np.ones(3, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))
    return model


def output_twice() -> onnx.ModelProto:
    return build(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Identity", ["a"], ["b"])], {"x": [3]}, ["a", "b"]
    )


def rank(count: int) -> Make:
    return lambda: build([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3, *[1] * (count - 2)]}, ["y"])


def with_doc_strings() -> onnx.ModelProto:
    model = relu_named("y")()
    model.doc_string = model.graph.doc_string = model.graph.node[0].doc_string = "\0\x1b[31m" * 1000
    model.metadata_props.add(key="k" * 1000, value="v" * 100_000)
    return model


def conv(x: list[int], w: tuple[int, ...], **attrs: object) -> Make:
    weights = np.random.default_rng(3).standard_normal(w).astype(np.float32)
    return lambda: build([helper.make_node("Conv", ["x", "w"], ["y"], **attrs)], {"x": x}, ["y"], {"w": weights})


NAMES = {
    "unicode": "größe.日本語.🙂",
    "a space": "a b",
    "path": "../../etc/passwd",
    "slashes": "/a//b/",
    "control characters": "a\x1b[31m\r\n\tb",
    "NUL": "a\0b",
    "quotes": "\"'`$(x);|&",
    "format": "%s{0}{{x}}",
    "colon": "y:0",
    "dots": "..",
    "a hundred thousand letters": "n" * 100_000,
    "bidi": "a\u202eb",
    "op's own": "Relu",
    "ours": "NetOutput",
}


def cases() -> Iterator[tuple[str, Make]]:
    for name, value in NAMES.items():
        yield f"value named like {name}", relu_named(value)
        yield f"node and graph named like {name}", relu_named("y", value, value)
    plain: dict[str, Make] = {
        "no node and no graph names": without_names,
        "nodes of one name": same_node_names,
        "nodes in reverse": unsorted,
        "an initializer that is an input": initializer_as_input,
        "a value returned under two names": output_twice,
        "doc strings and metadata": with_doc_strings,
        "an input nobody reads": text("(float[2] x, float[3] z) => (float[2] y) { y = Relu(x) }"),
        "a result nobody reads": text("(float[2] x) => (float[2] y) { y = Relu(x) q = Abs(x) }"),
        "the input is the output": text("(float[2] x) => (float[2] y) { y = Identity(x) }"),
        "one input, two outputs": text("(float[2] x) => (float[2] y, float[2] z) { y = Identity(x) z = Identity(x) }"),
        "constant output": text(
            "(float[2] x) => (float[2] y, float[2] k) { y = Relu(x) k = Constant<value_floats=[1.0, 2.0]>() }"
        ),
        "only constant outputs": text("(float[2] x) => (float[2] k) { k = Constant<value_floats=[1.0, 2.0]>() }"),
        "no inputs": text("() => (float[2] k) { c = Constant<value_floats=[1.0, -2.0]>() k = Abs(c) }"),
        "all folds": text("(float[1] x) => (float[2] y) { c = Constant<value_floats=[1.0, 2.0]>() y = Add(c, c) }"),
        "a result declared otherwise": text("(float[2,3] x) => (float[A,B] y) { y = Relu(x) }"),
        "scalar": text("(float x) => (float y) { y = Relu(x) }"),
        "scalar and vector": text("(float x, float[3] z) => (float[3] y) { y = Mul(x, z) }"),
        "a dim of zero": text("(float[0,3] x) => (float[0,3] y) { y = Relu(x) }"),
        "a dim of zero, reduced": text("(float[0,3] x) => (float[1,3] y) { y = ReduceSum<keepdims=1>(x, a) }"),
        "a dim of zero, joined": text("(float[0,3] x, float[2,3] z) => (float[2,3] y) { y = Concat<axis=0>(x, z) }"),
        "a dim of zero in a product": lambda: build(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2, 0]}, ["y"], {"w": np.ones((0, 3), np.float32)}
        ),
        "no pictures": conv([0, 3, 8, 8], (4, 3, 3, 3)),
        "rank 8": rank(8),
        "rank 12": rank(12),
        "optional inputs left out": lambda: build(
            [helper.make_node("Clip", ["x", "", "m"], ["y"])], {"x": [4]}, ["y"], {"m": np.array(0.5, np.float32)}
        ),
        "trailing empty inputs": lambda: build([helper.make_node("Clip", ["x", "", ""], ["y"])], {"x": [4]}, ["y"]),
        "ai.onnx spelt out": lambda: build(
            [helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")], {"x": [4]}, ["y"]
        ),
        "a value added to itself": text("(float[3] x) => (float[3] y) { y = Add(x, x) }"),
        "concat of one": text("(float[3] x) => (float[3] y) { y = Concat<axis=0>(x) }"),
        "concat of one value many times": lambda: build(
            [helper.make_node("Concat", ["x"] * 300, ["y"], axis=0)], {"x": [2, 3]}, ["y"]
        ),
        "sum of one": text("(float[3] x) => (float[3] y) { y = Sum(x) }"),
        "transpose of nothing": text("(float[3,4] x) => (float[3,4] y) { y = Transpose<perm=[0,1]>(x) }"),
        "split into one": text("(float[4] x) => (float[4] y) { y = Split<axis=0, num_outputs=1>(x) }"),
        "split with unread parts": text("(float[6] x) => (float[2] b) { a, b, c = Split<axis=0, num_outputs=3>(x) }"),
        "conv of one pixel": conv([1, 1, 1, 1], (1, 1, 1, 1)),
        "conv with a step beyond the picture": conv([1, 3, 4, 4], (2, 3, 1, 1), strides=[9, 9]),
        "conv dilated to the edge": conv([1, 2, 9, 9], (3, 2, 3, 3), dilations=[4, 4]),
        "conv mostly padding": conv([1, 2, 2, 2], (3, 2, 3, 3), pads=[5, 6, 7, 8]),
        "conv on one side": conv([1, 2, 5, 5], (3, 2, 3, 3), pads=[2, 0, 0, 1], strides=[2, 3]),
        "conv of 17 channels in groups": conv([1, 34, 5, 5], (17, 2, 3, 3), group=17),
        "conv in one dim": conv([1, 3, 9], (4, 3, 3)),
        "conv in three dims": conv([1, 2, 4, 4, 4], (3, 2, 2, 2, 2)),
        "chain of 5000": lambda: chain(5000),
        "fan-out of 5000": lambda: fan_out(5_000),
        "500 inputs and outputs": lambda: many_ports(500),
    }
    yield from plain.items()


CASES = dict(cases())


def feeds_for(session: onnxruntime.InferenceSession) -> dict[str, Array]:
    rng = np.random.default_rng(11)
    return {port.name: rng.uniform(-1, 1, port.shape).astype(np.float32) for port in session.get_inputs()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name.endswith("of 5000") else ()) for name in CASES]
)
def test_an_odd_model_computes_what_onnxruntime_computes(name: str, tmp_path: Path) -> None:
    model = CASES[name]()
    if name == "a dim of zero, reduced":
        model.graph.initializer.append(numpy_helper.from_array(np.array([0], np.int64), "a"))
    judged = onnx.ModelProto()
    judged.CopyFrom(model)
    for node in judged.graph.node:
        node.ClearField("name")  # onnxruntime refuses two nodes of one name
    oracle = open_ort(judged)
    feeds = feeds_for(oracle)
    expected = oracle.run(None, feeds)

    compiled, _ = compile_model(model, convert_options({}))
    session = InferenceSession(writer.to_bytes(compiled), threads=2)
    assert [port.name for port in session.get_outputs()] == [port.name for port in oracle.get_outputs()]
    for mine, theirs in zip(session.run(None, feeds), expected, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 40
