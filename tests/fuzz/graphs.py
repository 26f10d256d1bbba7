"""Random graphs through `atcpy.convert` and `InferenceSession`, compared with the oracle.

python -m tests.fuzz.graphs --count 5000 --seed 1
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

import atcpy
from atcpy.ir import DType
from atcpy.ir.tensor import Array
from tests.fuzz.builder import COMMON, Builder, Case
from tests.fuzz.oracle import SAMPLES, Oracle
from tests.fuzz.shrink import shrink
from tests.fuzz.steps import ELEMENTWISE, STEPS

_WAYS = ["O3", "O3", "O1", "O0", "optimize"]  # by seed
_CERTAIN = 16  # a mismatch is confirmed with this many times the samples


def random_case(seed: int) -> Case:
    """The case of a seed: 3 to 15 nodes, of all ops or only of those that graph kernels fuse."""
    b = Builder(np.random.default_rng(seed))
    in_kernels = _WAYS[seed % 5] == "O3" and b.chance(0.6)
    for _ in range(1 + b.below(2)):
        b.first_input([DType.FLOAT32] if in_kernels else COMMON)
    node_count = 3 + b.below(13)
    while len(b.nodes) < node_count:
        b.pick(ELEMENTWISE if in_kernels else STEPS)(b)
    return b.case()


def with_open_dims(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy in which none, some (chosen by the seed) or all of the input dims are symbolic.

    Equal dims share a symbol, or each has its own. Outputs declare no shapes.
    """
    kind = seed // 5 % 4
    if kind == 0:
        return model
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    for info in opened.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            name = f"{info.name}_{axis}"
            if kind > 1 or zlib.crc32(f"{seed} {name}".encode()) % 2:
                dim.dim_param = f"d{dim.dim_value}" if kind < 3 else name
    for info in opened.graph.output:
        info.type.tensor_type.ClearField("shape")
    return opened


def run(case: Case, seed: int) -> list[Array]:
    """Results of atcpy with options chosen by the seed; the graph is verified after each pass."""
    way, model = _WAYS[seed % 5], with_open_dims(case.model, seed)
    with tempfile.TemporaryDirectory() as folder:
        package = str(Path(folder) / "m.om")
        if way == "optimize":  # the written model is converted without optimization
            rewritten = Path(folder) / "m.onnx"
            atcpy.optimize(model, rewritten, verify=False, debug=True)
            atcpy.convert(rewritten, package, oo_level="O0")
        else:
            atcpy.convert(model, package, oo_level=way, debug=True)
        return list(atcpy.InferenceSession(package, threads=1 + seed % 2).run(None, case.feeds))


@dataclass(slots=True)
class Tally:
    """Counts of a fuzz run."""

    graphs: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    elements: int = 0
    compared: int = 0


def mismatches(case: Case, seed: int, tally: Tally | None = None, samples: int = SAMPLES) -> list[str]:
    """Describe each wrong output in a line."""
    results, oracle = run(case, seed), Oracle(case, samples)
    lines = []
    for value, ours in zip(case.model.graph.output, results, strict=True):
        dtype = oracle.dtypes[value.name]
        expected = oracle.values[value.name]
        if ours.shape != expected[0].shape or ours.dtype != dtype.numpy:
            lines.append(f"{value.name}: {ours.dtype}{ours.shape}, expected {dtype.long}{expected[0].shape}")
            continue
        compared, wrong = oracle.compare(value.name, ours)
        if tally is not None:
            tally.elements += ours.size
            tally.compared += int(compared.sum())
        if wrong.any():
            at = tuple(int(index) for index in np.argwhere(wrong)[0])
            lines.append(
                f"{value.name}{list(at)} = {ours[at]!r}, expected {expected[0][at]!r}; {wrong.sum()} of {wrong.size}"
            )
    if tally is not None:
        tally.graphs += 1
        tally.nodes.update(node.op_type for node in case.model.graph.node)
    return lines if samples > SAMPLES or not lines else mismatches(case, seed, None, samples * _CERTAIN)


def explain(seed: int) -> str:
    """Minimise a failing case and print it as text with its feeds."""
    small = shrink(random_case(seed), lambda case: bool(mismatches(case, seed)))
    feeds = "\n".join(f"{name} = {array!r}" for name, array in small.feeds.items())
    return f"seed {seed}: {mismatches(small, seed)}\n{onnx.printer.to_text(small.model)}\n{feeds}\n"


def check(seed: int, tally: Tally) -> str:
    """Describe what is wrong with the graph of a seed; empty if nothing is."""
    case = random_case(seed)
    try:
        return explain(seed) if mismatches(case, seed, tally) else ""
    except Exception as error:  # noqa: BLE001  any exception is reported with its graph
        return f"seed {seed}: {type(error).__name__}: {error}\n{onnx.printer.to_text(case.model)}\n"


def main() -> int:
    """Run many seeds; the exit code is 0 if all agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally, failures, start = Tally(), 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        report = check(seed, tally)
        failures += bool(report)
        if report:
            print(report, flush=True)
    share = tally.compared / max(tally.elements, 1)
    print(
        f"{tally.graphs} graphs, {tally.nodes.total()} nodes of {len(tally.nodes)} ops, {failures} failures", end=", "
    )
    print(f"{share:.1%} of {tally.elements} elements compared, {time.monotonic() - start:.0f} s")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
