"""Packages whose graphs are compiled when they run, damaged: each is run or refused, and nothing else comes out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, PackageCorrupt
from atcpy.om import writer
from atcpy.om.container import Partition
from atcpy.om.reader import parse_package
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.models_in_text import model
from tests.om.mutator import mutate_message, mutate_partition
from tests.runtime import test_hostile_bodies, test_unknown_shapes

CASES = {**test_unknown_shapes.CASES, **test_hostile_bodies.CASES}
NAMES = [
    "data decides the size",
    "an input is a shape",
    "a Range",
    "If in If, constants around",
    "Loop that grows what it carries",
    "Scan backwards over columns",
    "a sequence that a Loop carries",
    "captures through two levels",
    "slices by the number of the iteration",
]


def graph_package(name: str) -> bytes:
    """The package of a case without plans, so that its graph is read and compiled."""
    compiled, _ = compile_model(model(f"m {CASES[name][0]}"), convert_options({}))
    return writer.to_bytes(replace(compiled, clusters=()))


def outcome(mutant: bytes, name: str) -> str:
    """Opens and runs; "ok" or the code of the refusal. Any other error fails the test."""
    try:
        InferenceSession(mutant, threads=1).run(None, CASES[name][1][0])
    except AtcError as error:
        return error.code
    return "ok"


@pytest.mark.parametrize("name", NAMES)
def test_resealed_messages_are_run_or_refused(name: str) -> None:
    whole = graph_package(name)
    rng = random.Random(name)
    seen = {
        outcome(mutate_partition(whole, Partition.MODEL_DEF, lambda m: mutate_message(m, rng)), name)
        for _ in range(trials(50))
    }
    assert "P0005" in seen


@pytest.mark.parametrize("name", ["a Range", "captures through two levels"])
def test_resealed_bytes_are_run_or_refused(name: str) -> None:
    whole = graph_package(name)
    rng = random.Random(name)
    seen = set()
    for extent in [e for e in parse_package(whole).container.extents if e.size] * trials(12):
        mutant = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            mutant[extent.offset + rng.randrange(extent.size)] ^= 1 << rng.randrange(8)
        seen.add(outcome(writer.reseal(bytes(mutant)), name))
    assert seen - {"ok"}


# Case, attribute, and the text that it becomes; without one it goes.
WRONG = [
    ("If in If, constants around", "then_branch", ""),
    ("Loop that grows what it carries", "axis", "Concat"),
    ("Scan backwards over columns", "scan_input_axes", "x"),
]


@pytest.mark.parametrize(("name", "attribute", "text"), WRONG)
def test_graphs_that_no_stage_writes_are_corrupt(name: str, attribute: str, text: str) -> None:
    def change(message: object) -> None:
        for graph in message.graph:  # type: ignore[attr-defined]
            for op in graph.op:
                if attribute in op.attr and text:
                    op.attr[attribute].Clear()
                    op.attr[attribute].s = text.encode()
                elif attribute in op.attr:
                    del op.attr[attribute]

    mutant = mutate_partition(graph_package(name), Partition.MODEL_DEF, change)
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(mutant, threads=1).run(None, CASES[name][1][0])
    assert caught.value.code == "P0005" and str(caught.value.where)


def test_a_constant_of_another_type_than_it_says_is_corrupt() -> None:
    def change(message: object) -> None:
        for op in message.graph[0].op:  # type: ignore[attr-defined]
            if op.type == "Const":
                op.output_desc[0].attr["origin_shape"].list.i.append(3)

    with pytest.raises(PackageCorrupt, match="its value"):
        InferenceSession(mutate_partition(graph_package("a Range"), Partition.MODEL_DEF, change), threads=1)


@pytest.mark.parametrize("op_type", ["NetOutput", "Data"])
def test_a_graph_with_other_ports_than_the_package_lists_is_corrupt(op_type: str) -> None:
    """The session goes by the list: it would hand values of another type, or too few, to plans and callers."""

    def change(message: object) -> None:
        for op in message.graph[0].op:  # type: ignore[attr-defined]
            if op.type == "NetOutput" and op_type == "NetOutput":
                del op.input[-1], op.input_desc[-1]
            if op.type == "Data" and op_type == "Data":
                op.output_desc[0].dtype = 9 if op.output_desc[0].dtype != 9 else 0

    mutant = mutate_partition(graph_package("a Range"), Partition.MODEL_DEF, change)
    with pytest.raises(PackageCorrupt, match="P0005"):
        InferenceSession(mutant, threads=1)
