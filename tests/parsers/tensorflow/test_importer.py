"""Import of graphs: names, functions and problems."""

import re
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow import import_tensorflow
from atcpy.parsers.tensorflow.op import MAPPINGS
from atcpy.parsers.tensorflow.signatures import registry
from tests.parsers.tensorflow.graphs import TfBuilder, Type


def test_a_small_network_keeps_the_names_of_the_graph(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 9, 7, 3)).astype(np.float32)
    w = rng.standard_normal((3, 2, 3, 5)).astype(np.float32)
    g = TfBuilder()
    data = g.input("x", "float32", (None, 9, 7, 3))
    conv = g.add("Conv2D", data, g.const(w), name="conv", strides=[1, 2, 1, 1], padding="SAME")
    g.add("Relu", g.add("BiasAdd", conv, g.const(rng.standard_normal(5).astype(np.float32), name="b")), name="y")
    (y,) = g.run(tmp_path, {"x": x}, "y")
    session = atcpy.InferenceSession(str(tmp_path / "model.om"))
    assert [i.name for i in session.get_inputs()] == ["x"]
    assert [o.name for o in session.get_outputs()] == ["y:0"]
    bias = session.run(["y:0"], {"x": np.zeros_like(x)})[0][0, 0, 0]
    padded = np.pad(x, ((0, 0), (1, 1), (0, 1), (0, 0)))
    expected = np.zeros((2, 5, 7, 5), np.float32)
    for row in range(5):
        for column in range(7):
            window = padded[:, 2 * row : 2 * row + 3, column : column + 2]
            expected[:, row, column] = np.einsum("nijc,ijco->no", window, w)
    assert np.allclose(y, np.maximum(expected + _bias(g), 0), atol=1e-4)
    assert (bias == np.maximum(_bias(g), 0)).all()


def _bias(g: TfBuilder) -> np.ndarray:
    return np.frombuffer(next(n for n in g.graph.node if n.name == "b").attr["value"].tensor.tensor_content, np.float32)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (2, 3))
    g.add("Reluu", x, name="typo")
    g.add("Softmax", "nowhere", name="open")
    with pytest.raises(AtcError, match="nowhere") as caught:
        g.run(tmp_path, {}, "typo", "open")
    assert caught.value.code == "E12009"
    g.graph.node[-1].input[0] = x
    g.add("Add", x, g.const(np.zeros((2, 4), np.float32)), name="misfit", T=Type("float32"))
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "typo", "misfit")
    assert [problem.code for problem in caught.value.problems] == ["E19010", "EZ8888"]
    assert 'Reluu (1, as "typo"; there is Relu)' in str(caught.value)


def test_a_bias_after_16_bit_weights_with_shapes_inferred_late(tmp_path: Path) -> None:
    g = TfBuilder()
    x = np.linspace(-1, 1, 8, dtype="float16").reshape(2, 4)
    w = np.linspace(-2, 2, 12, dtype="float16").reshape(4, 3)
    bias = g.const(np.array([1, 2, 3], "float16"))
    g.add("BiasAdd", g.add("MatMul", g.input("x", "float16", None), g.const(w)), bias, name="y")
    (y,) = g.run(tmp_path, {"x": x}, "y")
    np.testing.assert_allclose(y, x @ w + np.array([1, 2, 3], "float16"), rtol=2e-3)


def test_required_constants_may_be_computed_from_constants(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", [2, 3])
    last = g.add(
        "SelectV2",
        g.const(np.array(-1) >= 0),
        g.const(-1, "int32"),
        g.add("Sub", g.const(2, "int32"), g.const(1, "int32")),
    )
    g.add("ConcatV2", x, x, last, name="y")
    array = np.arange(6, dtype="float32").reshape(2, 3)
    (y,) = g.run(tmp_path, {"x": array}, "y")
    np.testing.assert_array_equal(y, np.concatenate([array, array], 1))


@pytest.mark.parametrize(
    ("reads", "message"),
    [
        ("y", 'it reads "y", which needs it: a cycle'),
        ("next", 'it reads "next", which needs it: a cycle'),
        ("x:1", 'it reads output 1 of "x"'),
        ("x:²", '"x:²" is read, which the graph does not have'),
        ("x:" + "9" * 5000, "is read, which the graph does not have"),
        ("x:-1", '"x:-1" is read, which the graph does not have'),
    ],
)
def test_unreadable_models_are_reported(tmp_path: Path, reads: str, message: str) -> None:
    g = TfBuilder()
    g.input("x", "float32", (2,))
    g.add("Neg", reads, name="y")
    g.add("Abs", "y", name="next")
    with pytest.raises(AtcError, match=message):
        g.run(tmp_path, {}, "next")


def test_import_infers_types_of_the_main_graph_but_not_of_bodies(tmp_path: Path) -> None:
    g, body = TfBuilder(), TfBuilder()
    x, p = g.input("x", "float32", (None, 3)), g.input("p", "bool", ())
    squared = g.function("f", body, {"a": "float32"}, body.add("SquaredDifference", "a", "a"))
    either = g.add("StatelessIf", p, x, Tin=[Type("float32")], Tout=[Type("float32")], then_branch=squared,
                   else_branch=squared)  # fmt: skip
    g.add("Relu", g.add("Shape", either, out_type=Type("int32")), name="y")
    path = tmp_path / "model.pb"
    path.write_bytes(g.graph.SerializeToString())
    graph = import_tensorflow(path, ParseOptions()).graph
    assert graph.inferred is not None
    inferred = {node.op_type for node in graph.inferred.nodes}
    assert inferred == {"Shape", "Cast", "Relu"}
    assert all(node.graph is graph and node.inputs == read for node, read in graph.inferred.nodes.items())
    assert {value.producer.graph for value in graph.inferred.elements} <= {graph}


def test_every_mapped_op_of_tensorflow_is_in_the_registry() -> None:
    """Without a row the number of a node's inputs is not checked, and attributes that were left out have no default."""
    others = re.compile(r"Hcom|Horovod|_Gelu")  # ops of Ascend, of Horovod, and the name that fused graphs give
    assert [op for op in MAPPINGS if op not in registry() and not others.match(op)] == []


def test_a_node_without_inputs_that_it_needs_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("Identity", g.add("BatchSelfAdjointEigV2", name="eig"), name="y")
    with pytest.raises(AtcError, match="0 inputs") as caught:
        g.converted(tmp_path, "y")
    assert caught.value.where.node == "eig"
