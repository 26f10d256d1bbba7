"""The passes of custom operators: when one takes the place of its pattern, and why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.ir import Reject
from atcpy.ops.custom import load_custom_ops
from atcpy.options import convert_options, read_custom_ops
from atcpy.passes import folding
from atcpy.passes.prepare.recognise.custom_op import passes_with
from atcpy.stages.pipeline import compile_model
from tests.ops.custom.models import model, module

pytestmark = pytest.mark.usefixtures("no_custom_ops")

ADD_RELU = """
@atcpy.register_operator("AddRelu")
class AddRelu:
    pattern = op("Relu", op("Add", var("x"), var("y")))

    @staticmethod
    def infer(ctx, x, y):
        return x.with_shape(ctx.broadcast(x.shape, y.shape))

    @staticmethod
    def forward(ctx, x, y):
        return np.maximum(x + y, 0)
"""
PLAIN = "g (float[2,3] x, float[3] y) => (float[2,3] z) { a = Add(x, y) z = Relu(a) }"


def compiled(folder: Path, graph: str, source: str = ADD_RELU, **options: Any) -> tuple[list[str], list[Reject]]:
    """The ops that are left, and why the pass left matches alone."""
    settings = convert_options({"custom_ops": module(folder, source), **options})
    compiled_model, _ = compile_model(model(graph), settings)
    ops = [node.op_type for node in compiled_model.graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]
    records = [record for record in compiled_model.graph.decisions.passes if record.name.endswith("FusionPass")]
    return ops, [reject for record in records for reject in record.rejects if record.name.startswith("AddRelu")]


def test_the_operator_takes_the_place_of_its_pattern(tmp_path: Path) -> None:
    assert compiled(tmp_path, PLAIN) == (["AddRelu"], [])


def test_its_nodes_tell_where_they_came_from(tmp_path: Path) -> None:
    path = module(tmp_path, ADD_RELU)
    report = atcpy.convert(model(PLAIN), tmp_path / "m.om", custom_ops=path)
    [task] = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path).tasks
    assert task.passes == ("AddReluFusionPass",)
    assert set(task.sources) == {"a", "z"}
    assert [(entry.matched, entry.applied) for entry in report.passes if entry.name == "AddReluFusionPass"] == [(1, 1)]


@pytest.mark.parametrize(
    "options",
    [{"skip_pass": "AddReluFusionPass"}, {"optimization_switch": "AddReluFusionPass:off"}, {"oo_level": "O1"}],
    ids=str,
)
def test_the_pass_is_switched_like_any_other(tmp_path: Path, options: dict[str, object]) -> None:
    assert "AddRelu" not in compiled(tmp_path, PLAIN, **options)[0]


def test_the_pass_is_unknown_where_the_module_is_not_named(tmp_path: Path) -> None:
    with pytest.raises(AtcError, match="E10016"):
        atcpy.convert(model(PLAIN), tmp_path / "m.om", skip_pass="AddReluFusionPass")


LEFT_ALONE = {
    "somebody reads the sum": (
        "g (float[2] x, float[2] y) => (float[2] z, float[2] n) { a = Add(x, y) z = Relu(a) n = Neg(a) }",
        ADD_RELU,
        ("second-consumer", "a"),
    ),
    "the sum is an output": (
        "g (float[2] x, float[2] y) => (float[2] z, float[2] a) { a = Add(x, y) z = Relu(a) }",
        ADD_RELU,
        ("second-consumer", "a"),
    ),
    "another type": (PLAIN, ADD_RELU.replace("x.with_shape(", "atcpy.TensorType(np.float64, "), ("dtype", "z")),
    "another shape": (PLAIN, ADD_RELU.replace("ctx.broadcast(x.shape, y.shape)", "(3, 2)"), ("broadcast", "z")),
    "a rank that is not known": (
        "g (float[2] x, int64[n] s) => (float z) { r = Reshape(x, s) a = Add(r, x) z = Relu(a) }",
        ADD_RELU,
        ("shape-unknown", "z"),
    ),
    "a reason of the operator's own": (
        PLAIN,
        ADD_RELU + "\n    @staticmethod\n    def meet_requirements(m):\n"
        "        import atcpy.ir\n        yield atcpy.ir.Reject('too-small', m.node('relu').name)\n",
        ("too-small", "z"),
    ),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_a_match_that_must_not_be_replaced(tmp_path: Path, case: str) -> None:
    graph, source, (reason, where) = LEFT_ALONE[case]
    ops, rejects = compiled(tmp_path, graph, source)
    assert "AddRelu" not in ops
    assert [(reject.reason, reject.where) for reject in rejects] == [(reason, where)]


@pytest.mark.parametrize(
    ("x", "y", "shape", "fires"),
    [
        ("n,3", "n,3", "ctx.broadcast(x.shape, y.shape)", True),
        ("n,3", "m,3", "ctx.broadcast(x.shape, y.shape)", True),
        ("n,3", "n,3", "(x.shape[0] + 0, 3)", True),
        ("n,3", "m,3", "x.shape", False),
        ("n,3", "n,3", "(2, 3)", False),
    ],
)
def test_open_sizes(tmp_path: Path, x: str, y: str, shape: str, fires: bool) -> None:
    source = ADD_RELU.replace("ctx.broadcast(x.shape, y.shape)", shape)
    graph = f"g (float[{x}] x, float[{y}] y) => (float[k,3] z) {{ a = Add(x, y) z = Relu(a) }}"
    ops, rejects = compiled(tmp_path, graph, source)
    assert ops == (["AddRelu"] if fires else ["Add", "Relu"])
    assert [reject.reason for reject in rejects] == ([] if fires else ["broadcast"])


def test_a_value_that_the_whole_pattern_reads_is_no_obstacle(tmp_path: Path) -> None:
    source = ADD_RELU.replace('op("Relu", op("Add", var("x"), var("y")))', 'op("Mul", SUM, SUM)').replace(
        "@atcpy", 'SUM = op("Add", var("x"), var("y"), name="sum")\n@atcpy', 1
    )
    graph = "g (float[2] x, float[2] y) => (float[2] z) { a = Add(x, y) z = Mul(a, a) }"
    assert compiled(tmp_path, graph, source) == (["AddRelu"], [])


def test_attributes_come_from_the_match(tmp_path: Path) -> None:
    source = """
    @atcpy.register_operator("Leak")
    class Leak:
        pattern = op("LeakyRelu", op("Neg", var("x")), name="leak")

        @staticmethod
        def attributes(m):
            return {"slope": m.node("leak").float_attr("alpha", 0.01), "list": [1, 2]}

        @staticmethod
        def infer(ctx, x):
            assert ctx.attrs["list"] == (1, 2)
            return x

        @staticmethod
        def forward(ctx, x):
            return np.where(x > 0, -x * np.float32(ctx.attrs["slope"]), -x)
    """
    path = module(tmp_path, source)
    graph = "g (float[4] x) => (float[4] y) { n = Neg(x) y = LeakyRelu<alpha = 0.5>(n) }"
    atcpy.convert(model(graph), tmp_path / "m.om", custom_ops=path)
    session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path)
    assert [task.op_type for task in session.tasks] == ["Leak"]
    np.testing.assert_array_equal(session.run(None, {"x": np.float32([-2, -1, 1, 2])})[0], [2, 1, -0.5, -1])


BROKEN = {
    "meet_requirements raises": ("meet_requirements", "yield 1 / 0", "C0001", "ZeroDivisionError"),
    "meet_requirements gives a text": ("meet_requirements", "yield 'no'", "C0002", "no atcpy.ir.Reject"),
    "attributes raises": ("attributes", "return m.node('nobody')", "C0001", "KeyError"),
    "attributes gives no dict": ("attributes", "return 3", "C0002", "no dict"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_pattern_whose_functions_fail(tmp_path: Path, case: str) -> None:
    function, body, code, message = BROKEN[case]
    source = f"{ADD_RELU}\n    @staticmethod\n    def {function}(m):\n        {body}\n"
    with pytest.raises(AtcError) as caught:
        compiled(tmp_path, PLAIN, source)
    assert caught.value.code == code
    assert message in caught.value.what
    assert caught.value.where.node == "z"


def test_only_what_reads_the_model_comes_before(tmp_path: Path) -> None:
    operators = load_custom_ops(read_custom_ops("custom_ops", module(tmp_path, ADD_RELU)))
    names = [entry.name for entry in passes_with(operators)]
    assert names[: names.index("AddReluFusionPass")] == [folding.NAME]


def test_it_comes_before_the_passes_of_ours(tmp_path: Path) -> None:
    source = """
    @atcpy.register_operator("ConvBn")
    class ConvBn:
        pattern = op("BatchNormalization", op("Conv", var("x"), var("w")), var("s"), var("b"), var("m"), var("v"))

        @staticmethod
        def infer(ctx, x, w, s, b, m, v):
            return x

        @staticmethod
        def forward(ctx, x, w, s, b, m, v):
            return x
    """
    ones = " ".join(f"{name} = Constant<value = float[1] {{1}}>()" for name in "sbmv")
    graph = f"""g (float[1,1,4,4] x) => (float[1,1,4,4] y) {{
        w = Constant<value = float[1,1,1,1] {{2}}>() {ones}
        c = Conv(x, w) y = BatchNormalization(c, s, b, m, v) }}"""
    assert compiled(tmp_path, graph, source)[0] == ["ConvBn"]
