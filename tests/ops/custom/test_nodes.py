"""Nodes of custom operators through the compiler: which nodes an operator matches, and how they are compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.ops.custom.registry import load_custom_ops
from tests.ops.custom.models import DOUBLE, ONE_NODE, double, model, module

STANDARD_OPS = {
    schema.domain: schema.name for schema in reversed(onnx.defs.get_all_schemas()) if not onnx.defs.has(schema.name)
}
"""For each standard domain, an op that only this domain defines."""

pytestmark = pytest.mark.usefixtures("no_custom_ops")
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def converted(proto: onnx.ModelProto, folder: Path, text: str, **options: Any) -> tuple[Any, atcpy.InferenceSession]:
    path = module(folder, text)
    report = atcpy.convert(proto, folder / "m.om", custom_ops=path, **options)
    return report, atcpy.InferenceSession(folder / "m.om", threads=1, custom_ops=path)


def kinds(session: atcpy.InferenceSession) -> list[str]:
    return [task.op_type for task in session.tasks]


@pytest.mark.parametrize("domain", ["my.dom.", "com.microsoft.", ""])
def test_an_operator_without_a_domain_matches_every_domain(tmp_path: Path, domain: str) -> None:
    text = ONE_NODE.replace("my.dom.", domain)
    _, session = converted(model(text, '"": 21, "my.dom": 1, "com.microsoft": 1'), tmp_path, DOUBLE)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -2 * np.abs(X))


@pytest.mark.parametrize(
    ("domain", "name"), [(domain, name) for domain, name in STANDARD_OPS.items() if domain != ""], ids="::".join
)
def test_an_operator_without_a_domain_does_not_match_standard_ops(domain: str, name: str) -> None:
    class Own:
        infer = staticmethod(lambda ctx, x: x)
        forward = staticmethod(lambda ctx, x: x)

    atcpy.register_operator(name)(Own)
    found = load_custom_ops(())
    assert found.find(domain, name) is None
    assert found.find("my.dom", name) is found.find("custom", name) is not None
    atcpy.register_operator(name, domain="my.dom")(type("Other", (Own,), {}))
    assert load_custom_ops(()).find(domain, name) is None


def test_an_operator_without_a_domain_does_not_override_an_ai_onnx_ml_op(tmp_path: Path) -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Scaler<offset = [1.0], scale = [3.0]>(x) }"
    proto = model(text, '"": 21, "ai.onnx.ml": 3')
    _, session = converted(proto, tmp_path, DOUBLE.replace("Double", "Scaler"))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], (X - 1) * 3)


def test_an_operator_with_a_domain_matches_only_that_domain(tmp_path: Path) -> None:
    text = DOUBLE.replace('"Double"', '"Double", domain="other.dom"')
    with pytest.raises(AtcError, match="E19010"):
        converted(model(ONE_NODE), tmp_path, text)


FUNCTION = '<domain: "my.dom", opset_import: ["": 21]> Double (x) => (y) { a = Add(x, x) y = Relu(a) }'


def test_a_registered_operator_overrides_a_model_local_function(tmp_path: Path) -> None:
    proto = model(ONE_NODE, functions=FUNCTION)
    _, session = converted(proto, tmp_path, DOUBLE)
    assert "Double" in kinds(session)
    atcpy.convert(proto, tmp_path / "inlined.om")
    assert "Double" not in kinds(atcpy.InferenceSession(tmp_path / "inlined.om"))


def test_a_decomposed_operator_is_not_needed_at_run_time(tmp_path: Path) -> None:
    text = double(decompose="return ctx.Mul(x, 2.0)")
    report, _ = converted(model(ONE_NODE), tmp_path, text)
    assert not report.host_cpu_ops
    session = atcpy.InferenceSession(tmp_path / "m.om")  # without the operator's module
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -2 * np.abs(X))


@pytest.mark.parametrize("form", ["ctx.Mul(x, 2.0)", "ctx.Add(x, x)", "ctx.Identity(ctx.Mul(x, np.float32(2)))"])
def test_a_decomposed_operator_of_open_rank(tmp_path: Path, form: str) -> None:
    graph = "g (float[2,3] x, int64[n] s) => (float y) { r = Reshape(x, s) d = my.dom.Double(r) y = Neg(d) }"
    _, session = converted(model(graph), tmp_path, double(decompose=f"return {form}"))
    np.testing.assert_array_equal(session.run(None, {"x": X, "s": np.array([3, 2])})[0], -2 * X.reshape(3, 2))


def test_an_operator_may_decompose_to_its_input(tmp_path: Path) -> None:
    text = "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { a = my.dom.Double(x) y = my.dom.Double(a) z = Neg(a) }"
    for functions in ({"decompose": "return x", "forward": "return x"}, {"forward": "return x"}):
        _, session = converted(model(text), tmp_path, double(**functions))
        y, z = session.run(None, {"x": X})
        np.testing.assert_array_equal(y, X)
        np.testing.assert_array_equal(z, -X)
        assert y.flags.writeable


def test_more_operands_than_a_task_record_holds(tmp_path: Path) -> None:
    text = """
    @atcpy.register_operator("Sum20")
    class Sum20:
        @staticmethod
        def infer(ctx, *xs):
            return xs[0]

        @staticmethod
        def forward(ctx, *xs):
            return np.sum(xs, axis=0)
    """
    names = [f"v{i}" for i in range(20)]
    nodes = " ".join(f"{name} = Abs(x)" for name in names)
    graph = f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} s = my.dom.Sum20({', '.join(names)}) y = Neg(s) }}"
    _, session = converted(model(graph), tmp_path, text)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -20 * np.abs(X))


def test_string_tensors(tmp_path: Path) -> None:
    text = double(infer="return x", forward="return np.array([t + t for t in x], object)")
    _, session = converted(model("g (string[2] x) => (string[2] y) { y = my.dom.Double(x) }"), tmp_path, text)
    assert session.run(None, {"x": np.array(["a", "bc"], object)})[0].tolist() == ["aa", "bcbc"]


def test_nodes_after_a_custom_operator_are_still_fused(tmp_path: Path) -> None:
    """An op that other frameworks define in ONNX's own domain."""
    text = """
    @atcpy.register_operator("DCNv2")
    class DCNv2:
        @staticmethod
        def infer(ctx, x, offset):
            return x

        @staticmethod
        def forward(ctx, x, offset):
            return x + offset
    """
    constants = " ".join(f"{name} = Constant<value = float[16] {{{', '.join(['1'] * 16)}}}>()" for name in "abmv")
    weights = ", ".join(["0.5"] * 256)
    graph = f"""g (float[1,16,8,8] x, float[1,16,8,8] o) => (float[1,16,8,8] y) {{
        w = Constant<value = float[16,16,1,1] {{{weights}}}>() {constants}
        d = DCNv2(x, o) c = Conv(d, w) n = BatchNormalization(c, a, b, m, v) y = Relu(n) }}"""
    _, session = converted(model(graph, '"": 21'), tmp_path, text)
    assert len([kind for kind in kinds(session) if kind != "TransData"]) == 2


def test_an_operator_overrides_an_onnx_runtime_op(tmp_path: Path) -> None:
    text = DOUBLE.replace("Double", "QuickGelu")
    graph = ONE_NODE.replace("my.dom.Double", "com.microsoft.QuickGelu")
    _, session = converted(model(graph, '"": 21, "com.microsoft": 1'), tmp_path, text)
    assert "QuickGelu" in kinds(session)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -2 * np.abs(X))


def test_an_operator_of_constants_is_folded_unless_it_is_random(tmp_path: Path) -> None:
    text = (
        "g (float[2] x) => (float[2] y) { c = Constant<value = float[2] {1, 2}>() d = my.dom.Double(c) y = Add(x, d) }"
    )
    for flag, expected in (("", ["Add"]), (", random=True", ["Double", "Add"])):
        source = DOUBLE.replace('"Double"', '"Double"' + flag)
        _, session = converted(model(text), tmp_path, source)
        assert kinds(session) == expected
        np.testing.assert_array_equal(session.run(None, {"x": np.zeros(2, np.float32)})[0], [2, 4])


def test_a_custom_op_may_run_in_place(tmp_path: Path) -> None:
    text = "g (float[64,64] x) => (float[64,64] y) { a = Abs(x) b = my.dom.Double(a) y = Neg(b) }"
    arenas = []
    for flag in ("", ", inplace=(0,)"):
        report, session = converted(model(text), tmp_path, DOUBLE.replace('"Double"', '"Double"' + flag))
        arenas.append(report.memory.arena)
        x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], -2 * np.abs(x))
    assert arenas == [2 * 64 * 64 * 4, 64 * 64 * 4]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float", "double", "int8", "bool"])
def test_user_code_receives_the_dtype_declared_by_the_model(tmp_path: Path, dtype: str) -> None:
    text = double(forward="assert x.dtype == ctx.attrs['t'].dtype; return x", infer="return x")
    node = f"my.dom.Double<t = {dtype}[1] {{1}}>(a)"
    graph = f"g ({dtype}[2,3] x) => ({dtype}[2,3] y) {{ a = Identity(x) b = {node} y = Identity(b) }}"
    _, session = converted(model(graph), tmp_path, text)
    x = np.ones((2, 3), session.get_inputs()[0].dtype.numpy)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)


ALL_KINDS = """
@atcpy.register_operator("Affine", outputs=2)
class Affine:
    @staticmethod
    def infer(ctx, x, shift=None):
        assert ctx.attrs["factors"] == (2, 3) and ctx.attrs["mode"] == "both" and ctx.attrs["table"].tolist() == [5.0]
        return x, atcpy.TensorType(np.int64, (x.shape[0],))

    @staticmethod
    def forward(ctx, x, shift=None):
        a, b = ctx.attrs["factors"]
        y = x * np.float32(a + b) + (0 if shift is None else shift) + np.float32(ctx.attrs["gain"])
        return y, np.arange(len(x))
"""
AFFINE = 'my.dom.Affine<factors = [2, 3], mode = "both", gain = 0.5, table = float[1] {5.0}>'


@pytest.mark.parametrize(("inputs", "shift"), [("x", 0), ("x, s", 1)])
def test_attributes_optional_inputs_and_several_outputs(tmp_path: Path, inputs: str, shift: int) -> None:
    text = f"g (float[2,3] x, float s) => (float[2,3] y, int64[2] i) {{ y, i = {AFFINE}({inputs}) }}"
    _, session = converted(model(text), tmp_path, ALL_KINDS)
    y, i = session.run(None, {"x": X, "s": np.float32(1)})
    np.testing.assert_array_equal(y, X * 5 + shift + np.float32(0.5))
    np.testing.assert_array_equal(i, [0, 1])


@pytest.mark.parametrize("node", ["Affine(x, s, s)", "Affine()"])
def test_a_wrong_number_of_inputs_is_reported_as_a_model_error(tmp_path: Path, node: str) -> None:
    text = f"g (float[2,3] x, float s) => (float[2,3] y) {{ y = my.dom.{node} }}"
    with pytest.raises(AtcError, match=r"E13014.*1 to 2 are possible"):
        converted(model(text), tmp_path, ALL_KINDS)


def test_a_graph_attribute_is_refused(tmp_path: Path) -> None:
    body = "b (float[2,3] i) => (float[2,3] o) { o = Neg(i) }"
    text = f"g (float[2,3] x) => (float[2,3] y) {{ y = my.dom.Double<body = {body}>(x) }}"
    with pytest.raises(AtcError, match="E10055"):
        converted(model(text), tmp_path, DOUBLE)


OPEN = "g (float[n,3] x) => (float[m,3] y) { a = Abs(x) b = my.dom.Double(a) y = Neg(b) }"


@pytest.mark.parametrize("shape", ["x.shape", "(None, 3)", "(x.shape[0], 3)", "(2 * x.shape[0] // 2 - 0, 3)"])
def test_symbolic_sizes(tmp_path: Path, shape: str) -> None:
    report, session = converted(model(OPEN), tmp_path, double(infer=f"return x.with_shape({shape})"))
    assert report.unknown_shapes
    for rows in (1, 4):
        x = np.full((rows, 3), -1, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x)


def test_a_data_dependent_size(tmp_path: Path) -> None:
    text = double(infer="return x.with_shape((None, 3))", forward="return x[x[:, 0] > 0]")
    _, session = converted(model(ONE_NODE.replace("[2,3] y", "[k,3] y")), tmp_path, text)
    assert session.run(None, {"x": np.ones((2, 3), np.float32)})[0].shape == (2, 3)
    assert session.run(None, {"x": np.zeros((2, 3), np.float32)})[0].shape == (0, 3)


def test_an_input_of_data_dependent_rank(tmp_path: Path) -> None:
    graph = "g (float[2,3] x, int64[n] s) => (float y) { r = Reshape(x, s) d = my.dom.Double(r) y = Neg(d) }"
    _, session = converted(model(graph), tmp_path, DOUBLE)
    for shape in ([6], [3, 2]):
        y = session.run(None, {"x": X, "s": np.array(shape)})[0]
        np.testing.assert_array_equal(y, -2 * X.reshape(shape))


def test_new_integer_inputs_do_not_recompile_the_graph(tmp_path: Path) -> None:
    text = """
    @atcpy.register_operator("Take")
    class Take:
        @staticmethod
        def infer(ctx, x, count):
            return x.with_shape((None,))

        @staticmethod
        def forward(ctx, x, count):
            return x[: int(count[0])]
    """
    graph = "g (float[8] x, int64[1] c) => (float[k] y) { a = Abs(x) n = Neg(c) t = my.dom.Take(a, n) y = Neg(t) }"
    _, session = converted(model(graph), tmp_path, text)
    for count in (1, 5, 8, 5):
        y = session.run(None, {"x": np.ones(8, np.float32), "c": np.array([-count])})[0]
        assert y.shape == (count,)
    assert session.shape_cache is not None
    assert session.shape_cache.misses <= 1 + 3  # the graph, and its continuation for three sizes


def test_infer_sees_constants(tmp_path: Path) -> None:
    text = """
    @atcpy.register_operator("Rows")
    class Rows:
        @staticmethod
        def infer(ctx, x, count):
            return x.with_shape((int(ctx.constants[1]), *x.shape[1:]))

        @staticmethod
        def forward(ctx, x, count):
            return x[: int(count)]
    """
    graph = "g (float[2,3] x) => (float[1,3] y) { c = Constant<value_int = 1>() y = my.dom.Rows(x, c) }"
    _, session = converted(model(graph), tmp_path, text)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X[:1])


def test_a_node_in_a_body_and_in_a_function(tmp_path: Path) -> None:
    then = "then_branch = t () => (float[2,3] o) { o = my.dom.Double(x) }"
    other = "else_branch = e () => (float[2,3] p) { p = Neg(x) }"
    text = f"g (float[2,3] x, bool c) => (float[2,3] y) {{ b = If<{then}, {other}>(c) y = my.dom.Twice(b) }}"
    function = '<domain: "my.dom", opset_import: ["": 21, "my.dom": 1]> Twice (x) => (y) { y = my.dom.Double(x) }'
    _, session = converted(model(text, functions=function), tmp_path, DOUBLE)
    np.testing.assert_array_equal(session.run(None, {"x": X, "c": np.array(True)})[0], 4 * X)
    np.testing.assert_array_equal(session.run(None, {"x": X, "c": np.array(False)})[0], -2 * X)


LIES = {
    "infer raises": (double(infer="raise ValueError('not mine')"), "C0001", "ValueError: not mine"),
    "infer exits": (double(infer="raise SystemExit(0)"), "C0001", "SystemExit"),
    "infer counts": (double(infer="return x, x"), "C0002", "2 results, 1 are promised"),
    "infer's type": (double(infer="return 3"), "C0002", "an object of type int"),
    "infer's shape": (double(infer="return x.with_shape((2, -3))"), "C0002", "-3 is no size"),
    "infer's half size": (double(infer="return x.with_shape((2, 1.5))"), "C0002", "1.5 is no size"),
    "infer's dtype": (double(infer="return atcpy.TensorType('M8[s]', x.shape)"), "C0002", "no elements of type"),
    "decompose raises": (double(decompose="return ctx.Add(x)[3]"), "C0001", "TypeError"),
    "decompose's op": (double(decompose="return ctx.Addd(x, x)"), "C0001", "has no op Addd"),
    "decompose counts": (double(decompose="return [x, x]"), "C0002", "2 results"),
    "decompose's type": (double(decompose="return x * 2 if False else None"), "C0002", "returned None"),
    "decompose lies": (double(decompose="return ctx.Cast(x, to=7)"), "C0002", "infer promised f32"),
    "decompose misfits": (double(decompose="return ctx.Add(x, np.zeros(7, np.float32))"), "C0002", "does not fit"),
}


@pytest.mark.parametrize("case", LIES)
def test_an_operator_that_lies_or_raises_at_conversion(tmp_path: Path, case: str) -> None:
    text, code, message = LIES[case]
    with pytest.raises(AtcError) as caught:
        converted(model(ONE_NODE), tmp_path, text)
    error = caught.value
    assert (error.code, error.exit_code) == (code, 4)
    assert "Double" in error.what
    assert message in error.what
    assert error.where.op == "Double"
    assert error.where.node == "b"
    assert code == "C0002" or error.where.line is not None
    assert not (tmp_path / "m.om").exists()


LIES_AT_RUN = {
    "raises": ("raise ValueError('not mine')", "C0001", "Double.forward raised ValueError: not mine"),
    "exits": ("import sys; sys.exit(7)", "C0001", "SystemExit: 7"),
    "writes": ("x += 1; return x", "C0001", "read-only"),
    "nothing": ("pass", "C0002", "returned None"),
    "list": ("return [1.0]", "C0002", "type float"),
    "counts": ("return x, x", "C0002", "2 results"),
    "shape": ("return x[:1]", "C0002", "f32[1,3]"),
    "dtype": ("return x.astype(np.float64)", "C0002", "f64[2,3]"),
    "odd dtype": ("return x.astype('M8[s]')", "C0002", "infer promised f32"),
}


@pytest.mark.parametrize("graph", [ONE_NODE, OPEN], ids=["planned", "open"])
@pytest.mark.parametrize("case", LIES_AT_RUN)
def test_an_operator_that_lies_or_raises_at_run(tmp_path: Path, case: str, graph: str) -> None:
    body, code, message = LIES_AT_RUN[case]
    _, session = converted(model(graph), tmp_path, double(forward=body))
    for _ in range(2):  # the session remains usable
        with pytest.raises(AtcError) as caught:
            session.run(None, {"x": X})
        assert (caught.value.code, caught.value.exit_code) == (code, 4)
        assert message in caught.value.what
        assert caught.value.where.node == "b"
