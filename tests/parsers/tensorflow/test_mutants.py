"""Corrupted graphs, checkpoints and SavedModels, and graphs that exceed limits."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import Function, TfBuilder, Type
from tests.parsers.tensorflow.mutants import damage_file, mutant, problem
from tests.parsers.tensorflow.random_graphs import random_graph
from tests.parsers.tensorflow.scores import write_scores

FLOAT, BOOL = Type("float32"), Type("bool")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_corrupted_graphs_give_a_package_or_an_error(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "g.pb"
    for index in range(8):
        graph = random_graph(5000 + 100 * seed + index).builder.graph
        for number in range(5):
            path.write_bytes(mutant(graph, chance).SerializeToString())
            if number == 4:
                damage_file(path, chance)
            assert not problem(path, tmp_path, f"seed {seed}, graph {index}, mutant {number}")


def test_corrupted_saved_models_give_a_package_or_an_error(tmp_path: Path) -> None:
    chance = random.Random(4)
    write_scores(tmp_path / "good")
    for number in range(40):
        folder = tmp_path / "bad"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "good", folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for _ in range(chance.choice([1, 1, 2])):
            path = chance.choice(files)
            if not path.exists():
                continue
            if chance.random() < 0.2:
                shutil.copy(chance.choice([other for other in files if other.exists()]), tmp_path / "other")
                shutil.move(tmp_path / "other", path)
            else:
                damage_file(path, chance)
        assert not problem(folder, tmp_path, f"copy {number}")


def test_branches_that_expand_beyond_the_limit_are_refused_immediately(tmp_path: Path) -> None:
    g, body = TfBuilder(), TfBuilder()
    x, p = g.input("x", "float32", (4,)), g.input("p", "bool", ())
    types = {"p": "bool", "a": "float32"}
    g.function("f0", body, types, body.add("Relu", "a"))
    for depth in range(1, 40):
        body = TfBuilder()
        branches = {name: Function(f"f{depth - 1}") for name in ("then_branch", "else_branch")}
        g.function(f"f{depth}", body, types, body.add("StatelessIf", "p", "p", "a", Tout=[FLOAT], **branches))
    branches = {name: Function("f39") for name in ("then_branch", "else_branch")}
    g.add("StatelessIf", p, p, x, name="y", Tin=[BOOL, FLOAT], Tout=[FLOAT], **branches)
    with pytest.raises(AtcError, match="nodes when the functions that it calls are in place") as caught:
        g.run(tmp_path, {}, "y")
    assert caught.value.code == "R0001"


def test_a_node_with_too_many_inputs_is_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (4,))
    g.add("SelectV2", g.input("p", "bool", ()), x, x, x, name="y")
    with pytest.raises(AtcError, match="it has 4 inputs, 3 are needed"):
        g.run(tmp_path, {}, "y")


def test_an_integer_input_of_is_finite_is_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("IsFinite", g.input("x", "int32", (4,)), name="y")
    with pytest.raises(AtcError, match='inf is no number of the type of "x", int32'):
        g.run(tmp_path, {}, "y")


@pytest.mark.parametrize(
    ("op", "shapes", "code"),
    [
        ("Reverse", [(2, 3), ()], "E10055"),
        ("CombinedNonMaxSuppression", [(5, 4), (5,), (), (), (), ()], "EZ8888"),
        ("MatrixSetDiag", [(3,), ()], "E13014"),
    ],
)
def test_inputs_of_wrong_rank_are_reported(op: str, shapes: list[tuple[int, ...]], code: str, tmp_path: Path) -> None:
    g = TfBuilder()
    inputs = [g.input(f"x{index}", "float32", shape) for index, shape in enumerate(shapes)]
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, g.add(op, *inputs))
    assert caught.value.code == code


def test_constants_of_wrong_rank_are_reported(tmp_path: Path) -> None:
    g = TfBuilder()
    x, w = g.input("x", "float32", (1, 4, 4, 2)), g.const(np.zeros((3, 3, 5, 2), np.float32))
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    g.add("Conv2DBackpropInput", g.const(7, "int32"), w, x, name="y", **attrs)
    g.add("SegmentMean", x, g.const(0, "int32"), name="z")
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "y", "z")
    assert {problem.code for problem in caught.value.problems} <= {"E13014", "EZ8888"}


def test_expressions_similar_to_gelu_are_not_rewritten(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (3,))
    tail = g.add("Erfc", g.add("Mul", g.add("Neg", x), g.const(np.float32(np.sqrt(0.5)))))
    odd = g.add("Mul", g.add("Mul", x, g.const(np.float32(0.5))), tail, T=g.graph.node[0].attr["shape"].shape)
    (y,) = g.run(tmp_path, {"x": np.float32([1, 2, 3])}, odd)
    np.testing.assert_allclose(y, [0.8413447, 1.9544997, 2.9959503], 1e-6)


@pytest.mark.parametrize("count", [2000])
def test_long_chains_are_read(count: int, tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (3,))
    for _ in range(count):
        x = g.add("Neg", x)
    (y,) = g.run(tmp_path, {"x": np.float32([1, 2, 3])}, x)
    np.testing.assert_array_equal(y, np.float32([1, 2, 3]) * (-1) ** count)
