"""Many and deeply nested loops, conditionals and calls are imported in linear time, or refused.

Time limits are far above what is needed, and far below what a quadratic algorithm would take.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from atcpy.parsers.tensorflow.conditions import with_conditions
from atcpy.parsers.tensorflow.frames import structured
from atcpy.parsers.tensorflow.functions import Library, inline_calls
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, main_ref, needed, read_graph
from atcpy.parsers.tensorflow.handles import Functions
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType
from tests.parsers.tensorflow.graphs import Function, TfBuilder, Type, node
from tests.parsers.tensorflow.test_control import cond_v1, while_v1


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


class Sketch:
    """Builds a TfGraph node by node, without files."""

    def __init__(self) -> None:
        self.nodes: dict[str, TfNode] = {}

    def add(self, op: str, *inputs: str, name: str = "", **attrs: object) -> str:
        name = name or f"n{len(self.nodes)}"
        self.nodes[name] = TfNode(name, op, tuple(map(main_ref, inputs)), attrs)
        return name

    def open_loop(self, start: str) -> tuple[str, str]:
        """Begin `while i < 3: i, y = i + 1, …` with y = start; return the loop and y within an iteration."""
        loop = f"loop{len(self.nodes)}"
        frame = {"frame_name": loop.encode()}
        for name, value in (("i", self.add("Const")), ("y", start)):
            enter = self.add("Enter", value, **frame)
            self.add("Merge", enter, f"{loop}/{name}/next", name=f"{loop}/{name}/merge")
        limit = self.add("Enter", self.add("Const"), is_constant=True, **frame)
        test = self.add("LoopCond", self.add("Less", f"{loop}/i/merge", limit), name=f"{loop}/cond")
        i, y = (self.add("Switch", f"{loop}/{name}/merge", test, name=f"{loop}/{name}") for name in "iy")
        step = self.add("Enter", self.add("Const"), is_constant=True, **frame)
        self.add("NextIteration", self.add("AddV2", f"{i}:1", step), name=f"{loop}/i/next")
        return loop, self.add("Tanh", f"{y}:1")

    def close_loop(self, loop: str, value: str) -> str:
        """Finish a loop whose iterations end with `value`; return its Exit."""
        self.add("NextIteration", value, name=f"{loop}/y/next")
        return self.add("Exit", f"{loop}/y")

    def count_up(self, start: str) -> str:
        return self.close_loop(*self.open_loop(start))

    def condition(self, p: str, value: str) -> str:
        """−|value| if p, else the value."""
        switched = self.add("Switch", value, self.add("Identity", p))
        return self.add("Merge", switched, self.add("Neg", self.add("Abs", f"{switched}:1")))

    def graph(self, *outputs: str) -> TfGraph:
        problems: list[AtcError] = []
        graph = needed(TfGraph(self.nodes, [], [main_ref(name) for name in outputs]), problems)
        assert not problems
        return graph


def inlined(g: TfBuilder, output: str) -> TfGraph:
    """A graph with its calls inlined."""
    nodes = read_graph(g.graph, [])
    graph = inline_calls(TfGraph(nodes, [], [Ref(output, 0)]), Library(g.graph.library.function))
    return needed(graph, [])


def ops(graph: TfGraph) -> list[str]:
    return [item.op for item in graph.nodes.values()]


def depth_of(graph: TfGraph, op: str, body: str) -> int:
    """The nesting depth of nodes of this op, of which each graph has at most one."""
    depth = 0
    while inner := [item for item in graph.nodes.values() if item.op == op]:
        assert len(inner) == 1
        graph, depth = inner[0].bodies[body], depth + 1
    return depth


@pytest.mark.slow
@pytest.mark.parametrize("in_a_row", [True, False])
def test_thousands_of_loops(in_a_row: bool) -> None:
    g = Sketch()
    ends = [g.add("Placeholder")]
    for _ in range(2000):
        ends.append(g.count_up(ends[-1] if in_a_row else ends[0]))
    graph = g.graph(*(ends[-1:] if in_a_row else ends[1:]))
    with within(10):
        found = structured(graph)
    assert ops(needed(found, [])).count("While") == 2000
    assert not {"Enter", "Merge", "Switch", "NextIteration", "Exit", "LoopCond"} & set(ops(found))


@pytest.mark.slow
def test_two_hundred_nested_loops() -> None:
    g = Sketch()
    value, loops = g.add("Placeholder"), []
    for _ in range(200):
        loop, value = g.open_loop(value)
        loops.append(loop)
    for loop in reversed(loops):
        value = g.close_loop(loop, value)
    graph = g.graph(value)
    with within(5):
        found = structured(graph)
    assert depth_of(found, "While", "body") == 200


@pytest.mark.slow
def test_many_loops_inside_one() -> None:
    g = Sketch()
    loop, value = g.open_loop(g.add("Placeholder"))
    graph = g.graph(g.close_loop(loop, g.add("AddN", *[g.count_up(value) for _ in range(1000)])))
    with within(6):
        found = structured(graph)
    (outer,) = (item for item in found.nodes.values() if item.op == "While")
    assert ops(outer.bodies["body"]).count("While") == 1000


def test_two_loops_of_equal_frame_name(tmp_path: Path) -> None:
    g = TfBuilder()
    x, w = g.input("x", "float32", ()), g.const(2.0, "float32")
    ends = []
    for _ in range(2):
        one, three, zero = g.const(1, "int32"), g.const(3, "int32"), g.const(0, "int32")

        def body(values: list[str], invariants: list[str]) -> list[str]:
            return [g.add("AddV2", values[0], invariants[0]), g.add("Mul", values[1], g.add("Neg", invariants[2]))]

        starts = [zero, ends[-1] if ends else x]
        ends.append(while_v1(g, starts, [one, three, w], lambda v, h: g.add("Less", v[0], h[1]), body)[1])
    for item in g.graph.node:
        if item.op == "Enter":
            item.attr["frame_name"].s = b"while"
    out, first = g.run(tmp_path, {"x": np.array(3, np.float32)}, ends[1], ends[0])
    assert (first, out) == (3 * (-2) ** 3, 3 * (-2) ** 6)


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
def test_thousands_of_successive_conditionals(same: bool) -> None:
    g = Sketch()
    value, p = g.add("Placeholder"), g.add("Placeholder")
    for _ in range(1500):
        p = p if same else g.add("LogicalNot", p)
        value = g.condition(p, value)
    graph = g.graph(value)
    with within(8):
        found = with_conditions(graph)
    assert ops(found).count("If") == 1500
    assert not {"Merge", "Switch"} & set(ops(found))


def test_two_hundred_nested_conditionals() -> None:
    g = Sketch()
    value, p = g.add("Placeholder"), g.add("Placeholder")
    switches = []
    for _ in range(200):
        switches.append(g.add("Switch", value, p))
        value, p = f"{switches[-1]}:1", f"{g.add('Switch', p, p)}:1"
    value = g.add("Neg", value)
    for switched in reversed(switches):
        value = g.add("Merge", switched, value)
    graph = g.graph(value)
    with within(5):
        found = with_conditions(graph)
    assert depth_of(found, "If", "then_branch") == 200


def test_many_values_of_one_conditional_share_their_dependencies() -> None:
    g = Sketch()
    switched = g.add("Switch", g.add("Placeholder"), g.add("Placeholder"))
    shared = f"{switched}:1"
    for _ in range(1000):
        shared = g.add("Abs", shared)
    graph = g.graph(*[g.add("Merge", switched, g.add("Neg", shared)) for _ in range(1000)])
    with within(5):
        found = with_conditions(graph)
    assert ops(found).count("If") == 1
    (branch,) = (item for item in found.nodes.values() if item.op == "If")
    assert ops(branch.bodies["then_branch"]).count("Abs") == 1000


def test_interleaved_conditionals_do_not_depend_on_each_other(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p, q = g.input("x", "float32", ()), g.input("p", "bool", ()), g.input("q", "bool", ())
    first = cond_v1(g, p, x, then=lambda v: g.add("Neg", v), other=lambda v: v, ref="")
    other = cond_v1(g, q, x, then=lambda v: g.add("Square", v), other=lambda v: v, ref="")
    after_first = cond_v1(g, q, first, then=lambda v: g.add("Exp", v), other=lambda v: v, ref="")
    after_other = cond_v1(g, p, other, then=lambda v: g.add("Sqrt", v), other=lambda v: v, ref="")
    run = g.converted(tmp_path, after_first, after_other)
    for a in (True, False):
        for b in (True, False):
            one, two = run({"x": np.array(4, np.float32), "p": np.array(a), "q": np.array(b)})
            value = -4.0 if a else 4.0
            np.testing.assert_allclose(one, np.exp(value) if b else value, rtol=1e-6)
            value = 16.0 if b else 4.0
            np.testing.assert_allclose(two, np.sqrt(value) if a else value, rtol=1e-6)


def test_values_of_a_conditional_depend_on_its_nested_conditional() -> None:
    g = Sketch()
    p, q = g.add("Placeholder"), g.add("Placeholder")
    switched = g.add("Switch", g.add("Placeholder"), p)
    inner = g.condition(f"{g.add('Switch', q, p)}:1", f"{switched}:1")
    ends = [g.add("Merge", switched, side) for side in (g.add("Abs", f"{switched}:1"), inner)]
    assert ops(with_conditions(g.graph(*ends))).count("If") == 1


# --- calls -----------------------------------------------------------------------------------------


def double(g: TfBuilder, name: str, called: str | None) -> Function:
    """Add x → x + x, or with an inner function called twice: x → f(x) + f(x)."""
    body = TfBuilder()
    ends = ["a", "a"]
    if called is not None:
        ends = [body.add("PartitionedCall", "a", f=Function(called)) for _ in range(2)]
    return g.function(name, body, {"a": "float32"}, body.add("AddV2", *ends))


def test_a_function_called_thousands_of_times() -> None:
    g = TfBuilder()
    function = double(g, "twice", None)
    value = g.input("x", "float32", ())
    for _ in range(5000):
        value = g.add("PartitionedCall", value, f=function)
    with within(4):
        found = inlined(g, value)
    assert ops(found).count("AddV2") == 5000


@pytest.mark.slow
def test_calls_that_forward_their_arguments_are_visited_once() -> None:
    g = TfBuilder()
    same = g.function("same", TfBuilder(), {"a": "float32"}, "a")
    value = g.input("x", "float32", ())
    ends = []
    for _ in range(5000):
        value = g.add("PartitionedCall", value, f=same)
        ends.append(value)
    with within(4):
        found = inlined(g, g.add("AddN", *ends, name="sum"))
    assert {ref.node for ref in found.nodes["sum"].inputs} == {"x"}


@pytest.mark.parametrize(("depth", "message"), [(40, "nodes when the functions"), (2000, "nested more than 256 deep")])
def test_calls_that_would_expand_beyond_the_limit_are_refused_beforehand(depth: int, message: str) -> None:
    g = TfBuilder()
    for level in range(depth):
        double(g, f"f{level}", f"f{level - 1}" if level else None)
    value = g.add("PartitionedCall", g.input("x", "float32", ()), f=Function(f"f{depth - 1}"))
    with within(2), pytest.raises(AtcError, match=message) as caught:
        inlined(g, value)
    assert caught.value.code == "R0001"


def test_too_long_names_of_nested_calls_are_refused() -> None:
    g = TfBuilder()
    for level in range(200):
        body = TfBuilder()
        end = body.add("Neg", "a")
        if level:
            end = body.add("PartitionedCall", end, f=Function(f"f{level - 1}"), name="n" * 30_000)
        g.function(f"f{level}", body, {"a": "float32"}, end)
    value = g.add("PartitionedCall", g.input("x", "float32", ()), f=Function("f199"))
    with within(2), pytest.raises(AtcError, match="names of nodes") as caught:
        inlined(g, value)
    assert caught.value.code == "R0001"


def test_branches_that_would_expand_beyond_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from atcpy.parsers.tensorflow import importer

    def nested(depth: int) -> str:
        g = TfBuilder()
        for level in range(depth):
            body = TfBuilder()
            end = body.add("Neg", "a")
            if level:
                inside = Function(f"f{level - 1}")
                end = body.add("If", "p", "p", end, then_branch=inside, else_branch=inside)
            g.function(f"f{level}", body, {"p": "bool", "a": "float32"}, end)
        p, x = g.input("p", "bool", ()), g.input("x", "float32", ())
        last = Function(f"f{depth - 1}")
        g.add("If", p, p, x, name="y", then_branch=last, else_branch=last)
        with pytest.raises(AtcError) as caught:
            g.run(tmp_path, {}, "y")
        assert caught.value.code == "R0001"
        return str(caught.value)

    assert "nodes when the functions that it calls are in place" in nested(30)
    monkeypatch.setattr(importer, "MAX_NODES", 50)
    assert "those of its loops and branches counted" in nested(5)


def test_mutually_recursive_functions_are_reported_by_name() -> None:
    g = TfBuilder()
    for name, called in (("one", "two"), ("two", "three"), ("three", "two")):
        double(g, name, called)
    value = g.add("PartitionedCall", g.input("x", "float32", ()), f=Function("one"))
    with pytest.raises(AtcError, match="functions call each other: two → three → two") as caught:
        inlined(g, value)
    assert caught.value.code == "E2100C"


def test_a_function_is_found_by_its_alias() -> None:
    g = TfBuilder()
    double(g, "__inference_twice_7", None)
    call = node("PartitionedCall", "y", "x", f=Function("twice"))
    g.input("x", "float32", ())
    g.graph.node.append(call)
    library = Library(g.graph.library.function, aliases={"__inference_twice_7": "twice", "nothing": "else"})
    nodes = read_graph(g.graph, [])
    assert ops(inline_calls(TfGraph(nodes, [], [Ref("y", 0)]), library)) == ["Placeholder", "AddV2"]


def test_handles_are_followed_through_deeply_nested_functions() -> None:
    g = TfBuilder()
    depth = 2000
    for level in range(depth):
        body = TfBuilder()
        end = body.add("ReadVariableOp", "v", dtype=Type("float32"))
        if level:
            end = body.add("PartitionedCall", "v", f=Function(f"f{level - 1}"), Tin=[Type("resource")])
        g.function(f"f{level}", body, {"v": "resource"}, end)
    functions = Functions(Library(g.graph.library.function), [])
    name = functions.with_values(f"f{depth - 1}", [(0, DataType.DT_FLOAT)])
    with within(4):
        definitions = {item.signature.name: item for item in functions.library().function}
    assert name == f"f{depth - 1}_frozen" and len(definitions) == depth
    assert [item.op for item in definitions["f0_frozen"].node_def] == ["Identity"]
