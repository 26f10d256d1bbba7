"""Conditionals and loops of control flow V2 and V1."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType, TensorProto
from tests.parsers.tensorflow.graphs import Array, Function, TfBuilder, Type

X = np.array([[1.5, -2, 3], [0, 4, -0.5]], np.float32)


def unary(g: TfBuilder, op: str) -> Function:
    body = TfBuilder()
    return g.function(op.lower(), body, {"a": "float32"}, body.add(op, "a"))


@pytest.mark.parametrize("kind", ["If", "StatelessIf"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "uint8"])
def test_an_if_accepts_a_numeric_condition(tmp_path: Path, kind: str, dtype: str) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", dtype, ())
    g.add(kind, p, x, name="y", then_branch=unary(g, "Neg"), else_branch=unary(g, "Abs"))
    run = g.converted(tmp_path, "y")
    for condition in (0, 1, 2):
        (y,) = run({"x": X, "p": np.array(condition).astype(dtype)})
        np.testing.assert_array_equal(y, -X if condition else abs(X))


def test_a_tensor_condition_means_non_empty_and_a_constant_one_selects(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "float32", (None,))
    branches = {"then_branch": unary(g, "Neg"), "else_branch": unary(g, "Abs")}
    g.add("If", p, x, name="y", **branches)
    g.add("If", g.const(0.0, "float32"), x, name="z", **{**branches, "then_branch": unary(g, "Unheard")})
    run = g.converted(tmp_path, "y", "z")
    for size in (0, 1, 2):
        y, z = run({"x": X, "p": np.zeros(size, np.float32)})
        np.testing.assert_array_equal(y, -X if size else abs(X))
        np.testing.assert_array_equal(z, abs(X))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_case_runs_its_last_branch_for_indices_out_of_range(tmp_path: Path, count: int) -> None:
    g = TfBuilder()
    x, k = g.input("x", "float32", (2, 3)), g.input("k", "int32", ())
    ops: list[tuple[str, Callable[[Array], Array]]] = [
        ("Neg", np.negative), ("Abs", np.abs), ("Square", np.square), ("Sign", np.sign), ("Floor", np.floor),
    ]  # fmt: skip
    g.add("StatelessCase", k, x, name="y", branches=[unary(g, op) for op, _ in ops[:count]])
    g.add("Case", g.const(7, "int32"), x, name="z", branches=[unary(g, op) for op, _ in ops[:count]])
    run = g.converted(tmp_path, "y", "z")
    for index in range(-2, count + 2):
        y, z = run({"x": X, "k": np.array(index, np.int32)})
        chosen = index if 0 <= index < count else count - 1
        np.testing.assert_array_equal(y, ops[chosen][1](X))
        np.testing.assert_array_equal(z, ops[count - 1][1](X))


def test_branches_may_return_different_shapes_inputs_and_several_values(tmp_path: Path) -> None:
    g = TfBuilder()
    x, w, p = g.input("x", "float32", (2, 3)), g.input("w", "float32", (4,)), g.input("p", "bool", ())
    types = {"a": "float32", "b": "float32"}
    yes = g.function("yes", TfBuilder(), types, "a", "b")
    body = TfBuilder()
    product = body.add("MatMul", "a", body.add("Transpose", "a", body.const([1, 0], "int32")))
    no = g.function("no", body, types, product, "b")
    g.add("If", p, x, w, name="y", then_branch=yes, else_branch=no)
    run = g.converted(tmp_path, "y:0", "y:1")
    feeds = {"x": X, "w": np.arange(4, dtype=np.float32)}
    y, unchanged = run({**feeds, "p": np.array(True)})
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(unchanged, np.arange(4))
    y, _ = run({**feeds, "p": np.array(False)})
    np.testing.assert_allclose(y, X @ X.T, rtol=1e-6)


def loop(g: TfBuilder, *inputs: str, kind: str = "While", limit_first: bool = False) -> str:
    """`while i < n: i, x, n, w = i + 1, tanh(x · w), n, w`"""
    types = {"i": "int32", "x": "float32", "n": "int32", "w": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    less = cond.add("Greater", "n", "i") if limit_first else cond.add("Less", "i", "n")
    number = len(g.graph.library.function)
    test = g.function(f"cond{number}", cond, types, cond.add("Identity", less))
    product = body.add("Tanh", body.add("MatMul", "x", "w"))
    following = body.add("Identity", body.add("AddV2", "i", body.const(1, "int32")))
    body_function = g.function(f"body{number}", body, types, following, product, "n", body.add("Identity", "w"))
    return g.add(kind, *inputs, cond=test, body=body_function)


W = np.array([[0.5, -0.2, 0.1], [0.3, 0.8, -0.6], [0.0, 0.4, 0.9]], np.float32)


def iterated(count: int) -> Array:
    y = X
    for _ in range(count):
        y = np.tanh(y @ W)
    return y


@pytest.mark.parametrize("kind", ["While", "StatelessWhile"])
def test_a_while_runs_as_often_as_its_condition_holds(tmp_path: Path, kind: str) -> None:
    g = TfBuilder()
    x, n = g.input("x", "float32", (2, 3)), g.input("n", "int32", ())
    y = loop(g, g.const(1, "int32"), x, n, g.const(W), kind=kind, limit_first=kind == "While")
    run = g.converted(tmp_path, f"{y}:0", f"{y}:1", f"{y}:2")
    for count in (0, 1, 2, 5):
        i, out, limit = run({"x": X, "n": np.array(count, np.int32)})
        np.testing.assert_allclose(out, iterated(max(count - 1, 0)), rtol=1e-5)
        assert (i, limit) == (max(count, 1), count)


def test_a_while_with_changing_shapes(tmp_path: Path) -> None:
    g = TfBuilder()
    types = {"x": "float32", "s": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    test = g.function("cond", cond, types, cond.add("Less", "s", cond.const(10.0, "float32")))
    longer = body.add("ConcatV2", "x", "x", body.const(0, "int32"))
    total = body.add("Sum", longer, body.const([0], "int32"), keep_dims=False)
    body_function = g.function("body", body, types, longer, total)
    y = g.add("While", g.input("x", "float32", (2,)), g.const(0.0, "float32"), cond=test, body=body_function)
    x = np.array([1, 0.5], np.float32)
    out, total_out = g.run(tmp_path, {"x": x}, f"{y}:0", f"{y}:1")
    np.testing.assert_array_equal(out, np.tile(x, 8))
    assert total_out == 12


def test_nested_loops_with_function_calls(tmp_path: Path) -> None:
    g = TfBuilder()
    types = {"i": "int32", "x": "float32", "n": "int32", "w": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    test = g.function("outer_cond", cond, types, cond.add("LessEqual", "i", cond.const(2, "int32")))
    inner = TfBuilder()
    inner.graph.library.CopyFrom(g.graph.library)
    y = loop(inner, "zero", "x", "n", "w")
    g.graph.library.CopyFrom(inner.graph.library)
    inner_node = inner.graph.node[-1]
    zero = body.const(0, "int32", name="zero")
    inner_node.input[0] = zero
    body.graph.node.append(inner_node)
    called = g.function("negated", (negated := TfBuilder()), {"a": "float32"}, negated.add("Neg", "a"))
    result = body.add("PartitionedCall", f"{y}:output:1", f=called)
    following = body.add("AddV2", "i", body.const(1, "int32"))
    body_function = g.function("outer_body", body, types, following, result, "n", "w")
    x, n = g.input("x", "float32", (2, 3)), g.input("n", "int32", ())
    end = g.add("While", g.const(1, "int32"), x, n, g.const(W), cond=test, body=body_function)
    (out,) = g.run(tmp_path, {"x": X, "n": np.array(3, np.int32)}, f"{end}:1")
    expected = X
    for _ in range(2):
        for _ in range(3):
            expected = np.tanh(expected @ W)
        expected = -expected
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_inconsistent_branches_and_loops_are_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    g.add("If", p, x, name="unknown", then_branch=unary(g, "Unheard"), else_branch=unary(g, "Abs"))
    g.add("If", p, x, name="missing", then_branch=Function("nowhere"), else_branch=unary(g, "Abs"))
    body = TfBuilder()
    of_ints = g.function("ints", body, {"a": "float32"}, body.add("Cast", "a", DstT=Type("int32")))
    g.add("If", p, x, name="types", then_branch=of_ints, else_branch=unary(g, "Abs"))
    g.add("If", p, x, x, name="arguments", then_branch=unary(g, "Neg"), else_branch=unary(g, "Abs"))
    g.add("Case", g.const(1, "int32"), x, name="empty", branches=[])
    g.add("While", x, name="loop", cond=unary(g, "Abs"), body=of_ints)
    g.add("Switch", x, p, name="switch")
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "unknown", "missing", "types", "arguments", "empty", "loop", "switch")
    reported = [(problem.code, problem.where.node) for problem in caught.value.problems if problem.where]
    assert reported == [
        ("E19010", "n0"), ("E12013", "missing"), ("E13014", "types"), ("E12009", "arguments"), ("E13014", "empty"),
        ("E13014", "loop"), ("E10055", "switch"),
    ]  # fmt: skip


def test_a_recursive_function_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    body = TfBuilder()
    again = body.add("If", "p", "p", "x", then_branch=Function("again"), else_branch=Function("again"))
    g.function("again", body, {"p": "bool", "x": "float32"}, again)
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    g.add("PartitionedCall", p, x, name="y", f=Function("again"))
    with pytest.raises(AtcError, match="call each other") as caught:
        g.run(tmp_path, {}, "y")
    assert caught.value.code == "E2100C"


# --- control flow V1 -----------------------------------------------------------------------------


def cond_v1(g: TfBuilder, p: str, x: str, *, then: Callable[[str], str], other: Callable[[str], str], ref: str) -> str:
    """Add the nodes that tf.compat.v1.cond writes."""
    scope = f"cond_{len(g.graph.node)}"
    pred = g.add("Identity", p, name=f"{scope}/pred_id")
    pivot = g.add("Switch", p, p, name=f"{scope}/Switch")
    g.add("Identity", f"{pivot}:1", name=f"{scope}/switch_t")
    g.add("Identity", pivot, name=f"{scope}/switch_f")
    switched = g.add(f"{ref}Switch", x, pred)
    return g.add(f"{ref}Merge", other(switched), then(f"{switched}:1"), N=2)


@pytest.mark.parametrize("ref", ["", "Ref"])
def test_switch_and_merge_become_an_if(tmp_path: Path, ref: str) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    y = cond_v1(g, p, x, then=lambda v: g.add("Neg", v), other=lambda v: v, ref=ref)
    z = cond_v1(g, p, y, then=lambda v: v, other=lambda v: g.add("Abs", v), ref=ref)
    run = g.converted(tmp_path, y, z, f"{z}:1")
    for condition in (True, False):
        outs = run({"x": X, "p": np.array(condition)})
        np.testing.assert_array_equal(outs[0], -X if condition else X)
        np.testing.assert_array_equal(outs[1], -X if condition else abs(X))
        assert outs[2] == int(condition) and outs[2].dtype == np.int32


def test_nested_conditionals_with_constants_and_a_constant_condition(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p, q = g.input("x", "float32", (2, 3)), g.input("p", "bool", ()), g.input("q", "bool", ())

    def inner(value: str) -> str:
        chosen = g.add("Switch", q, p)  # as the context of the outer tf.cond adds it
        return cond_v1(
            g, f"{chosen}:1", value, then=lambda v: g.add("Neg", v), other=lambda _: constant_in_branch(), ref=""
        )

    def constant_in_branch() -> str:
        name = next(n.name for n in reversed(g.graph.node) if n.name.endswith("switch_f"))
        return g.add("Identity", _const(g, np.full(X.shape, 7, np.float32), f"^{name}"))

    y = cond_v1(g, p, x, then=inner, other=lambda v: g.add("Abs", v), ref="")
    taken = cond_v1(g, g.const(True), x, then=lambda v: g.add("Neg", v), other=lambda v: g.add("Unheard", v), ref="")
    run = g.converted(tmp_path, y, taken)
    for a in (True, False):
        for b in (True, False):
            out, out_taken = run({"x": X, "p": np.array(a), "q": np.array(b)})
            np.testing.assert_array_equal(out, (-X if b else np.full_like(X, 7)) if a else abs(X))
            np.testing.assert_array_equal(out_taken, -X)


def _const(g: TfBuilder, value: Array, control: str) -> str:
    name = g.const(value)
    g.graph.node[-1].input.append(control)
    return name


def while_v1(
    g: TfBuilder,
    starts: list[str],
    invariants: list[str],
    cond: Callable[[list[str], list[str]], str],
    body: Callable[[list[str], list[str]], list[str]],
) -> list[str]:
    """Add the nodes that tf.compat.v1.while_loop writes; return the Exit nodes."""
    scope = f"while_{len(g.graph.node)}"

    def enter(value: str, *, constant: bool) -> str:
        return g.add("Enter", value, frame_name=scope, is_constant=constant)

    merges = []
    for index, start in enumerate(starts):
        entered = enter(start, constant=False)
        merges.append(g.add("Merge", entered, f"{scope}/next_{index}", N=2))
    test = g.add(
        "LoopCond", cond(merges, [enter(value, constant=True) for value in invariants]), name=f"{scope}/LoopCond"
    )
    switches = [g.add("Switch", merge, test) for merge in merges]
    inside = [g.add("Identity", f"{switch}:1") for switch in switches]
    for index, value in enumerate(body(inside, [enter(value, constant=True) for value in invariants])):
        g.add("NextIteration", value, name=f"{scope}/next_{index}")
    return [g.add("Exit", switch) for switch in switches]


def test_nested_v1_loops_become_loops(tmp_path: Path) -> None:
    g = TfBuilder()
    x, n = g.input("x", "float32", (2, 3)), g.input("n", "int32", ())
    one = g.const(1, "int32")

    def body(values: list[str], invariants: list[str]) -> list[str]:
        i, y = values
        inner = while_v1(
            g,
            [_const(g, np.array(0, np.int32), f"^{i}"), y],
            [invariants[1], i],
            lambda v, h: g.add("Less", v[0], h[1]),
            lambda v, h: [
                g.add("AddV2", v[0], _const(g, np.array(1, np.int32), f"^{v[0]}")),
                g.add("Tanh", g.add("MatMul", v[1], h[0])),
            ],
        )
        less = g.add("Less", i, _const(g, np.array(2, np.int32), f"^{i}"))
        negated = cond_v1(g, less, inner[1], then=lambda v: g.add("Neg", v), other=lambda v: v, ref="")
        return [g.add("AddV2", i, invariants[0]), negated]

    ends = while_v1(
        g, [g.const(0, "int32"), x], [one, g.const(W), n], lambda v, h: g.add("LessEqual", v[0], h[2]), body
    )
    run = g.converted(tmp_path, *ends)
    for count in (-1, 0, 3):
        i, out = run({"x": X, "n": np.array(count, np.int32)})
        expected = X
        for number in range(count + 1):
            for _ in range(number):
                expected = np.tanh(expected @ W)
            expected = -expected if number < 2 else expected
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
        assert i == count + 1


def test_a_conditional_between_constants_stays_in_its_loop(tmp_path: Path) -> None:
    g = TfBuilder()
    x, n, p = g.input("x", "float32", (2, 3)), g.input("n", "int32", ()), g.input("p", "bool", ())

    def body(values: list[str], invariants: list[str]) -> list[str]:
        pivot = g.add("Switch", invariants[1], invariants[1])
        yes, no = g.add("Identity", f"{pivot}:1"), g.add("Identity", pivot)
        two = _const(g, np.array(2, np.float32), f"^{yes}")
        chosen = g.add("Merge", _const(g, np.array(3, np.float32), f"^{no}"), g.add("Neg", two), N=2)
        return [g.add("AddV2", values[0], invariants[0]), g.add("Mul", values[1], chosen)]

    one, zero = g.const(1, "int32"), g.const(0, "int32")
    end = while_v1(g, [zero, x], [one, p, n], lambda v, h: g.add("Less", v[0], h[2]), body)[1]
    run = g.converted(tmp_path, end)
    for condition, factor in ((True, -2), (False, 3)):
        for count in (0, 1, 3):
            (out,) = run({"x": X, "n": np.array(count, np.int32), "p": np.array(condition)})
            np.testing.assert_array_equal(out, X * np.float32(factor**count))


def test_control_flow_pivots_are_not_graph_outputs(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    y = cond_v1(g, p, x, then=lambda v: g.add("Neg", v), other=lambda v: v, ref="")
    path, package = tmp_path / "m.pb", tmp_path / "m.om"
    path.write_bytes(g.graph.SerializeToString())
    atcpy.convert(str(path), str(package))
    assert [o.name for o in atcpy.InferenceSession(str(package)).get_outputs()] == [f"{y}:0"]


def test_nodes_with_only_control_inputs_are_assigned_to_their_branch(tmp_path: Path) -> None:
    g = TfBuilder()
    g.input("x", "float32", ())
    p = g.input("p", "bool", ())
    pivot = g.add("Switch", p, p, name="pivot")
    g.add("Identity", f"{pivot}:1", name="yes")
    g.add("Identity", pivot, name="no")
    g.add("NoOp", "^no", name="mark")
    one, two = _const(g, np.array(1, np.float32), "^yes"), _const(g, np.array(2, np.float32), "^mark")
    y = g.add("Merge", one, two, N=2)
    z = g.add("Merge", two, g.add("Identity", one), N=2)
    run = g.converted(tmp_path, y, f"{y}:1", z, f"{z}:1")
    assert run({"p": np.array(True)}) == [1, 0, 1, 1]
    assert run({"p": np.array(False)}) == [2, 1, 2, 0]


def test_a_loop_with_constants_in_both_branches_and_a_value_read_only_by_its_condition(tmp_path: Path) -> None:
    g = TfBuilder()
    start, n = g.input("start", "int32", ()), g.input("n", "int32", ())

    def body(values: list[str], _: list[str]) -> list[str]:
        i, total, _ = values
        is_small = g.add("Less", total, _const(g, np.array(3, np.int32), f"^{i}"))
        pivot = g.add("Switch", is_small, is_small)
        sides = g.add("Identity", f"{pivot}:1"), g.add("NoOp", f"^{g.add('Identity', pivot)}")
        one, two = (_const(g, np.array(1 + index, np.int32), f"^{side}") for index, side in enumerate(sides))
        added = g.add("AddV2", total, g.add("Merge", two, one, N=2))
        goes_on = g.add("Less", added, _const(g, np.array(9, np.int32), f"^{i}"))
        return [g.add("AddV2", i, _const(g, np.array(1, np.int32), f"^{i}")), added, goes_on]

    def goes_on(values: list[str], invariants: list[str]) -> str:
        return g.add("LogicalAnd", g.add("Less", values[0], invariants[0]), values[2])

    starts = [g.const(0, "int32"), start, g.const(True)]
    iterations, total, unread = while_v1(g, starts, [n], goes_on, body)
    exits = {node.name: node for node in g.graph.node if node.name == unread}
    dropped = {unread, exits[unread].input[0]}  # Grappler prunes the Switch of a value that is unused after the loop
    remaining = [
        node for node in g.graph.node if node.name not in dropped and not dropped & {i[:-2] for i in node.input}
    ]
    del g.graph.node[:]
    g.graph.node.extend(remaining)
    run = g.converted(tmp_path, iterations, total)
    for first, max_iterations in ((0, 20), (0, 2), (4, 20), (1, 0)):
        expected, count = first, 0
        while count < max_iterations and (expected < 9 or not count):
            expected, count = expected + (1 if expected < 3 else 2), count + 1
        assert run({"start": np.array(first, np.int32), "n": np.array(max_iterations, np.int32)}) == [count, expected]


def test_a_lowered_case_is_recognised(tmp_path: Path) -> None:
    g = TfBuilder()
    x, k = g.input("x", "float32", (2, 3)), g.input("k", "int32", ())
    sides = g.add("_SwitchN", x, k, num_outs=3)
    y = g.add("Merge", g.add("Neg", sides), f"{sides}:1", g.add("Abs", f"{sides}:2"), N=3)
    run = g.converted(tmp_path, y)
    for index, expected in ((0, -X), (1, X), (2, abs(X)), (-1, abs(X)), (9, abs(X))):
        np.testing.assert_array_equal(run({"x": X, "k": np.array(index, np.int32)})[0], expected)


@pytest.mark.parametrize(
    ("op", "inputs", "code"),
    [
        ("Switch", ["x"], "E12009"),
        ("LoopCond", [], "E12009"),
        ("Merge", ["x"], "E10055"),
        ("Merge", ["x", "y"], "E10055"),
    ],
)
def test_malformed_v1_loops_are_reported(tmp_path: Path, op: str, inputs: list[str], code: str) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    g.add("Abs", x, name="y")
    g.add("Merge", g.add(op, *inputs), g.add("Switch", x, p), name="z", N=2)
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "z")
    assert caught.value.code == code


def test_a_v1_loop_without_an_exit_is_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    test = g.add("LoopCond", p)
    g.add("Exit", g.add("Switch", x, test), name="y")
    with pytest.raises(AtcError, match="without Enter") as caught:
        g.run(tmp_path, {}, "y")
    assert caught.value.code == "E13014"


def test_nodes_with_missing_inputs_or_attributes_are_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    x, n = g.input("x", "float32", (2, 3)), g.input("n", "int32", ())
    g.add("Tanh", name="empty")
    g.add("Pack", name="nothing", N=1)
    g.add("If", n, x, name="nameless", then_branch=unary(g, "Neg"))
    loop(g, g.const(0, "int32"), x, n, g.const(W))
    functions = {function.signature.name: function for function in g.graph.library.function}
    less = next(item for item in functions["cond1"].node_def if item.op == "Less")
    del less.input[1]
    ring = functions["cond1"].node_def.add(name="ring", op="LogicalAnd", input=["ring:z:0", "ring:z:0"])
    g.graph.node[-1].name = "loop"
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "empty", "nothing", "nameless", "loop:1")
    reported = [(problem.code, problem.where.node) for problem in caught.value.problems if problem.where]
    assert reported == [("E12009", "empty"), ("E12009", "nothing"), ("E13014", "nameless"), ("E12009", less.name)]
    functions["cond1"].ret["r0"] = f"{ring.name}:z:0"
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "loop:1")
    assert caught.value.code == "E13014"


def test_a_non_numeric_loop_step_is_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    types = {"i": "int32"}
    cond, body = TfBuilder(), TfBuilder()
    less = g.function("less", cond, types, cond.add("Less", "i", cond.const(3, "int32")))
    step = body.add("Const", value=TensorProto(dtype=DataType.DT_STRING), dtype=Type("string"))
    body_function = g.function("body", body, types, body.add("AddV2", "i", step))
    g.add("While", g.input("i", "int32", ()), name="y", cond=less, body=body_function)
    with pytest.raises(AtcError, match="text"):
        g.run(tmp_path, {}, "y")


def test_unread_results_of_branches_and_loops_are_not_imported(tmp_path: Path) -> None:
    """Training graphs return values for gradients from ops that exist only for them."""
    g = TfBuilder()
    x, p = g.input("x", "float32", (2, 3)), g.input("p", "bool", ())
    branches = []
    for name, op in (("yes", "Neg"), ("no", "Abs")):
        body = TfBuilder()
        optional, result = body.add("OptionalFromValue", "a"), body.add(op, "a")
        branches.append(g.function(name, body, {"a": "float32"}, optional, result))
    g.add("If", p, x, name="y", then_branch=branches[0], else_branch=branches[1])
    types = {"unread": "float32", "i": "int32", "kept": "float32", "x": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    less = g.function("less", cond, types, cond.add("Less", "i", cond.const(3, "int32")))
    one = body.const(1, "int32")
    results = [body.add("Unheard", "unread", "x"), body.add("AddV2", "i", one), body.add("Neg", "x")]
    body_function = g.function("body", body, types, *results[:2], results[2], body.add("AddV2", "x", "kept"))
    g.add("While", x, g.const(0, "int32"), x, x, name="z", cond=less, body=body_function)
    run = g.converted(tmp_path, "y:1", "z:3")
    for condition in (False, True):
        y, z = run({"x": X, "p": np.array(condition)})
        np.testing.assert_array_equal(y, -X if condition else abs(X))
        np.testing.assert_array_equal(z, -X)  # x, x → −x, 2x → −2x, x → −x, −x
