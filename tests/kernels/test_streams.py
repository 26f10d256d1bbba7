"""Sections of streams: what the loader refuses, whether they pay, and that they compute what tasks in order do."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE
from atcpy.kernels.table import pack_params, pack_task

ARENA_BYTES = 1 << 20
WIDTH = 512  # bytes that a task writes
MAX_STREAMS = 64


def section(tasks: int) -> bytes:
    return pack_task(STREAM_ACTIVE, [], [], pack_params(STREAM_ACTIVE, {"body_tasks": tasks}))


def slot(offset: int, nbytes: int = WIDTH, region: Region = Region.ARENA, index: int = 0) -> Slot:
    return Slot(region, offset, nbytes, TensorDesc.plain(DType.UINT8, (nbytes,)), index)


def copy(stream: int, src: Slot | None, dst: Slot, value: int = 0, event: int = 0) -> bytes:
    """Copy bytes, or fill."""
    n = dst.nbytes
    strides = {"src_strides": [1 if src is not None else 0], "dst_strides": [1]}
    params = pack_params("strided_copy", {"rank": 1, "dims": [n], "item": 1, "value": value, **strides})
    return pack_task("strided_copy", [] if src is None else [src], [dst], params, stream=stream, event_record=event)


def fill(stream: int, offset: int, value: int = 0, **others: int) -> bytes:
    return copy(stream, None, slot(offset), value, **others)


def load(*records: bytes, threads: int = 2, outputs: int = 0) -> _kernels.Plan:
    return _kernels.Plan(b"".join(records), None, ARENA_BYTES, [WIDTH], [WIDTH] * outputs, threads)


X, Y, Z = 0, WIDTH, 2 * WIDTH
OUT = Region.OUTPUT
REFUSED = {
    "two write the same": ((section(2), fill(0, X), fill(1, X)), "writes what another"),
    "two write one byte": ((section(2), fill(0, X), fill(1, X + WIDTH - 1)), "writes what another"),
    "one reads what another writes": ((section(2), fill(0, X), copy(1, slot(X), slot(Y))), "writes what another"),
    "one writes what another read": ((section(2), copy(0, slot(X), slot(Y)), fill(1, X)), "writes what another"),
    "far from what is between": (
        (section(4), copy(0, None, slot(X, 8 * WIDTH)), fill(1, 9 * WIDTH), fill(2, 10 * WIDTH), fill(3, 7 * WIDTH)),
        "writes what another",
    ),
    "behind a shorter one of a third": (
        (section(3), copy(0, None, slot(X, 8 * WIDTH)), fill(1, 8 * WIDTH), fill(2, 6 * WIDTH)),
        "writes what another",
    ),
    "one output": (
        (section(2), copy(0, None, slot(0, region=OUT)), copy(1, None, slot(0, region=OUT))),
        "writes what another",
    ),
    "streams out of order": ((section(2), fill(1, X), fill(0, Y)), "out of order"),
    "a stream in two pieces": ((section(3), fill(0, X), fill(1, Y), fill(0, Z)), "out of order"),
    "more tasks than there are": ((section(3), fill(0, X), fill(1, Y)), "beyond"),
    "a negative number of tasks": ((section(-1),), "out of range"),
    "a section in a stream": ((section(2), fill(0, X), section(0)), "control flow, is in a stream"),
    "a task of the host": ((section(1), pack_task(HOST_FAMILY, [], [slot(X)], b"")), "host"),
    "an event": ((section(2), fill(0, X, event=1), fill(1, Y)), "an event, is in a body"),
    "an operand": ((pack_task(STREAM_ACTIVE, [slot(X)], [], pack_params(STREAM_ACTIVE, {})),), "number of operands"),
    "a result": ((pack_task(STREAM_ACTIVE, [], [slot(X)], pack_params(STREAM_ACTIVE, {})),), "number of operands"),
    "too many streams": (
        (section(MAX_STREAMS + 1), *(fill(n, n * WIDTH) for n in range(MAX_STREAMS + 1))),
        "too many",
    ),
}
LOADED = {
    "nothing": (section(0),),
    "one task": (section(1), fill(0, X)),
    "neighbours": (section(2), fill(0, X), fill(1, Y)),
    "readers of the same": (section(2), copy(0, slot(X), slot(Y)), copy(1, slot(X), slot(Z))),
    "one stream that writes twice": (section(3), fill(0, X), fill(0, X), fill(1, Y)),
    "one stream that reads what it wrote": (section(3), fill(0, X), copy(0, slot(X), slot(Y)), fill(1, Z)),
    "what comes behind": (section(2), fill(0, X), fill(1, Y), fill(7, X)),
    "nothing of it": (section(2), fill(0, X), copy(1, None, slot(X, 0))),
    "arena and input": (section(2), copy(0, slot(0, region=Region.INPUT), slot(X)), fill(1, Y)),
    "numbers with gaps": (section(2), fill(3, X), fill(2**32 - 1, Y)),
    "as many streams as there may be": (section(MAX_STREAMS), *(fill(n, n * WIDTH) for n in range(MAX_STREAMS))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    records, reason = REFUSED[name]
    with pytest.raises(_kernels.Refused, match=reason):
        load(*records, outputs="output" in name)


@pytest.mark.parametrize("name", LOADED)
def test_loaded(name: str) -> None:
    plan = load(*LOADED[name])
    run = plan.start([np.zeros(WIDTH, np.uint8)], [])
    run.execute(0, len(LOADED[name]))


def many_small_tasks(streams: int, tasks: int) -> list[bytes]:
    """Each stream fills a range and copies it on, range by range."""
    records = [section(streams * tasks)]
    for stream in range(streams):
        begin = stream * tasks * WIDTH
        records.append(fill(stream, begin, stream + 1))
        for number in range(1, tasks):
            records.append(copy(stream, slot(begin + (number - 1) * WIDTH), slot(begin + number * WIDTH)))
    return records


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("streams", [1, 2, 7, 16])
def test_streams_beside_each_other_write_what_they_write_in_order(streams: int, threads: int) -> None:
    tasks = 100
    records = many_small_tasks(streams, tasks)
    plan = load(*records, copy(0, slot((streams * tasks - 1) * WIDTH), slot(0, region=OUT)), threads=threads, outputs=1)
    for _ in range(20):
        y = np.zeros(WIDTH, np.uint8)
        run = plan.start([np.zeros(WIDTH, np.uint8)], [y])
        run.execute(0, len(records) + 1)
        assert (y == streams).all()
        written = np.frombuffer(memoryview(run), np.uint8)[: streams * tasks * WIDTH].reshape(streams, -1)
        assert (written == np.arange(1, streams + 1)[:, None]).all()


def gather(stream: int, number: int, offset: int) -> bytes:
    """Take a quarter of an input, by an index of another one."""
    part = WIDTH // 4
    indices = Slot(Region.INPUT, 8 * number, 8, TensorDesc.plain(DType.INT64, (1,)), 1)
    fields = {"outer": 1, "index_stride": 1, "count": 1, "depth": 1, "dims": [4], "inner": part, "item": 1}
    params = pack_params("gather", {**fields, "index_item": 8})
    return pack_task("gather", [slot(0, region=Region.INPUT), indices], [slot(offset, part)], params, stream=stream)


def test_the_first_stream_with_a_fault_reports_it() -> None:
    streams, tasks = 8, 60
    records = [section(streams * (tasks + 1))]
    for stream in range(streams):
        records += [fill(stream, (2 * stream + n % 2) * WIDTH) for n in range(tasks)]
        records.append(gather(stream, stream, 2 * stream * WIDTH))
    plan = _kernels.Plan(b"".join(records), None, ARENA_BYTES, [WIDTH, 8 * streams], [], 2)
    indices = np.array([0, 1, 2, 99, 3, 98, 97, 0], np.int64)
    run = plan.start([np.zeros(WIDTH, np.uint8), indices], [])
    for _ in range(20):
        with pytest.raises(_kernels.Fault) as raised:
            run.execute(0, len(records))
        task, _, value, _ = raised.value.args
        assert (task, value) == (4 * (tasks + 1), 99)


PAYS = {
    "many small tasks": ([[(1, 4000)] * 20] * 4, 2, True),
    "one stream": ([[(1, 4000)] * 20], 2, False),
    "no more than joining costs": ([[(1, 4000)] * 4] * 2, 2, False),
    "tasks that fill the threads": ([[(64, 1 << 22)] * 4] * 2, 2, False),
    "tasks of one item": ([[(1, 1 << 22)] * 4] * 2, 2, True),
    "one thread": ([[(1, 4000)] * 20] * 4, 1, False),
    "one long stream": ([[(1, 1 << 20)], [(1, 4000)] * 4], 2, False),
    "long tasks for two of four threads": ([[(64, 1 << 22)] * 4] * 2, 4, False),
    "nothing": ([], 2, False),
    "without bound": ([[(1, 1 << 46)] * 40] * 2, 2, False),
    "more threads than streams may be": ([[(1, 40000)] * 20] * 4, 1000, True),
}


@pytest.mark.parametrize("name", PAYS)
def test_what_pays(name: str) -> None:
    streams, threads, pays = PAYS[name]
    assert _kernels.section_pays([list(stream) for stream in streams], threads) is pays
