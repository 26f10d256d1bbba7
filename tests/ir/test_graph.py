"""Graph: links, order and names stay right under every mutator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import InternalError
from atcpy.ir import Graph, Tensor, erase_dead
from atcpy.ir.dump import dump
from atcpy.ir.verify import verify, violations


def chain(length: int) -> Graph:
    """Data → Relu × length → NetOutput."""
    graph = Graph("chain")
    value = graph.append("Data", (), {"index": 0}, outputs=("x",)).output
    for index in range(length):
        value = graph.append("Relu", [value], name=f"r{index}").output
    graph.append("NetOutput", [value], outputs=())
    return graph


def test_names_that_are_taken_get_a_number() -> None:
    graph = Graph("g")
    assert [graph.append("Relu", name="a").name for _ in range(3)] == ["a", "a.1", "a.2"]
    assert graph.append("Relu", name="a.1").name == "a.1.1"


def test_replace_uses_moves_every_reader() -> None:
    graph = chain(2)
    x, r0, r1, out = graph.nodes
    graph.replace_uses(r0.output, x.output)
    assert [use.node for use in x.output.uses] == [r0, r1]
    assert r0.output.use_count == 0
    assert list(violations(graph)) == []
    assert out.operand(0) is r1.output


def test_a_value_read_twice_has_two_uses() -> None:
    graph = chain(1)
    r0 = list(graph.nodes)[1]
    add = graph.insert_after(r0, "Add", [r0.output, r0.output])
    assert [use.input_index for use in r0.output.uses if use.node is add] == [0, 1]


def test_erasing_while_walking_skips_nothing() -> None:
    graph = chain(5)
    out = graph.net_output
    x = next(graph.nodes)
    graph.set_input(out, 0, x.output)
    visited = []
    for node in graph.nodes:
        visited.append(node.name)
        if node.name == "r0":
            erase_dead(graph, [n for n in list(graph.nodes) if n.name == "r4"])
    assert visited == ["Data", "r0", "NetOutput"]
    assert len(graph) == 2


def test_a_walk_over_some_ops_sees_what_is_inserted_behind_it_and_nothing_that_was_erased() -> None:
    graph = chain(5)
    x, r0 = list(graph.nodes)[:2]
    graph.set_input(graph.net_output, 0, r0.output)
    visited = []
    for node in graph.nodes_of("Relu", "Neg"):
        visited.append(node.name)
        if node.name == "r0":
            erase_dead(graph, [n for n in list(graph.nodes) if n.name == "r4"])
            graph.insert_after(x, "Neg", [x.output], name="before")
            graph.append("Neg", [x.output], name="other", domain="mine", before=graph.net_output)
            graph.append("Neg", [x.output], name="behind", before=graph.net_output)
    assert visited == ["r0", "behind"]
    assert not list(graph.nodes_of("Abs"))


@pytest.mark.parametrize("walked", [(), ("Relu", "NetOutput")], ids=["all", "by-type"])
@pytest.mark.parametrize(
    "erased",
    [["r1"], ["r2"], ["r1", "r2"], ["r2", "r1"], ["r1", "r2", "r3"], ["r3", "r2", "r1"], ["r0", "r1", "r2", "r3"]],
    ids="-".join,
)
def test_a_walk_goes_on_behind_every_run_of_erased_nodes(erased: list[str], walked: tuple[str, ...]) -> None:
    graph = chain(5)
    x = next(graph.nodes).output
    for node in graph.nodes:
        for input_index in range(node.input_count):
            graph.set_input(node, input_index, x)
    visited = []
    for node in graph.nodes_of(*walked) if walked else graph.nodes:
        visited.append(node.name)
        if node.name == "r1":
            for name in erased:
                graph.erase(next(other for other in list(graph.nodes) if other.name == name))
    behind = [name for name in ("r2", "r3", "r4", "NetOutput") if name not in erased]
    assert visited == [*([] if walked else ["Data"]), "r0", "r1", *behind]


def test_dead_nodes_take_what_only_they_read() -> None:
    graph = chain(3)
    out = graph.net_output
    r0 = list(graph.nodes)[1]
    graph.set_input(out, 0, r0.output)
    dead = list(graph.nodes)[3]
    dead.sources = ("source",)
    assert erase_dead(graph, [dead], "dead") == 2
    assert graph.decisions.removed == {"source": "dead"}
    assert [node.name for node in graph.nodes] == ["Data", "r0", "NetOutput"]


def test_verify_names_the_pass_and_the_node() -> None:
    graph = chain(2)
    data, r0, r1, net_output = graph.nodes
    graph.reorder([data, r1, r0, net_output])
    with pytest.raises(InternalError, match="pass Shuffle broke the graph: r1 reads r0 before it is computed"):
        verify(graph, "Shuffle")


@pytest.mark.slow
def test_a_long_chain_is_no_recursion() -> None:
    graph = chain(100_000)
    assert list(violations(graph)) == []
    assert dump(graph).count("\n") == 100_002
    graph.set_input(graph.net_output, 0, next(graph.nodes).output)
    assert erase_dead(graph, [list(graph.nodes)[-2]]) == 100_000


@given(steps=st.lists(st.tuples(st.sampled_from("iae"), st.integers(0, 100)), max_size=40))
def test_any_sequence_of_changes_keeps_the_invariants(steps: list[tuple[str, int]]) -> None:
    graph = chain(3)
    for step, pick in steps:
        inner = [node for node in graph.nodes if node.op_type == "Relu"]
        if not inner:
            break
        node = inner[pick % len(inner)]
        if step == "i":
            new = graph.append("Relu", [node.operand(0)], before=node)
            graph.set_input(node, 0, new.output)
        elif step == "a":
            const = graph.add_const(Tensor.of([1.0]), "c", before=node)
            graph.append("Add", [node.operand(0), const], before=node)
        else:
            graph.replace_uses(node.output, node.operand(0))
            graph.erase(node)
        assert list(violations(graph)) == []
