"""Running packages with gears: the choice by shape, shapes that are no gear, and packages whose gears are a lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import PackageCorrupt, UsageError
from atcpy.ir import CompiledModel, DType, Gear, Port, TensorDesc
from atcpy.kernels import _kernels
from atcpy.om import writer
from atcpy.om.inout import GearInfo
from atcpy.options import GearKind, Gears, convert_options
from atcpy.runtime.plan import ExecutionPlan
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

RELU = "m (float[b,3] x) => (float[b,3] y) { y = Relu(x) }"
TWO = "m (float[b,n] x, float[n] c) => (float[b,n] y) { t = Exp(x) y = Add(t, c) }"


def compiled(text: str = RELU, **options: object) -> CompiledModel:
    chosen = options or {"input_shape": "x:-1,3", "dynamic_batch_size": "1,2,4"}
    return compile_model(model(text), convert_options(chosen))[0]


def session_of(compiled_model: CompiledModel) -> InferenceSession:
    return InferenceSession(writer.to_bytes(compiled_model), threads=1)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def test_ports_tell_the_gears() -> None:
    session = session_of(compiled(TWO, input_shape="x:-1,-1;c:-1", dynamic_dims="1,3,3;2,5,5"))
    x, c = session.get_inputs()
    assert (x.shape, x.gears) == (("b", "n"), ((1, 3), (2, 5)))
    assert (c.shape, c.gears) == (("n",), ((3,), (5,)))
    [y] = session.get_outputs()
    assert (y.shape, y.gears) == (("b", "n"), ((1, 3), (2, 5)))


def test_a_shape_that_is_no_gear_is_refused_with_the_gears_and_the_session_goes_on() -> None:
    session = session_of(compiled())
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            session.run(None, {"x": ones(3, 3)})
        assert caught.value.code == "E10405"
        assert 'input "x" has no gear of the shape [3, 3]' in caught.value.what
        assert caught.value.hint == "the gears are 1; 2; 4"
        assert session.run(None, {"x": ones(4, 3)})[0].shape == (4, 3)


def test_shapes_of_different_gears_are_refused() -> None:
    session = session_of(compiled(TWO, input_shape="x:-1,-1;c:-1", dynamic_dims="1,3,3;2,5,5"))
    with pytest.raises(UsageError) as caught:
        session.run(None, {"x": ones(2, 3), "c": ones(3)})
    assert 'input "x" has no gear of the shape [2, 3]' in caught.value.what
    # Each alone is that of a gear: the model calls their dims differently, so that only the gears can tell.
    text = "m (float[b,4] x, float[n] c) => (float[b,4] y, float[n] d) { y = Exp(x) d = Neg(c) }"
    session = session_of(compiled(text, input_shape="x:-1,4;c:-1", dynamic_dims="1,3;2,5"))
    with pytest.raises(UsageError) as caught:
        session.run(None, {"x": ones(1, 4), "c": ones(5)})
    assert "no gear of the shapes x [1, 4], c [5]" in caught.value.what


@pytest.mark.parametrize(
    ("array", "code"),
    [(ones(2, 4), "E10405"), (ones(2), "E10402"), (np.ones((2, 3), np.float64), "E10403")],
    ids=["size", "rank", "type"],
)
def test_what_fits_no_gear_at_all_is_refused_as_ever(array: object, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        session_of(compiled()).run(None, {"x": array})
    assert caught.value.code == code


@pytest.mark.slow
def test_a_hundred_gears() -> None:
    session = session_of(compiled(input_shape="x:-1,3", dynamic_batch_size=list(range(1, 101))))
    for batch in (1, 50, 100):
        assert session.run(None, {"x": ones(batch, 3)})[0].shape == (batch, 3)
    with pytest.raises(UsageError, match="E10405"):
        session.run(None, {"x": ones(101, 3)})


def test_profile_times_the_tasks_of_the_gear() -> None:
    session = session_of(compiled())
    assert len(session.tasks) == 3
    assert [item.runs for item in session.profile({"x": ones(2, 3)})] == [1]


Change = Callable[[tuple[Gear, ...]], tuple[Gear, ...]]


def each(**values: object) -> Change:
    return lambda gears: tuple(replace(gear, **values) for gear in gears)  # type: ignore[arg-type]


LYING: dict[str, Change] = {
    "more tasks": each(task_count=2),
    "fewer tasks": each(task_count=0),
    "negative tasks": lambda gears: (replace(gears[0], task_count=-1), replace(gears[1], task_count=3), gears[2]),
    "negative arena": each(arena_bytes=-1),
    "a huge arena": each(arena_bytes=2**62),
    "a gear less": lambda gears: gears[:2],
    "smaller inputs": lambda gears: tuple(replace(gear, sizes=(gear.sizes[0] + 1,)) for gear in gears[::-1]),
    "equal gears": each(sizes=(2,)),
    "larger outputs": each(outputs=((100, 3),)),
    "smaller outputs": each(outputs=((1, 3),)),
    "an output that contradicts the port": each(outputs=((1, 4),)),
    "an output of another rank": each(outputs=((3,),)),
    "a negative output": each(outputs=((-1, 3),)),
    "two outputs": each(outputs=((1, 3), (1, 3))),
    "no output": each(outputs=()),
}


@pytest.mark.parametrize("change", LYING.values(), ids=LYING)
def test_gears_that_lie_are_refused_at_load(change: Change) -> None:
    compiled_model = compiled()
    with pytest.raises(PackageCorrupt) as caught:
        session_of(replace(compiled_model, gears=change(compiled_model.gears)))
    assert caught.value.code == "P0005"


def test_an_output_that_no_task_writes_to_its_end_is_refused() -> None:
    compiled_model = compiled(input_shape="x:1,3")
    larger = Port("y", TensorDesc.plain(DType.FLOAT32, (2, 3)))
    with pytest.raises(PackageCorrupt, match="no task writes output 0 to its end"):
        session_of(replace(compiled_model, outputs=(larger,)))


def test_sizes_beyond_any_memory_are_refused_at_load() -> None:
    compiled_model = compiled(
        "m (float[b,4096] x) => (float[b,4096] y) { y = Relu(x) }", input_shape="x:-1,4096", dynamic_dims="1;2"
    )
    last = replace(compiled_model.gears[1], sizes=(2**40,), outputs=((2**40, 4096),))
    with pytest.raises(PackageCorrupt, match="can be run"):
        session_of(replace(compiled_model, gears=(compiled_model.gears[0], last)))


def test_another_number_of_sizes_than_open_dims_is_refused_at_load() -> None:
    compiled_model = compiled(input_shape="x:-1,3", dynamic_dims="1;2")
    gears = tuple(replace(gear, sizes=(*gear.sizes, 1)) for gear in compiled_model.gears)
    with pytest.raises(PackageCorrupt, match="2 sizes of a gear for 1 open dims"):
        session_of(replace(compiled_model, gears=gears))


RECORD = [[1, 0], [1, 0], [1, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", "[" * 100_000, "[[3, 0]]", "[[1, 0], [1, 0], [1.0, 0]]", "[[1, 0], [1, 0], [1, true]]",
        "[1, 1, 1]",
    ],
    ids=range(9),
)  # fmt: skip
def test_records_of_gears_that_are_malformed_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "gears_text", lambda compiled_model: json.dumps(RECORD))
    compiled_model = compiled()
    assert session_of(compiled_model).run(None, {"x": ones(2, 3)})
    monkeypatch.setattr(writer, "gears_text", lambda compiled_model: text)
    with pytest.raises(PackageCorrupt) as caught:
        session_of(compiled_model)
    assert caught.value.code == "P0005"


def test_gears_without_a_list_of_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_model = compiled()
    monkeypatch.setattr(writer, "gear_info", lambda compiled_model: None)
    with pytest.raises(PackageCorrupt, match="no list of gears"):
        session_of(compiled_model)


@pytest.mark.parametrize("shapes", [("0,0,1,3", "2,0,4,3"), ("0,0,1,3", "0,0,2,3", "2,0,4,3"), ("0,0", "1,0", "x")])
def test_shapes_of_outputs_that_are_malformed_are_refused(
    shapes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_model = compiled()
    listed = GearInfo(Gears(GearKind.BATCH, ((1,), (2,), (4,))), shapes, ("x",))
    monkeypatch.setattr(writer, "gear_info", lambda compiled_model: listed)
    with pytest.raises(PackageCorrupt):
        session_of(compiled_model)


def test_a_package_whose_graph_has_no_branches_is_refused_when_it_is_read() -> None:
    compiled_model = compiled()
    bare = compile_model(model(RELU), convert_options({"input_shape": "x:1,3"}))[0].graph
    session = session_of(replace(compiled_model, graph=bare))
    assert session.run(None, {"x": ones(1, 3)})[0].shape == (1, 3)  # nothing of the graph is needed
    with pytest.raises(PackageCorrupt):
        session.model  # noqa: B018


def test_gears_share_their_arenas() -> None:
    text = "m (float[b,64,64] x) => (float[b,64,64] y) { t = Softmax(x) y = MatMul(t, x) }"
    plans = session_of(compiled(text, input_shape="x:-1,64,64", dynamic_batch_size="1,4")).plans

    def address(plan: ExecutionPlan) -> int:
        ports = [ones(*port.shape) for port in (*plan.inputs, *plan.outputs)]
        return np.frombuffer(memoryview(plan.plan.start(ports[:1], ports[1:])), np.uint8).ctypes.data

    assert address(plans[1]) == address(plans[0]) == address(plans[1])
    last = plans.pop()
    del plans
    assert last.run([ones(4, 64, 64)])[0].shape == (4, 64, 64)  # the arenas outlive the plan that they belong to


@pytest.mark.parametrize("other", [1, "plan"])
def test_arenas_of_what_is_no_plan(other: Any) -> None:
    with pytest.raises(TypeError, match="arenas_of"):
        _kernels.Plan(b"", None, 0, [], [], 1, arenas_of=other)
