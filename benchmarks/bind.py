"""Measures the cost of instantiating a symbolic plan: nanoseconds per program op, memory block and task.

PYTHONPATH=. python benchmarks/bind.py

Each figure is the slope between two plans that differ only in the number of these parts, best of several rounds.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter_ns
from typing import Final

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels, table
from tests.kernels.symbolic_plans import I64, OPS, PARAMS_AT, Blob, bytes_of

ROUNDS: Final = 300
F32: Final = TensorDesc.plain(DType.FLOAT32, (1,))
N, FOUR, BYTES = range(3)
EMPTY: Final = Blob(symbols=[(0, 1 << 30)], constants=[4], instrs=[(OPS["MUL"], N, FOUR, 0)], inputs=[BYTES])


def best_time(blob: Blob, records: bytes) -> float:
    """Best time of one call, in nanoseconds."""
    plan = _kernels.SymbolicPlan(blob.pack(), records, None, 1)
    times = []
    for number in range(ROUNDS):
        start = perf_counter_ns()
        plan.instantiate((64 + number,))
        times.append(perf_counter_ns() - start)
    return min(times)


def with_ops(n: int) -> tuple[Blob, bytes]:
    """A plan with n additional instructions."""
    names = ("ADD", "MUL", "CDIV", "ALIGN64", "MAX", "LE", "SELECT", "SUB")
    operands = {"ALIGN64": (N, 0, 0), "SELECT": (N, FOUR, N)}
    instrs = [(OPS[name], *operands.get(name, (N, FOUR, 0))) for name in (names[i % len(names)] for i in range(n))]
    return replace(EMPTY, instrs=[*EMPTY.instrs, *instrs]), b""


def with_tasks(n: int, *, blocks: int, live: int = 4, placed: bool = False) -> tuple[Blob, bytes]:
    """A chain of n unary tasks with three patches each, and blocks of various lifetimes; the tasks use the first. The
    blocks are `placed` by the plan, or by each instance.
    """
    params = table.pack_params("unary", {"op": "Abs"})
    slot = Slot(Region.ARENA, 0, 0, F32, 0)
    records = table.pack_task("unary", [slot], [slot], params) * n
    patches = [
        (task, offset, value, I64)
        for task in range(n)
        for offset, value in ((bytes_of(0), BYTES), (bytes_of(1), BYTES), (PARAMS_AT, N))
    ]
    lifetimes = [(BYTES, i % n, min(i % n + live, n - 1)) for i in range(blocks)]
    placements = [(4096 * number, 4096) for number in range(blocks + 1)] if placed else []
    blob = replace(EMPTY, patches=patches, blocks=[(BYTES, 0, n - 1), *lifetimes], placements=placements, n_tasks=n)
    return blob, records


def slope(small: tuple[Blob, bytes], large: tuple[Blob, bytes], parts: int) -> float:
    """Nanoseconds for each of the `parts` by which the large plan exceeds the small one."""
    return (best_time(*large) - best_time(*small)) / parts


def main() -> None:
    """Print the figures."""
    print(f"a program op  {slope(with_ops(0), with_ops(8000), 8000):7.1f} ns")
    print(f"a block       {slope(with_tasks(300, blocks=0), with_tasks(300, blocks=300), 300):7.1f} ns")
    placed = [with_tasks(300, blocks=blocks, placed=True) for blocks in (0, 300)]
    print(f"a placed block{slope(*placed, 300):7.1f} ns")
    print(f"a task        {slope(with_tasks(30, blocks=0), with_tasks(530, blocks=0), 500):7.1f} ns")


if __name__ == "__main__":
    main()
