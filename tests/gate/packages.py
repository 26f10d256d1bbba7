"""Damaged packages: half of them as they are, half with their checksums made good again.

    python -m tests.gate.packages --mutants 100000 --seed 1

What the checksum sees is refused, whatever was changed. Behind it a package is refused or runs: it neither crashes nor
hangs, ends with the codes of limits and corrupt packages alone, and its results do not depend on what lay in the
process's memory before: each runs twice, with memory that is filled by another pattern.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np

from atcpy import InferenceSession
from atcpy.errors import AtcError
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.record import HEADER, SLOT
from atcpy.om import writer
from atcpy.om.container import Partition
from atcpy.om.reader import parse_package, read_model
from tests.gate.workers import Lost, call_each
from tests.models_in_text import package
from tests.om.mutator import mutate_message, mutate_partition

SECONDS = 10.0  # a mutant that takes longer hangs
MAX_ARENA = 1 << 26  # bytes: a mutant may ask for more than there is
TEXTS: dict[str, tuple[str, dict[str, object]]] = {
    "conv": ("""conv (float[1,3,6,6] x) => (float[1,20,3,3] y) <float[20,3,3,3] w, float[20] b> {
        c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b)  y = Relu(c) }""", {}),
    "host": ("""host (float[6] x) => (float[6] y, float[6] z) {
        a = Relu(x)  b = Celu<alpha=0.5>(a)  z = Neg(b)  y = Mish(z) }""", {}),
    "gears": ("""gears (float[b,n] x) => (float[b,n] y, float[n,b] z) {
        a = Celu<alpha=0.5>(x)  t = Transpose(a)  z = Softmax(t)  y = Mish(a) }""",
        {"input_shape": "x:-1,-1", "dynamic_dims": "1,6;2,3;4,4"}),
    "open": ("""open (float[b,n] x, float[n,4] w) => (float[b,4] y, float[b,n] z) {
        m = MatMul(x, w)  y = Softmax(m)  s = Sigmoid(x)  z = Mul(x, s) }""", {}),
    "counted": ("""counted (float[b,n] x) => (int64[k,2] y) { i = NonZero(x)  y = Transpose(i) }""", {}),
    "moves": ("""moves (float[2,6,4] x, int64[3] i) => (float[2,3,4] y, float[2,4,6] z, float[2,12,4] w) {
        y = Gather<axis=1>(x, i)  z = Transpose<perm=[0,2,1]>(x)  r = Neg(x)  w = Concat<axis=1>(x, r) }""", {}),
    "loop": ("""loop (float[2,3] x, int64 n) => (float[2,3] y) <bool go = {1}> {
        y = Loop<body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w) {
            d = Identity(c)  w = Add(v, v) }>(n, go, x) }""", {}),
    "branch": ("""branch (float[4] x, bool c) => (float[4] y) {
        y = If<then_branch = t () => (float[4] a) { a = Relu(x) }, else_branch = e () => (float[4] b) { b = Exp(x) }>(c)
        }""", {}),
    "lstm": ("""lstm (float[3,2,4] x) => (float[3,1,2,8] y) <float[1,32,4] w, float[1,32,8] r> {
        y = LSTM<hidden_size=8>(x, w, r) }""", {}),
    "attention": ("""attention (float[1,2,5,8] q, float[1,2,7,8] k, float[1,2,7,8] v) => (float[1,2,5,8] y) {
        p = Transpose<perm=[0,1,3,2]>(k)  s = MatMul(q, p)  a = Softmax(s)  y = MatMul(a, v) }""", {}),
    "quantised": ("""quantised (float[3,16] x) => (float[3,8] y) <int8[16,8] w, float s = {0.1}, uint8 z = {3}> {
        q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  d = DequantizeLinear(w, s)  y = MatMul(a, d) }""",
        {}),
    "pools": ("""pools (float[1,20,7,7] x) => (float[1,20,3,3] y, float[1,20] z, float[1,20,14,14] r) <
        float[20] g, float[20] b, float[4] u = {1,1,2,2}, float[0] e> {
        y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(x)  m = ReduceMean<keepdims=0>(x, axes)  z = Relu(m)
        r = Resize<mode="linear">(x, e, u) }""".replace("float[0] e>", "float[0] e, int64[2] axes = {2,3}>"), {}),
    "select": ("""select (float[4,9] x) => (float[4,3] v, int64[4,3] i, int64[4] m, float[4,9] c) <int64[1] k = {3},
        int64 a = {1}> { v, i = TopK(x, k)  m = ArgMax<axis=1, keepdims=0>(x)  c = CumSum(x, a) }""", {}),
}  # fmt: skip
EDGES = [0, 1, -1, 2, 3, 7, 63, 64, 2**31 - 1, 2**31, 2**32, 2**46, 2**47, 2**62, 2**63 - 1, -(2**63), -(2**31)]
SIZES = {"b": 2, "n": 3, "k": 1}


class Damage(Enum):
    """What is changed."""

    BYTES = "bytes"
    RESEALED_BYTES = "bytes, resealed"
    RESEALED_MESSAGE = "messages, resealed"
    RESEALED_RECORD = "task records, resealed"


class Fault(Enum):
    """A figure of the gate."""

    SILENT = "silent"
    CLASS = "wrong error"
    LEAK = "old memory"


@dataclass(frozen=True)
class Mutant:
    """A package, what is done to it, and the seed of how."""

    name: str
    damage: Damage
    seed: int


@cache
def whole(name: str) -> bytes:
    """An undamaged package."""
    text, options = TEXTS[name]
    return package(text, options)


def damaged(mutant: Mutant) -> bytes:
    """The mutant's bytes."""
    rng = random.Random(f"{mutant.name} {mutant.damage.value} {mutant.seed}")
    original = whole(mutant.name)
    match mutant.damage:
        case Damage.BYTES:
            return _change_bytes(original, range(len(original)), rng)
        case Damage.RESEALED_BYTES:
            extents = [e for e in parse_package(original).container.extents if e.size > 8]
            extent = rng.choice(extents)
            return writer.reseal(_change_bytes(original, range(extent.offset, extent.offset + extent.size), rng))
        case Damage.RESEALED_MESSAGE:
            return _change_message(original, rng)
        case Damage.RESEALED_RECORD:
            return _change_record(mutant.name, rng)


def _change_bytes(original: bytes, within: range, rng: random.Random) -> bytes:
    changed = bytearray(original)
    while changed == original:
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.choice(within)
            match rng.randrange(4):
                case 0:
                    changed[at] ^= 1 << rng.randrange(8)
                case 1:
                    changed[at : at + 8] = struct.pack("<q", rng.choice(EDGES))[: max(len(changed) - at, 0)]
                case 2:
                    source = rng.choice(within)
                    length = min(8, len(changed) - at, len(changed) - source)
                    changed[at : at + length] = changed[source : source + length]
                case 3 if rng.random() < 0.1:
                    del changed[at:]  # the reseal of what is cut refuses it or not: either is tried
                    return bytes(changed) if changed else b"\0"
                case _:
                    changed[at] = rng.randrange(256)
    return bytes(changed)


def _change_message(original: bytes, rng: random.Random) -> bytes:
    partition = rng.choice([Partition.MODEL_DEF, Partition.TASK_INFO])
    return mutate_partition(original, partition, lambda message: mutate_message(message, rng))


@cache
def _record_starts(name: str) -> list[int]:
    """Where the task records of a package begin, those of plans for open dims too: with the name of a family."""
    original = whole(name)
    found = (_find_all(original, family.encode().ljust(24, b"\0")) for family in _kernels.families())
    return sorted(at for places in found for at in places if at + _kernels.TASK_BYTES <= len(original))


def _change_record(name: str, rng: random.Random) -> bytes:
    """Change fields of a task record to numbers at the edges, or of other fields."""
    changed = bytearray(whole(name))
    start = rng.choice(_record_starts(name))
    arguments = HEADER.size + SLOT.size * _kernels.MAX_SLOTS
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        match rng.randrange(5):
            case 0 | 1:
                at = arguments + 8 * rng.randrange(_kernels.PARAM_BYTES // 8)
            case 2:
                at = HEADER.size + SLOT.size * rng.randrange(4) + rng.choice([0, 1, 2, 8, 16])
            case 3:
                at = rng.randrange(24, HEADER.size)
            case _:
                at = rng.randrange(_kernels.TASK_BYTES - 8)
        old = struct.unpack_from("<q", changed, start + at)[0]
        other = struct.unpack_from("<q", changed, start + arguments + 8 * rng.randrange(8))[0]
        number = rng.choice([*EDGES, old + 1, old - 1, old * 2, old // 2, -old, other])
        struct.pack_into("<Q", changed, start + at, number % 2**64)
    return writer.reseal(bytes(changed))


def _find_all(text: bytes, part: bytes) -> list[int]:
    found: list[int] = []
    at = text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def judge(mutant: Mutant) -> tuple[str, Fault | None]:
    """How a mutant ends, "ok" or the code of a refusal, and what is wrong with that."""
    changed = damaged(mutant)
    try:
        first = _results(changed, 0x55)
        second = _results(changed, 0xAA)
    except AtcError as error:
        if error.exit_code in (6, 7) or error.code in ("D0001", "E10055"):
            return error.code, None
        return f"{error.code} {error}", Fault.CLASS
    except Exception as error:  # noqa: BLE001  whatever else it is, it is the finding
        return f"{type(error).__name__}: {error}", Fault.CLASS
    finally:
        _fill_memory(0)
    if mutant.damage is Damage.BYTES:
        return "ok", Fault.SILENT
    if any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True)):
        return "ok", Fault.LEAK
    return "ok", None


def _results(changed: bytes, pattern: int) -> list[Array]:
    _fill_memory(pattern)
    session = InferenceSession(changed, threads=1, memory_limit=MAX_ARENA)
    read_model(parse_package(changed))
    inputs, outputs = session.get_inputs(), session.get_outputs()
    results: list[Array] = []
    for shapes in zip(*(port.gears or (port.shape or (),) for port in (*inputs, *outputs)), strict=True):
        known = [tuple(SIZES.get(dim, 2) if isinstance(dim, str) else dim for dim in shape) for shape in shapes]
        if sum(map(np.prod, known)) >= 2**22:
            continue
        feeds = zip(inputs, known, strict=False)  # those of the outputs come last
        arrays = {port.name: np.ones(shape, port.dtype.numpy) for port, shape in feeds}
        results += [
            result for result in session.run(None, arrays, timeout=SECONDS / 3) if isinstance(result, np.ndarray)
        ]
    return results


def _fill_memory(pattern: int) -> None:
    """Let the allocator fill memory that is freed or allocated, but for that which is asked for clear; 0: not."""
    m_perturb = -6
    ctypes.CDLL(None).mallopt(m_perturb, pattern)


def mutants(count: int, seed: int) -> list[Mutant]:
    """As many mutants, half of them resealed."""
    rng = random.Random(seed)
    resealed = [damage for damage in Damage if damage is not Damage.BYTES]
    names = list(TEXTS)
    return [
        Mutant(rng.choice(names), Damage.BYTES if number % 2 else rng.choice(resealed), rng.randrange(2**40))
        for number in range(count)
    ]


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How the mutants end, and the findings."""
    ends: Counter[str] = Counter()
    findings: list[str] = []
    for name in TEXTS:
        whole(name)  # before the processes are started
    for mutant, result in call_each(judge, mutants(count, seed), seconds=SECONDS):
        if isinstance(result, Lost):
            findings.append(f"{result.value}: {mutant}")
            ends[result.value] += 1
            continue
        end, fault = result
        ends[end.split(" ")[0]] += 1
        if fault is not None:
            findings.append(f"{fault.value}: {mutant}: {end}")
    return ends, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants and print how they end; 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    start = time.monotonic()
    ends, findings = run(options.mutants, options.seed)
    for finding in findings[:20]:
        print(finding)
    print(", ".join(f"{end} {number}" for end, number in ends.most_common()))
    print(f"{options.mutants} mutants, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
