"""Real packages, damaged: every changed byte is refused, and behind a recomputed checksum nothing crashes or hangs."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.cli.app import execute
from atcpy.errors import AtcError, PackageCorrupt
from atcpy.om import writer
from atcpy.om.container import Partition
from atcpy.om.reader import parse_package, read_model
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.models_in_text import package
from tests.om.mutator import mutate_message, mutate_partition

DIGITS = Path(__file__).parents[2] / "models" / "digits" / "digits.onnx"
# A conv net in blocks, and one with host tasks: their nodes and operands are joined from two partitions.
CONV = """conv (float[1,3,6,6] x) => (float[1,20,3,3] y) <float[20,3,3,3] w, float[20] b> {
  c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b)  y = Relu(c) }"""
HOST = """host (float[6] x) => (float[6] y, float[6] z) {
  a = Relu(x)  b = Celu<alpha=0.5>(a)  z = Neg(b)  y = Mish(z) }"""
GEARS = """gears (float[b,n] x) => (float[b,n] y, float[n,b] z) {
  a = Celu<alpha=0.5>(x)  t = Transpose(a)  z = Softmax(t)  y = Mish(a) }"""


@pytest.fixture(scope="module")
def packages() -> dict[str, bytes]:
    compiled, _ = compile_model(DIGITS, convert_options({}))
    gears = package(GEARS, {"input_shape": "x:-1,-1", "dynamic_dims": "1,6;2,3;4,4"})
    return {"digits": writer.to_bytes(compiled), "conv": package(CONV), "host": package(HOST), "gears": gears}


NAMES = ["digits", "conv", "host", "gears"]


def outcome(mutant: bytes) -> str:
    """Loads, looks and runs; "ok" or the code of the refusal. Anything else fails the test."""
    try:
        session = InferenceSession(mutant, threads=1)
        assert len(session.tasks) >= 0
        read_model(parse_package(mutant))
        inputs, outputs = session.get_inputs(), session.get_outputs()
        for shapes in zip(*(port.gears or (port.shape,) for port in (*inputs, *outputs)), strict=True):
            if sum(map(np.prod, shapes)) < 2**22:
                feeds = zip(inputs, shapes, strict=False)  # those of the outputs come last
                session.run(None, {port.name: np.zeros(shape, port.dtype.numpy) for port, shape in feeds})
    except AtcError as error:
        assert error.exit_code in (6, 7) or error.code == "D0001", error
        return error.code
    return "ok"


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_is_refused(name: str, packages: dict[str, bytes]) -> None:
    whole = packages[name]
    step = max(1, len(whole) // 500)
    for size in [*range(0, len(whole), step), *range(max(0, len(whole) - 64), len(whole))]:
        with pytest.raises(PackageCorrupt):
            InferenceSession(whole[:size], threads=1)


@pytest.mark.parametrize("name", NAMES)
def test_every_changed_byte_is_refused(name: str, packages: dict[str, bytes]) -> None:
    whole = packages[name]
    rng = random.Random(name)
    offsets = [*range(512), *(rng.randrange(len(whole)) for _ in range(1000))]
    for at in offsets:
        mutant = bytearray(whole)
        mutant[at] ^= 1 << rng.randrange(8)
        with pytest.raises(PackageCorrupt):
            InferenceSession(bytes(mutant), threads=1)


@pytest.mark.parametrize("name", NAMES)
def test_resealed_bytes_are_run_or_refused(name: str, packages: dict[str, bytes]) -> None:
    whole = packages[name]
    tail = [e for e in parse_package(whole).container.extents if e.partition is not Partition.WEIGHTS_DATA]
    rng = random.Random(name)
    seen = set()
    for _ in range(trials(400)):
        mutant = bytearray(whole)
        extent = rng.choice(tail)
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = extent.offset + rng.randrange(max(extent.size - 8, 1))
            match rng.randrange(3):
                case 0:
                    mutant[at] ^= 1 << rng.randrange(8)
                case 1:
                    mutant[at : at + 8] = struct.pack("<q", rng.choice([0, 1, -1, 2**31, 2**47, 2**62, -(2**63)]))
                case 2:
                    source = extent.offset + rng.randrange(max(extent.size - 8, 1))
                    mutant[at : at + 8] = mutant[source : source + 8]
        seen.add(outcome(writer.reseal(bytes(mutant))))
    assert seen - {"ok"}


@pytest.mark.parametrize("name", ["conv", "host", "gears"])
@pytest.mark.parametrize("partition", [Partition.MODEL_DEF, Partition.TASK_INFO])
def test_resealed_messages_are_run_or_refused(name: str, partition: Partition, packages: dict[str, bytes]) -> None:
    rng = random.Random(5)
    seen = {
        outcome(mutate_partition(packages[name], partition, lambda m: mutate_message(m, rng)))
        for _ in range(trials(400))
    }
    assert seen - {"ok"}


def _field_of_record(offset: int, kind: str, value: int) -> Callable[[object], None]:
    def change(message: object) -> None:
        for task in message.task:  # type: ignore[attr-defined]
            record = bytearray(task.kernel.args)
            struct.pack_into(kind, record, offset, value)
            task.kernel.args = bytes(record)

    return change


def set_op_index(message: Any, value: int) -> None:
    for task in message.task:
        task.kernel.context.op_index = value


def record_changes() -> Iterator[tuple[str, Callable[[object], None]]]:
    for family in ("host", "unary", ""):
        yield f"called {family!r}", lambda m, f=family: [setattr(t.kernel, "kernel_name", f) for t in m.task]
    for value in (1, 2, 3, 7, 63):
        yield f"op_index {value} beside the record", lambda m, v=value: set_op_index(m, v)
        yield f"op_index {value}", lambda m, v=value: (set_op_index(m, v), _field_of_record(40, "<I", v)(m))
    yield "no sources", _field_of_record(24, "<B", 0)
    yield "twelve sources", _field_of_record(24, "<B", 12)
    yield "no destinations", _field_of_record(25, "<B", 0)
    for value in (0, 1, 2, 3, 4, 5, 255):
        yield f"region {value}", _field_of_record(48, "<B", value)
    for value in (0, 7, 8, 11, 255):
        yield f"dtype {value}", _field_of_record(49, "<B", value)
    for value in (1, 3, 64, 2**31, 2**62, 2**64 - 1):
        yield f"offset {value}", _field_of_record(56, "<Q", value)
        yield f"bytes {value}", _field_of_record(64, "<Q", value)
    yield "memory_size 0", lambda m: setattr(m, "memory_size", 0)
    yield "memory_size 2^46", lambda m: setattr(m, "memory_size", 2**46)
    yield "memory_size 2^62", lambda m: setattr(m, "memory_size", 2**62)


CHANGES = dict(record_changes())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES)
def test_records_that_do_not_fit_are_run_or_refused(name: str, change: str, packages: dict[str, bytes]) -> None:
    assert outcome(mutate_partition(packages[name], Partition.TASK_INFO, CHANGES[change]))


@pytest.mark.parametrize("name", NAMES)
def test_inspect_and_run_say_so(
    name: str, packages: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = packages[name]
    mutants = [whole[:100], whole[:-1], whole + b"x", whole[:300] + b"\xff" + whole[301:], b"", b"IMOD" * 200]
    for mutant in mutants:
        (tmp_path / "m.om").write_bytes(mutant)
        for command in (["inspect"], ["inspect", "--all"], ["run", "--fill", "zeros"]):
            code = execute([command[0], str(tmp_path / "m.om"), *command[1:]])
            printed = capsys.readouterr()
            assert code == 7, printed.err
            assert printed.err.startswith("error[P000") and "Traceback" not in printed.err
