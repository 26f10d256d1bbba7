"""The verifier of schedules finds what is planted: missing events, streams that meet, tensors that overlap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atcpy.errors import InternalError
from atcpy.ir import DType, Engine, Region, Slot, Task, TensorDesc
from atcpy.kernels import _kernels
from atcpy.kernels.record import STREAM_ACTIVE
from atcpy.kernels.table import pack_params
from atcpy.passes.compile import assign_streams, emit_tasks
from atcpy.passes.compile.verify_schedule import violations
from tests.models_in_text import package

DESC = TensorDesc.plain(DType.UINT8, (1,))
DIAMOND = "g (float[4] x) => (float[4] y) { v = Exp(x)  a = Sin(v)  b = Relu(a)  c = Cos(v)  y = Add(b, c) }"
REDUCED = """g (float[64] x) => (float[64] y, float[64] z) {
    a = Exp(x)  s = HcomAllReduce<reduction = "sum">(a)  b = Sin(a)  z = Neg(b)  y = Add(s, b)
}"""


def slot(name: str) -> Slot:
    """A byte of the arena, by its letter."""
    return Slot(Region.ARENA, ord(name) - ord("a"), 1, DESC)


def task(name: str, src: str, dst: str, *, stream: int = 0, collective: bool = False, **events: int) -> Task:
    engine = Engine.HCCL if collective else Engine.VECTOR
    return Task(
        name, 0, "Op", engine, "unary", tuple(map(slot, src)), tuple(map(slot, dst)), b"", (), (), stream, **events
    )


def begin(count: int) -> Task:
    params = pack_params(STREAM_ACTIVE, {"body_tasks": count})
    return Task("begin", 0, "StreamActive", Engine.GE_LOCAL, STREAM_ACTIVE, (), (), params, (), ())


def problems(*tasks: Task) -> list[str]:
    """Of tasks in which each byte is a buffer."""
    return list(violations(tasks, [[one.offset for one in (*each.src, *each.dst) if one] for each in tasks]))


ORDERED = {
    "one stream": (task("p", "", "a"), task("q", "a", "b"), task("r", "b", "a")),
    "an event": (
        task("p", "", "a", event_record=1),
        task("c", "a", "b", collective=True, stream=1, event_wait=1),
    ),
    "an event of a later task": (
        task("p", "", "a"), task("q", "", "c", event_record=1),
        task("c", "a", "b", collective=True, stream=1, event_wait=1),
    ),
    "an event that an earlier task waited for": (
        task("p", "", "a", event_record=1),
        task("c", "a", "b", collective=True, stream=1, event_wait=1),
        task("d", "a", "c", collective=True, stream=1),
    ),
    "streams that read the same": (
        task("p", "", "a"), begin(2), task("q", "a", "b", stream=0), task("r", "a", "c", stream=1), task("s", "bc", "d")
    ),
    "a section that waits and records": (
        task("c", "", "a", collective=True, stream=2, event_record=1),
        replace(begin(2), event_wait=1, event_record=2), task("q", "a", "b"), task("r", "a", "c", stream=1),
        task("d", "c", "d", collective=True, stream=2, event_wait=2),
    ),
}  # fmt: skip
WRONG = {
    "no event": (
        (task("p", "", "a"), task("c", "a", "b", collective=True, stream=1)),
        "c does not wait for p, which writes its memory",
    ),
    "the event of an earlier task": (
        (
            task("o", "", "c", event_record=1), task("p", "", "a"),
            task("c", "a", "b", collective=True, stream=1, event_wait=1),
        ),
        "c does not wait for p, which writes its memory",
    ),
    "memory that a collective still reads": (
        (
            task("p", "", "a", event_record=1),
            task("c", "a", "b", collective=True, stream=1, event_wait=1), task("q", "", "a"),
        ),
        "q does not wait for c, which reads its memory",
    ),
    "one stream writes what another reads": (
        (begin(2), task("q", "", "b", stream=0), task("r", "b", "c", stream=1)),
        "r does not wait for q, which writes its memory",
    ),
    "one stream writes what another has read": (
        (task("p", "", "a"), begin(2), task("q", "a", "b", stream=0), task("r", "", "a", stream=1)),
        "r does not wait for q, which reads its memory",
    ),
    "two streams write the same": (
        (begin(2), task("q", "", "b", stream=0), task("r", "", "b", stream=1)),
        "r does not wait for q, which writes its memory",
    ),
    "a section that does not wait": (
        (
            task("c", "", "a", collective=True, stream=2, event_record=1),
            begin(2), task("q", "a", "b"), task("r", "", "c", stream=1),
        ),
        "q does not wait for c, which writes its memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERED)
def test_tasks_in_order(name: str) -> None:
    assert problems(*ORDERED[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_tasks_that_meet(name: str) -> None:
    tasks, expected = WRONG[name]
    assert problems(*tasks) == [expected]


def test_what_is_read_was_written_through_the_same_buffer() -> None:
    tasks = task("p", "", "a"), task("q", "", "a"), task("r", "a", "b")
    assert list(violations(tasks, [["one"], ["other"], ["other", "b"]])) == []
    assert list(violations(tasks, [["one"], ["other"], ["one", "b"]])) == ["r reads what q has overwritten"]


def test_a_missing_event_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    package(REDUCED)
    monkeypatch.setattr(assign_streams, "_waits", lambda dependencies, is_collective: {})
    with pytest.raises(InternalError, match=r"does not wait for"):
        package(REDUCED)


def test_two_live_tensors_at_one_address_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = emit_tasks.BufferAssignment.plan

    def plan(buffers: emit_tasks.BufferAssignment, *args: object, **options: object) -> object:
        memory = original(buffers, *args, **options)  # type: ignore[arg-type]
        for block in buffers.blocks():
            block.offset = 0
        return memory

    package(DIAMOND, {"oo_level": "O0"})
    monkeypatch.setattr(emit_tasks.BufferAssignment, "plan", plan)
    with pytest.raises(InternalError, match="has overwritten"):
        package(DIAMOND, {"oo_level": "O0"})


def test_streams_that_share_memory_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """g (float[400] x) => (float[1] y) {
        v = Exp(x)  a = Sin(v)  b = ReduceSum(a)  c = Cos(v)  d = ReduceSum(c)  y = Add(b, d)
    }"""
    monkeypatch.setattr(_kernels, "section_pays", lambda streams, threads: True)
    monkeypatch.setattr(_kernels, "streams_race", lambda operands: False)
    package(text, {"oo_level": "O0"})
    monkeypatch.setattr(emit_tasks.BufferAssignment, "_note_streams", lambda *_: None)
    with pytest.raises(InternalError, match="does not wait for"):
        package(text, {"oo_level": "O0"})
