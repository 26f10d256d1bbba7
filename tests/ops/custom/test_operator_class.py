"""Operators as CANN's article writes them, and fusion optimizers: `examples/custom_ops/article.py`."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import atcpy
from atcpy import custom_op as cop
from atcpy.errors import AtcError, CustomOpError
from tests.ops.custom.models import model, module
from tests.sources import REPO

pytestmark = pytest.mark.usefixtures("no_custom_ops")
ARTICLE = REPO / "examples" / "custom_ops" / "article.py"
RNG = np.random.default_rng(5)
ADD_RELU = "g (float[2,3] x, float[2,3] y) => (float[2,3] z) { a = Neg(x) s = Add(a, y) r = Relu(s) z = Neg(r) }"


@pytest.fixture
def article(no_custom_ops: None) -> ModuleType:
    """The article's operators, registered for the process; its optimizer is not."""
    text = ARTICLE.read_text(encoding="utf-8").partition("@atcpy.register_fusion_optimizer")[0]
    spec = importlib.util.spec_from_loader("article", loader=None)
    assert spec
    found = importlib.util.module_from_spec(spec)
    exec(compile(text, str(ARTICLE), "exec"), vars(found))
    return found


def weights() -> dict[str, Any]:
    """The constructor's arguments of FusedConvBN."""
    names = ("bn_weight", "bn_bias", "bn_mean")
    return {
        "conv_weight": RNG.standard_normal((4, 3, 2, 3), np.float32),
        "conv_bias": RNG.standard_normal(4, np.float32),
        **{name: RNG.standard_normal(4, np.float32) for name in names},
        "bn_var": RNG.random(4, np.float32) + np.float32(0.5),
    }


def conv_bn(x: Any, values: dict[str, Any]) -> Any:
    """Conv and BatchNormalization by ONNX Runtime."""
    text = """g (float[n,3,h,w] x, float[4,3,2,3] conv_weight, float[4] conv_bias, float[4] bn_weight, float[4] bn_bias,
        float[4] bn_mean, float[4] bn_var) => (float[n,4,a,b] y) {
        c = Conv(x, conv_weight, conv_bias) y = BatchNormalization(c, bn_weight, bn_bias, bn_mean, bn_var) }"""
    session = onnxruntime.InferenceSession(model(text).SerializeToString())
    return session.run(None, {"x": x, **values})[0]


@pytest.mark.usefixtures("article")
def test_the_operators_of_the_article_compute_as_objects() -> None:
    x, y = RNG.standard_normal((32, 64)), RNG.standard_normal((32, 64))
    fused = cop.FusedAddReLU()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(fused.forward(x, y), np.maximum(x + y, 0))
    grads = fused.backward(np.full((32, 64), 2.0))
    for grad in grads:
        np.testing.assert_array_equal(grad, np.where(x + y > 0, 2.0, 0.0))

    values = weights()
    image = RNG.standard_normal((2, 3, 5, 6), np.float32)
    found = cop.FusedConvBN(*values.values()).forward(image)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, conv_bn(image, values), rtol=1e-5, atol=1e-5)


def test_the_module_has_the_registered_classes_alone(article: ModuleType) -> None:
    assert cop.FusedAddReLU is article.FusedAddReLU  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no operator of that name is registered"):
        _ = cop.Nothing  # type: ignore[attr-defined]


def test_a_node_of_the_article_s_operator_runs(tmp_path: Path, article: ModuleType) -> None:
    text = "g (float[2,3] x, float[3] y) => (float[2,3] z) { a = Neg(x) r = my.dom.FusedAddReLU(a, y) z = Neg(r) }"
    atcpy.convert(model(text), tmp_path / "m.om")
    x, y = RNG.standard_normal((2, 3), np.float32), RNG.standard_normal(3, np.float32)
    [z] = atcpy.InferenceSession(tmp_path / "m.om", threads=1).run(None, {"x": x, "y": y})
    np.testing.assert_array_equal(z, -np.maximum(y - x, 0))
    atcpy.check_operator(article.FusedAddReLU, x, x[::-1].copy())


WEIGHTS = ", ".join(f"float[{shape}] {name}" for name, shape in {"conv_weight": "4,3,2,3", "conv_bias": "4"}.items())


@pytest.mark.usefixtures("article")
@pytest.mark.parametrize("size", ["2", "n"])
def test_weights_are_inputs_behind_those_of_forward(tmp_path: Path, size: str) -> None:
    values = weights()
    names = ", ".join(values)
    text = f"g (float[{size},3,5,6] x) => (float[{size},4,4,4] z) {{ a = Neg(x) "
    text += f"r = my.dom.FusedConvBN<eps = 0.00001>(a, {names}) z = Neg(r) }}"
    proto = model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    atcpy.convert(proto, tmp_path / "m.om")
    x = RNG.standard_normal((2, 3, 5, 6), np.float32)
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    [z] = session.run(None, {"x": x})
    np.testing.assert_allclose(z, -conv_bn(-x, values), rtol=1e-5, atol=1e-5)
    assert session.get_outputs()[0].shape[1:] == (4, 4, 4)  # as `forward` gave them


@pytest.mark.usefixtures("article")
def test_weights_are_attributes(tmp_path: Path) -> None:
    values = weights()
    proto = model("g (float[2,3,5,6] x) => (float[2,4,4,4] z) { a = Neg(x) z = my.dom.FusedConvBN(a) }")
    proto.graph.node[1].attribute.extend(
        onnx.helper.make_attribute(name, numpy_helper.from_array(value)) for name, value in values.items()
    )
    atcpy.convert(proto, tmp_path / "m.om")
    x = RNG.standard_normal((2, 3, 5, 6), np.float32)
    [z] = atcpy.InferenceSession(tmp_path / "m.om", threads=1).run(None, {"x": x})
    np.testing.assert_allclose(z, conv_bn(-x, values), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("article")
@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("my.dom.FusedConvBN(a)", "missing 6 required positional arguments"),
        ("my.dom.FusedAddReLU<alpha = 1.0>(a, a)", "unexpected keyword argument 'alpha'"),
    ],
)
def test_what_the_constructor_does_not_take_is_refused(tmp_path: Path, node: str, why: str) -> None:
    with pytest.raises(CustomOpError, match=why) as caught:
        atcpy.convert(model(f"g (float[2,3] x) => (float[2,3] z) {{ a = Neg(x) z = {node} }}"), tmp_path / "m.om")
    assert caught.value.code == "C0001"


def test_inputs_are_kept_unless_the_object_has_such_attributes() -> None:
    class Scaled(cop.Operator):
        def __init__(self) -> None:
            self.scale = 3.0

        def forward(self, x: Any, scale: Any = 1.0) -> Any:
            return x * self.scale

    scaled = Scaled()
    assert scaled(2.0, 5.0) == 6.0
    assert (scaled.x, scaled.scale) == (2.0, 3.0)  # type: ignore[attr-defined]
    assert scaled(4.0) == 12.0
    assert scaled.x == 4.0  # type: ignore[attr-defined]


def test_each_call_of_a_graph_has_an_object_of_its_own(tmp_path: Path) -> None:
    both_inside = threading.Barrier(2, timeout=30)

    @cop.register_operator("Slow")
    class Slow(cop.Operator):
        def infer(self, x: Any) -> Any:
            return x

        def forward(self, x: Any) -> Any:
            self.doubled = 2 * x
            both_inside.wait()
            return self.doubled

    atcpy.convert(model("g (float[2] x) => (float[2] z) { a = Neg(x) z = my.dom.Slow(a) }"), tmp_path / "m.om")
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        results[number] = session.run(None, {"x": np.full(2, number, np.float32)})[0]

    threads = [threading.Thread(target=run, args=(number,)) for number in (1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (1, 5):
        np.testing.assert_array_equal(results[number], np.full(2, -2 * number))


def test_types_of_open_sizes_come_from_several_calls(tmp_path: Path) -> None:
    @cop.register_operator("Halves")
    class Halves:
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return np.concatenate([x, x])[: x.shape[0], :2], y[::2] @ x.T.astype(np.float64)[: y.shape[1]]

    text = "g (float[n,4] x, double[m,4] y) => (float[n,2] p, double[k,n] q) {"
    text += " a, b = my.dom.Halves(x, y) p = Neg(a) q = Neg(b) }"
    cop.forget_all()
    cop.register_operator("Halves", outputs=2)(Halves)
    operator = cop.custom_op_of("Halves")
    sizes = [cop.TensorType(np.float32, ("n", 4)), cop.TensorType(np.float64, ("m", 4))]
    first, second = operator.call("infer", None, cop.OpContext(), *sizes)
    assert (first.dtype, first.shape) == (np.float32, ("n", 2))
    assert (second.dtype, second.shape) == (np.float64, (None, "n"))

    atcpy.convert(model(text), tmp_path / "m.om")
    x, y = RNG.standard_normal((3, 4), np.float32), RNG.standard_normal((5, 4))
    p, q = atcpy.InferenceSession(tmp_path / "m.om", threads=1).run(None, {"x": x, "y": y})
    np.testing.assert_array_equal(p, -x[:, :2])
    np.testing.assert_allclose(q, -(y[::2] @ x.T.astype(np.float64)))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x.T @ np.ones((7, 2), np.float32)", "without infer, forward is called with open sizes as n=12"),
        ("x[0] if x.shape[0] > 10 else x", "the same number of dims"),
        ("3", "forward returned int, not an array"),
    ],
)
def test_types_that_calls_do_not_tell_are_refused(tmp_path: Path, body: str, why: str) -> None:
    text = f"""
    @atcpy.register_operator("Odd")
    class Odd(atcpy.custom_op.Operator):
        def forward(self, x):
            return {body}
    """
    graph = "g (float[n,7] x) => (float[n,7] z) { a = Neg(x) z = my.dom.Odd(a) }"
    with pytest.raises(CustomOpError, match=why) as caught:
        atcpy.convert(model(graph), tmp_path / "m.om", custom_ops=module(tmp_path, text))
    assert caught.value.code == "C0001"


def test_a_size_that_equals_an_open_one_by_chance_is_not_it() -> None:
    """At the first size that is tried, 7, the result has this size, too."""

    @cop.register_operator("Odd")
    class Odd(cop.Operator):
        def forward(self, x: Any) -> Any:
            return np.zeros(2 * len(x) - 7)

    operator = cop.custom_op_of("Odd")
    [found] = operator.call("infer", None, cop.OpContext(), cop.TensorType(np.float32, ("n",)))
    assert found.shape == (None,)


@pytest.mark.parametrize(("size", "at_conversion", "at_run"), [("2", [2], 1), ("n", [7, 12, 29], 2)])
def test_how_often_forward_is_called(tmp_path: Path, size: str, at_conversion: list[int], at_run: int) -> None:
    calls: list[tuple[int, ...]] = []

    @cop.register_operator("Counted")
    class Counted(cop.Operator):
        def forward(self, x: Any) -> Any:
            calls.append(x.shape)
            return x + x

    text = f"g (float[{size},3] x) => (float[{size},3] z) {{ a = Neg(x) z = my.dom.Counted(a) }}"
    atcpy.convert(model(text), tmp_path / "m.om")
    assert calls == [(rows, 3) for rows in at_conversion]
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    calls.clear()
    session.run(None, {"x": np.full((2, 3), 5, np.float32)})
    assert calls == [(2, 3)] * at_run


# --- fusion optimizers ------------------------------------------------------------------------------------------------


def converted(text: str, folder: Path, custom_ops: Path) -> tuple[atcpy.InferenceSession, list[str]]:
    atcpy.convert(model(text), folder / "m.om", custom_ops=custom_ops)
    session = atcpy.InferenceSession(folder / "m.om", threads=1, custom_ops=custom_ops)
    return session, [task.op_type for task in session.tasks]


def test_the_optimizer_of_the_article_replaces_what_matches(tmp_path: Path) -> None:
    session, kinds = converted(ADD_RELU, tmp_path, ARTICLE)
    assert "FusedAddReLU" in kinds
    x, y = RNG.standard_normal((2, 3), np.float32), RNG.standard_normal((2, 3), np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x, "y": y})[0], -np.maximum(y - x, 0))
    atcpy.convert(model(ADD_RELU), tmp_path / "m.om", custom_ops=ARTICLE, skip_pass="AddReLUOptimizer")
    assert "FusedAddReLU" not in [task.op_type for task in atcpy.InferenceSession(tmp_path / "m.om").tasks]


def test_a_replacement_that_would_change_the_graph_is_rejected(tmp_path: Path) -> None:
    second = "g (float[2,3] x, float[2,3] y) => (float[2,3] z, float[2,3] s) { s = Add(x, y) r = Relu(s) z = Neg(r) }"
    _, kinds = converted(second, tmp_path, ARTICLE)
    assert "FusedAddReLU" not in kinds
    rejects = atcpy.inspect(tmp_path / "m.om", "passes", custom_ops=ARTICLE).record["passes"]
    [own] = [record for record in rejects if record["name"] == "AddReLUOptimizer"]
    assert "second-consumer" in str(own)


def test_a_replacement_of_another_type_is_rejected(tmp_path: Path) -> None:
    text = """
    @atcpy.register_operator("Wide")
    class Wide(atcpy.custom_op.Operator):
        def forward(self, x):
            return np.maximum(x, 0.0).astype(np.float64)

    @atcpy.register_fusion_optimizer
    class Widen:
        def optimize_fusion(self, graph):
            for node in graph.nodes:
                match = graph.match(node, op("Relu", var("x")))
                if match is not None:
                    assert graph.replace(match, Wide, match["x"]) is False
    """
    path = module(tmp_path, text)
    _, kinds = converted(ADD_RELU, tmp_path, path)
    assert "Wide" not in kinds
    passes = atcpy.inspect(tmp_path / "m.om", "passes", custom_ops=path).record["passes"]
    [own] = [record for record in passes if record["name"] == "Widen"]
    assert "float64 for float32" in str(own)


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ("graph.nodes[0].nothing", "C0001", "raised AttributeError"),
        ("return 3", "C0002", "returned int, not the graph"),
    ],
)
def test_a_failing_optimizer_is_located(tmp_path: Path, body: str, code: str, why: str) -> None:
    text = f"""
    @atcpy.register_fusion_optimizer
    class Broken:
        def optimize_fusion(self, graph):
            {body}
    """
    path = module(tmp_path, text)
    with pytest.raises(AtcError, match=why) as caught:
        converted(ADD_RELU, tmp_path, path)
    assert caught.value.code == code
    assert caught.value.where.file == str(path)
    assert caught.value.where.line == (8 if code == "C0001" else None)
