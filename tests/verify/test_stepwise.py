"""Large models are run in pieces, with the same results and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import atcpy
from atcpy.errors import AtcError
from atcpy.rewrite import optimize
from atcpy.rewrite.export import Constant
from atcpy.verify import rewritten, sessions, stepwise
from atcpy.verify.stepwise import Stepwise
from tests.ort import open_ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '
TEXT = """g (float[2,4] x) => (float[2,4] y, float[2,4] early)
<float[4] w = {1, 2, 3, 4}> {
  a = Add(x, w) early = Relu(a) b = Mul(a, w) c = Sub(b, early) d = Identity(c) e, f = Split<axis = 1>(d)
  g1 = Concat<axis = 1>(e, f) h = Tanh(g1) i = Add(h, a) y = Mul(i, w)
}"""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[onnx.ModelProto]:
    """Treat every model as large; return the models that sessions were opened for."""
    models: list[onnx.ModelProto] = []
    session = sessions.open_session

    def noted(model: bytes, *arguments: Any, **more: Any) -> Any:
        models.append(onnx.ModelProto.FromString(model))
        return session(model, *arguments, **more)

    monkeypatch.setattr(stepwise, "LARGE", 2)
    for module in (rewritten, sessions):
        monkeypatch.setattr(module, "open_session", noted)
    return models


def open_model(model: bytes) -> onnxruntime.InferenceSession:
    return open_ort(model, optimized=True)


def stepwise_of(model: onnx.ModelProto) -> Stepwise:
    return Stepwise(model, {tensor.name: Constant(tensor) for tensor in model.graph.initializer}, open_model)


def random_feeds(model: onnx.ModelProto) -> dict[str, Any]:
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return {name: np.random.default_rng(0).standard_normal(shape, np.float32) for name, shape in shapes.items()}


def test_equal_nodes_share_one_session(
    opened: list[onnx.ModelProto], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepwise, "LONGEST", 1)
    body = " ".join(f"v{i + 1} = {('Neg', 'Exp', 'Sin')[i % 3]}(v{i})" for i in range(60))
    text = f"{HEAD} g (float[2] v0) => (float[2] y) {{ {body} y = Neg(v60) }}"
    report = atcpy.optimize(onnx.parser.parse_model(text), tmp_path / "out.onnx")
    assert report.verified and report.max_abs == 0
    assert report.after.nodes == 61
    assert all(len(model.graph.node) == 1 for model in opened)
    assert len(opened) == 3  # the optimized model contains no new kinds of nodes


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        # omitted inputs, unused outputs, inputs that are read twice
        """g (float[1,1,8] x) => (float[1,1,4] y) <float one = {1}> {
           a = Add(x, x) b = Clip(a, , one) c, mask = Dropout(b)
           d, where = MaxPool<kernel_shape = [2], strides = [2]>(c) y = Relu(d) }""",
        # bodies that capture outer values
        """g (float[3] x) => (float[3] y) <int64 n = {3}> {
           go = Constant<value = bool {1}>()
           t = Neg(x)
           y = Loop<body = b (int64 i, bool c, float[3] v) => (bool c2, float[3] w) { c2 = Identity(c) w = Add(v, t) }>
               (n, go, x) }""",
        # sequences
        """g (float[4] x) => (float[4] y) {
           z = Constant<value_int = 0>() a, b = Split<axis = 0>(x) s = SequenceConstruct(a, b)
           p = SequenceAt(s, z) q = Neg(p) t = SequenceInsert(s, q) u = ConcatFromSequence<axis = 0>(s)
           k = SequenceLength(t) l = Cast<to = 1>(k) y = Mul(u, l) }""",
        # constants that an op needs when the session is created, and a constant output
        """g (float[1,1,2,2] x) => (float[1,1,4,4] y, float[4] k) <float[4] scales = {1, 1, 2, 2}> {
           y = Resize<mode = "nearest">(x, , scales) k = Constant<value = float[4] {1, 2, 3, 4}>() }""",
    ],
    ids=["plain", "left-out", "loop", "sequence", "constants"],
)  # fmt: skip
@pytest.mark.parametrize("nodes", [1, 2, 3, 100])
def test_results_agree_with_running_the_whole_model(text: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("SHORTEST", "LONGEST"):
        monkeypatch.setattr(stepwise, bound, nodes)
    monkeypatch.setattr(stepwise, "OFTEN", 1)
    model = onnx.parser.parse_model(HEAD + text)
    feeds = random_feeds(model)
    names = [info.name for info in model.graph.output]
    steps = stepwise_of(model)
    whole = open_model(model.SerializeToString()).run(names, feeds)
    for ours, theirs in zip(steps.run(names, feeds), whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_equal_pieces_share_one_session(opened: list[onnx.ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("SHORTEST", "LONGEST"):
        monkeypatch.setattr(stepwise, bound, 6)
    monkeypatch.setattr(stepwise, "OFTEN", 3)
    layers = [f"a{i} = Mul(v{i}, w) b{i} = Exp(a{i}) v{i + 1} = Sub(b{i}, v{max(i - 1, 0)})" for i in range(40)]
    body = " ".join(layers).replace("Exp(a7)", "Sin(a7)")
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[2] v0) => (float[2] v40) <float[2] w = {{0.1, 0.2}}> {{ {body} }}"
    )
    feeds = random_feeds(model)
    constants = {tensor.name: Constant(tensor) for tensor in model.graph.initializer}
    found = Stepwise(model, constants, rewritten.open_session).run(["v40"], feeds)
    np.testing.assert_array_equal(found, open_model(model.SerializeToString()).run(["v40"], feeds))
    # One piece of two layers, and the single nodes where pieces differ: the first ones and the Sin.
    assert sorted(len(model.graph.node) for model in opened) == [1, 1, 1, 1, 6]


def test_equal_layers_are_split_into_equal_pieces(opened: list[onnx.ModelProto]) -> None:
    """Even if the nodes before them do not fill a whole piece."""
    ops = "Neg Sin Abs Tanh Cos Neg Sigmoid Cos Abs Exp Neg Tanh Sin Sin Relu Abs Cos Sigmoid Neg Sigmoid Tanh".split()  # noqa: SIM905
    chain = ["Relu"] * 5 + ops * 12
    body = " ".join(f"v{i + 1} = {op}(v{i})" for i, op in enumerate(chain))
    model = onnx.parser.parse_model(f"{HEAD} g (float[7] v0) => (float[7] v{len(chain)}) {{ {body} }}")
    feeds, names = random_feeds(model), [f"v{len(chain)}"]
    found = Stepwise(model, {}, rewritten.open_session).run(names, feeds)
    np.testing.assert_array_equal(found, open_model(model.SerializeToString()).run(names, feeds))
    stretches = [len(model.graph.node) for model in opened if len(model.graph.node) > 1]
    assert 1 <= len(stretches) <= 2
    assert min(stretches) >= stepwise.SHORTEST


@pytest.mark.parametrize(
    "name",
    "FLOAT DOUBLE FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL STRING".split(),  # noqa: SIM905
)
def test_constants_of_all_dtypes(name: str) -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[1] x) => ({name.lower()}[2] y) {{ y = Identity(w) }}")
    kind, elements = onnx.TensorProto.DataType.Value(name), ["a", "b"] if name == "STRING" else [0, 1]
    model.graph.initializer.append(onnx.helper.make_tensor("w", kind, [2], elements))
    raw = numpy_helper.from_array(numpy_helper.to_array(model.graph.initializer[0]), "w")
    for _ in range(2):
        (found,) = stepwise_of(model).run(["y"], {"x": np.zeros(1, np.float32)})
        np.testing.assert_array_equal(found, numpy_helper.to_array(raw))
        model.graph.initializer[0].CopyFrom(raw)  # the elements as bytes


@pytest.mark.parametrize(("op", "count"), [("Sum", 20), ("Max", 5), ("Min", 6), ("Concat<axis = 0>", 23), ("Mean", 20)])
def test_nodes_with_very_many_inputs_are_split(
    op: str, count: int, opened: list[onnx.ModelProto], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepwise, "WIDE", 5)
    nodes = " ".join(f"v{i} = Sin(v{i - 1})" for i in range(1, count))
    inputs = ", ".join(f"v{i}" for i in range(count))
    model = onnx.parser.parse_model(f"{HEAD} g (float[7] v0) => (float[N] y) {{ {nodes} y = {op}({inputs}) }}")
    feeds = random_feeds(model)
    whole = open_model(model.SerializeToString()).run(["y"], feeds)
    np.testing.assert_array_equal(Stepwise(model, {}, rewritten.open_session).run(["y"], feeds), whole)
    assert max(len(each.graph.input) for each in opened) == (count if op == "Mean" else 5)


@pytest.mark.parametrize("body", ["y = Relu(b) b = Relu(x)", "y = Relu(nothing)", "b = Relu(x)"])
def test_values_read_before_they_are_computed_are_refused(body: str) -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ {body} }}")
    with pytest.raises(AtcError, match="before they are computed"):
        stepwise_of(model).run(["y"], random_feeds(model))


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_wrong_declared_type_is_refused(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("SHORTEST", "LONGEST"):
        monkeypatch.setattr(stepwise, bound, nodes)
    monkeypatch.setattr(stepwise, "OFTEN", 1)
    model = onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) <int64[2] a> {{ a = Neg(x) y = Neg(a) }}")
    with pytest.raises(AtcError, match=r"\"a\" is tensor\(float\), the model says tensor\(int64\)"):
        stepwise_of(model).run(["y"], random_feeds(model))


# --------------------------------------------------------------------------------------------------------------------
# Wrong rewrites


def _another_op(model: onnx.ModelProto, constants: list[Constant]) -> None:
    model.graph.node[150].op_type = "Ceil"


def _another_attribute(model: onnx.ModelProto, constants: list[Constant]) -> None:
    for node in model.graph.node:
        if node.op_type == "LeakyRelu":
            node.attribute[0].f += 1e-2


def _another_constant(model: onnx.ModelProto, constants: list[Constant]) -> None:
    array = numpy_helper.to_array(constants[0].proto).copy()
    array.reshape(-1)[-1] += 1e-2
    constants[0] = Constant(numpy_helper.from_array(array, constants[0].proto.name))


def _another_input(model: onnx.ModelProto, constants: list[Constant]) -> None:
    model.graph.node[150].input[0] = model.graph.node[120].output[0]


def _swapped_inputs(model: onnx.ModelProto, constants: list[Constant]) -> None:
    node = next(node for node in model.graph.node if node.op_type == "Sub")
    names = [*node.input]
    del node.input[:]
    node.input.extend(reversed(names))


def _missing_node(model: onnx.ModelProto, constants: list[Constant]) -> None:
    node = model.graph.node[150]
    model.graph.node[151].input[0] = node.input[0]
    del model.graph.node[150]


@pytest.mark.parametrize(
    "spoil",
    [_another_op, _another_attribute, _another_constant, _another_input, _swapped_inputs, _missing_node],
)
@pytest.mark.parametrize("longest", [1, 64])
def test_a_wrong_rewrite_inside_a_large_model_is_detected(
    spoil: Callable[[onnx.ModelProto, list[Constant]], None],
    longest: int,
    opened: list[onnx.ModelProto],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(stepwise, "LONGEST", longest)
    # No op attenuates: a difference in one value changes all later ones.
    ops = ("Sin(v{})", "Sub(w, v{})", "LeakyRelu<alpha = 0.9>(v{})", "Neg(v{})", "Mul(v{}, k)")
    body = " ".join(f"v{i + 1} = {ops[i % 5].format(i)}" for i in range(300))
    constants = "float[8] w = {-4, -3, -2, -1, 1, 2, 3, 4}, float k = {1.3}"
    text = f"{HEAD} g (float[8] v0) => (float[8] v300) <{constants}> {{ {body} }}"
    export = optimize.export_rewritten
    spoilt: list[object] = []

    def wrong(*arguments: Any, **options: Any) -> Any:
        result = export(*arguments, **options)
        spoil(result.model, result.constants)
        spoilt.append(result)
        return result

    model = onnx.parser.parse_model(text)
    assert atcpy.optimize(model, tmp_path / "right.onnx").verified
    monkeypatch.setattr(optimize, "export_rewritten", wrong)
    opened.clear()
    with pytest.raises(AtcError) as refused:
        atcpy.optimize(model, tmp_path / "wrong.onnx")
    assert refused.value.code == "V0001"
    assert spoilt
    assert not (tmp_path / "wrong.onnx").exists()


def test_models_that_cannot_run_in_pieces_are_run_whole(opened: list[onnx.ModelProto], tmp_path: Path) -> None:
    """ONNX Runtime accepts no bfloat16 arrays of numpy."""
    text = f"""{HEAD} g (float[2] x) => (float[2] y) {{
        a = Cast<to = 16>(x) b = Cast<to = 1>(a) c = Sin(b) d = Cast<to = 16>(c) y = Cast<to = 1>(d) }}"""
    report = atcpy.optimize(onnx.parser.parse_model(text), tmp_path / "out.onnx")
    assert report.verified
    assert any(len(model.graph.node) > 1 for model in opened)
