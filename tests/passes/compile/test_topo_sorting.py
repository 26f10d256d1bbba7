"""--topo_sorting_mode: nodes run in the orders of GE's topological sort, and compute what they compute in any other.

The orders of the first two graphs are those that GE's own tests expect (tests/graph_metadef/ut/graph/testcase/
compute_graph_unittest.cc, BuildNormalGraph and BuildDelayTopoGraph).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from atcpy import InferenceSession
from atcpy.ir import Graph
from atcpy.ir.verify import verify
from atcpy.om import writer
from atcpy.om.reader import parse_package, read_model
from atcpy.ops.custom import CustomOps
from atcpy.options import convert_options
from atcpy.passes.compile.topo_sorting import sort_topologically
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.pass_set import built_in_passes
from atcpy.stages.parse import parse
from atcpy.stages.pipeline import compile_model
from atcpy.stages.prepare import prepare
from tests.effort import trials
from tests.models_in_text import model, package
from tests.random_models import cnn_models

MODES = ("0", "1", "2", "3")
BRANCHES = """g (float[4] node1, float[4] node6) => (float[12] y) {
    [node2] b = Exp(node1)  [node3] c = Sin(node1)  [node4] d = Neg(b)  [node5] e = Abs(c)
    [netoutput] y = Concat<axis = 0>(d, e, node6)
}"""
DELAYED = """g (float[4] variable, float[4] data) => (float[12] y) {
    [node1] a = Exp(variable)  [node2] b = Sin(variable)  [node3] c = Add(data, b)  [node4] d = Neg(c)
    [node5] y = Concat<axis = 0>(a, b, d)
}"""


def sorted_graph(text: str, mode: str) -> Graph:
    """The graph of a model, as it is before fusion, in the order of the mode."""
    custom = CustomOps()
    options = convert_options({"oo_level": "O0", "topo_sorting_mode": mode})
    graph = parse(model(text), options.parse, custom).graph
    prepare(graph, PassManager(options, built_in_passes(), options.limits.deadline()))
    sort_topologically(graph, options.compile.topo_sorting)
    verify(graph, "sorting")
    return graph


def names_of(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes if not node.is_structural]


@pytest.mark.parametrize(
    ("text", "mode", "nodes"),
    [
        (BRANCHES, "0", [2, 3, 4, 5]),
        (BRANCHES, "1", [3, 5, 2, 4]),
        (BRANCHES, "2", [2, 4, 3, 5]),
        (BRANCHES, "3", [2, 3, 4, 5]),
        (DELAYED, "2", [2, 3, 4, 1, 5]),
        (DELAYED, "3", [1, 2, 3, 4, 5]),
    ],
)
def test_the_orders_are_those_of_ge(text: str, mode: str, nodes: list[int]) -> None:
    names = names_of(sorted_graph(text, mode))
    assert [name for name in names if name != "netoutput"] == [f"node{number}" for number in nodes]


def test_an_input_waits_until_what_follows_from_the_others_has_run() -> None:
    text = """g (float[4] x, float[4] z) => (float[4] y) {
        [a] a = Neg(z)  [b] b = Exp(x)  [c] c = Sin(b)  [d] y = Add(a, c)
    }"""
    assert [names_of(sorted_graph(text, mode)) for mode in "01"] == [["b", "c", "a", "d"]] * 2


def test_operands_of_few_bytes_come_first_from_the_results_back() -> None:
    nodes = "[a] a = Exp(x)  [b] b = Neg(a)  [c] c = Exp(z)  [d] d = Neg(c)  [top] y = Concat<axis = 0>"
    for operands in ("(b, d)", "(d, b)"):
        text = f"g (float[64] x, float[4] z) => (float[68] y) {{ {nodes}{operands} }}"
        assert names_of(sorted_graph(text, "2")) == ["c", "d", "a", "b", "top"]


def test_what_reads_only_inputs_comes_right_before_its_first_user() -> None:
    text = """g (float[4] x, float[4] z) => (float[4] y, float[4] w) {
        [a] a = Exp(x)  [b] b = Neg(x)  [c] c = Sin(b)  [d] d = Sin(z)  [e] e = Neg(c)  [f] y = Sub(a, e)
        [g] w = Mul(e, d)
    }"""
    assert names_of(sorted_graph(text, "2")) == ["b", "c", "e", "a", "f", "d", "g"]


def test_bodies_of_control_flow_are_ordered() -> None:
    body = "[p] p = Exp(x)  [q] q = Sin(x)  [r] r = Neg(p)  [s] s = Abs(q)  [t] t = Add(r, s)"
    branches = f"then_branch = th () => (float[4] t) {{ {body} }}, else_branch = el () => (float[4] u) {{ u = Neg(x) }}"
    text = f"g (bool c, float[4] x) => (float[4] y) {{ y = If(c) <{branches}> }}"

    def names(mode: str) -> list[str]:
        [node] = sorted_graph(text, mode).nodes_of("If")
        return names_of(next(node.subgraphs))

    assert (names("0"), names("1")) == (["p", "q", "r", "s", "t"], ["q", "s", "p", "r", "t"])


def order(text: str, mode: str | None = None) -> list[str]:
    """The names of the package's nodes, in the order of their tasks, on one stream."""
    given = {"oo_level": "O0", "enable_single_stream": True, "topo_sorting_mode": mode}
    return list(read_model(parse_package(package(text, given))).task_nodes)


def test_tasks_follow() -> None:
    expected = {mode: names_of(sorted_graph(BRANCHES, mode))[:4] for mode in MODES}
    assert {mode: order(BRANCHES, mode)[:4] for mode in MODES} == expected
    assert order(BRANCHES) == order(BRANCHES, "3") != order(BRANCHES, "1")


def test_collectives_keep_their_order_in_each_mode() -> None:
    def reduced(name: str, value: str) -> str:
        return f'[{name}] {name} = HcomAllReduce<reduction = "sum", fusion = 0>({value})'

    text = f"""g (float[64] x, float[64] z) => (float[64] u, float[64] v) {{
        [a] a = Exp(x)  {reduced("p", "a")}  [b] b = Sin(x)  {reduced("q", "b")}  [u] u = Neg(p)  [v] v = Neg(q)
    }}"""
    for mode in MODES:
        found = order(text, mode)
        assert found.index("p") < found.index("q"), mode
    assert order(text, "1") != order(text, "3")


def compiled(source: onnx.ModelProto, mode: str, options: Mapping[str, object] = {}) -> bytes:
    """The package; its schedule is verified."""
    given = {**options, "topo_sorting_mode": mode, "debug": True}
    return writer.to_bytes(compile_model(source, convert_options(given))[0])


@settings(max_examples=trials(24))
@given(network=cnn_models())
def test_results_are_the_same_bits_in_each_order(network: onnx.ModelProto) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        value.name: rng.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in network.graph.input
    }
    expected = InferenceSession(compiled(network, "3"), threads=2).run(None, feeds)
    for mode in "012":
        for ours, theirs in zip(
            InferenceSession(compiled(network, mode), threads=2).run(None, feeds), expected, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_open_dims_run_in_the_order_too() -> None:
    text = BRANCHES.replace("float[4]", "float[n]").replace("float[12]", "float[m]")
    orders = []
    for mode in MODES:
        session = InferenceSession(compiled(model(text), mode, {"oo_level": "O0"}), threads=1)
        x, z = np.float32([1, 2, 3]), np.float32([4, 5, 6])
        [y] = session.run(None, {"node1": x, "node6": z})
        np.testing.assert_allclose(y, np.concatenate([-np.exp(x), np.abs(np.sin(x)), z]), rtol=1e-6)
        assert session.shape_cache.misses == 0
        [plan] = session.plans
        orders.append([task.op_index for task in plan.tasks])
    assert orders[0] == orders[2][:1] + orders[0][1:] == orders[3] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
