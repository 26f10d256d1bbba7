"""Compares what the cost model predicts with what kernels take, over many shapes, and prints a report in Markdown.

    python benchmarks/cost_model.py [MODEL.onnx …] > docs/cost-model.md

Three predictions are compared on one thread:
- `work`, which the family of each kernel states: it decides whether other threads are woken, and whether branches run
  beside each other. Shapes are those of single nodes below, and of the layers of the models that are named.
- the estimate that chooses Winograd's convolutions, against the same convolution computed both ways.
- the bytes and products of the roofline, beside `work`.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import onnx
import typer
from feeds import feeds_for
from onnx import TensorProto, helper, numpy_helper

import atcpy
from atcpy.errors import AtcError
from atcpy.kernels import _kernels
from atcpy.kernels.cpu import cpu_model
from atcpy.kernels.table import kernel_table
from atcpy.ops.conv import winograd
from atcpy.ops.quant import qwinograd
from atcpy.passes.compile import choose_winograd
from atcpy.runtime.profile import TaskCost
from atcpy.runtime.roofline import Roofline, measure_roofline

PROFILES: Final = 15
SHORTEST_S: Final = 5e-7  # the clock and the launch are a tenth of less
MIN_SHAPES: Final = 4  # for a rank correlation
WORST: Final = 3  # shapes of a family
GOOD: Final = 0.9
Shape = tuple[int, ...]
# Input, channels, results, and a stride unless that is 1.
WINOGRAD: Final[tuple[Shape, ...]] = (
        (112, 16, 16), (112, 64, 64), (80, 32, 32), (56, 64, 64), (56, 4, 64), (56, 256, 64), (40, 64, 64),
        (28, 128, 128), (28, 32, 256), (20, 128, 128), (14, 256, 256), (14, 512, 512), (14, 32, 32), (10, 256, 256),
        (8, 128, 128), (7, 512, 512), (7, 64, 64), (4, 512, 512), (320, 16, 32, 2), (160, 32, 64, 2), (80, 64, 128, 2),
        (56, 128, 128, 2), (40, 128, 256, 2), (28, 256, 256, 2), (28, 32, 32, 2), (14, 512, 512, 2), (14, 64, 64, 2),
    )  # fmt: skip
WINOGRAD_OF_BYTES: Final[tuple[Shape, ...]] = (
        (112, 16, 16), (112, 32, 64), (112, 64, 64), (80, 32, 32), (56, 16, 16), (56, 64, 64), (56, 128, 128),
        (28, 32, 32), (28, 64, 64), (28, 128, 128), (28, 256, 256), (20, 48, 48), (20, 192, 192), (14, 64, 64),
        (14, 128, 128), (14, 256, 256), (14, 512, 512), (10, 192, 192), (7, 64, 64), (7, 512, 512),
    )  # fmt: skip
PAGE: Final = """# The cost model against the clock

What the compiler and the loader predict of a task, beside what it takes on one thread, over many shapes.
`python benchmarks/cost_model.py` makes this page; the figures are of an {cpu}, {isa}.

## Work

The family of each kernel states the *work* of a task in element operations: `cost` in
`atcpy/kernels/csrc/<folder>/<family>.c`. The loader wakes other threads for tasks of 20000 or more, and runs branches
beside each other where that takes an eighth less by the work of their tasks ([streams.md](streams.md)). So what counts
is the order of tasks, and that a unit takes about as long in each family.

- Shapes: single nodes, and the layers of {models}.
  Tasks of one op and cost are one shape; those that take less than half a microsecond are left out.
- *Rank correlation* is Spearman's, of work and time; ⚠ marks those below {good}. Beside it that of the roofline's
  estimate, which knows the bytes and products of a task, but not what a kernel does with them.
- *ns a unit*: the median over the shapes, and the range without the tenth at either end.

{families}

## Worst misses

The shapes of each family whose unit of work takes longest or shortest against the median of the family.

{misses}

## Winograd's convolutions

The compiler takes `winograd2d` where the estimate of `atcpy/ops/conv/winograd.py` is {smallest} or more, at stride 2
{strided} ([ADR 0022](adr/0022-winograd-transforms-filters-in-each-run.md),
[0030](adr/0030-convolutions-at-stride-2-in-tiles.md)). The estimate lies between AVX-512 and AVX2, since a
package does not depend on the CPU. It takes `qwinograd2d` for convolutions of bytes where that of
`atcpy/ops/quant/qwinograd.py` is {of_bytes} or more ([0032](adr/0032-winograd-of-bytes-is-exact.md)), which is the gain
on AVX-512 VNNI of weights that come from L3; AVX2 gains more. A choice is right if it loses at most 5 % here: {right}
of {of} are.

{gains}
"""


@dataclass(frozen=True)
class Sample:
    """A task: what is predicted of it, and the seconds that it took."""

    family: str
    op: str
    name: str
    cost: TaskCost
    roofline_s: float
    seconds: float

    @property
    def ns_per_work(self) -> float:
        """What a unit of work took."""
        return 1e9 * self.seconds / max(self.cost.work, 1)


@dataclass(frozen=True)
class Node:
    """A model of one node: its inputs, and constants behind them, by shape."""

    op: str
    inputs: tuple[Shape, ...]
    weights: tuple[Any, ...] = ()  # shapes of random float32, or arrays
    attrs: tuple[tuple[str, Any], ...] = ()
    dtype: int = TensorProto.FLOAT

    @property
    def name(self) -> str:
        """Op, attributes and shapes in a line."""
        inputs = ["×".join(map(str, shape)) for shape in self.inputs]
        weights = [f"w={'×'.join(map(str, w))}" for w in self.weights if isinstance(w, tuple)]
        attrs = [f"{key}={value}" for key, value in self.attrs if key != "pads"]
        return " ".join([self.op, *inputs, *weights, *attrs])

    def model(self) -> onnx.ModelProto:
        """The model."""
        names = [f"x{n}" for n in range(len(self.inputs))]
        weights = [numpy_helper.from_array(_array(w), f"w{n}") for n, w in enumerate(self.weights)]
        outputs = ["y", "z"] if self.op == "TopK" else ["y"]
        node = helper.make_node(self.op, [*names, *(w.name for w in weights)], outputs, **dict(self.attrs))
        values = [helper.make_tensor_value_info(n, self.dtype, s) for n, s in zip(names, self.inputs, strict=True)]
        graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=n) for n in outputs], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _array(weight: Any) -> npt.NDArray[Any]:
    if isinstance(weight, tuple):
        return np.random.default_rng(0).standard_normal(weight).astype(np.float32)
    array: npt.NDArray[Any] = weight
    return array


def _conv(h: int, c: int, m: int, kernel: int, stride: int = 1, group: int = 1) -> Node:
    attrs = (("strides", [stride] * 2), ("group", group), ("pads", [kernel // 2] * 4))
    return Node("Conv", ((1, c, h, h),), ((m, c // group, kernel, kernel),), attrs)


def _conv_of_bytes(h: int, c: int, m: int) -> Node:
    """3x3, from uint8 by int8 of a common size to uint8."""
    scale, zero = np.float32(0.02).reshape(()), np.uint8(128).reshape(())
    w = np.random.default_rng(0).integers(-60, 61, (m, c, 3, 3)).astype(np.int8)
    weights = (scale, zero, w, scale, np.int8(0).reshape(()), np.float32(0.5).reshape(()), zero)
    return Node("QLinearConv", ((1, c, h, h),), weights, (("pads", [1] * 4),), TensorProto.UINT8)


def nodes() -> Iterator[Node]:
    """The shapes."""
    flat = [(1000,), (64, 1000), (1 << 18,), (1 << 21,)]
    for op in ("Relu", "Sigmoid", "Erf", "Exp", "Sqrt", "Floor", "Sin"):
        yield from (Node(op, (shape,)) for shape in flat)
    for op in ("Add", "Mul", "Div", "Pow", "Less"):
        yield from (Node(op, (shape, shape)) for shape in flat)
        yield Node(op, ((64, 56, 56), (64, 1, 1)))
        yield Node(op, ((512, 768), (768,)))
    for rows, columns in ((1, 1000), (128, 128), (1536, 128), (1000, 10), (64, 4096)):
        yield Node("Softmax", ((rows, columns),))
        yield Node("LayerNormalization", ((rows, columns),), ((columns,), (columns,)))
        yield Node("ArgMax", ((rows, columns),), (), (("axis", 1),))
        yield Node("TopK", ((rows, columns),), (np.array([5]),))
        yield Node("CumSum", ((rows, columns),), (np.array(1),))
        for axis in (0, 1):
            yield Node("ReduceMean", ((rows, columns),), (), (("axes", [axis]),))
        yield Node("Gather", ((rows, columns),), (np.arange(rows)[::-1].copy(),))
        yield Node("Transpose", ((rows, columns),), (), (("perm", [1, 0]),))
        yield Node("Cast", ((rows, columns),), (), (("to", TensorProto.FLOAT16),))
        yield Node("QuantizeLinear", ((rows, columns),), (np.array(0.1, np.float32), np.array(128, np.uint8)))
    for shape, perm in (((1, 12, 128, 64), [0, 2, 1, 3]), ((8, 3, 64, 64), [0, 2, 3, 1]), ((64, 32, 128), [2, 1, 0])):
        yield Node("Transpose", (shape,), (), (("perm", perm),))
    for m, k, n in ((1, 768, 768), (1, 4096, 1000), (128, 768, 768), (128, 768, 3072), (16, 256, 256), (512, 64, 512)):
        yield Node("MatMul", ((m, k),), ((k, n),))
        yield Node("MatMul", ((m, k), (k, n)))
    for batch, m, k, n in ((12, 128, 64, 128), (12, 128, 128, 64), (4, 16, 16, 16)):
        yield Node("MatMul", ((batch, m, k), (batch, k, n)))
    for h, c, m in ((56, 64, 64), (56, 64, 256), (28, 512, 128), (14, 1024, 256), (7, 512, 2048), (112, 16, 96)):
        yield _conv(h, c, m, 1)
    for h, c, m in ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512), (224, 3, 32), (112, 16, 16)):
        yield _conv(h, c, m, 3)
        yield _conv(h, c, m, 3, 2)
        yield _conv(h, c, m, 5)
    for h, c in ((112, 32), (56, 144), (28, 192), (14, 576), (7, 960)):
        for stride in (1, 2):
            yield _conv(h, c, c, 3, stride, c)
        yield _conv(h, c, c, 5, 1, c)
        yield Node("MaxPool", ((1, c, h, h),), (), (("kernel_shape", [3, 3]), ("strides", [2, 2])))
        yield Node("AveragePool", ((1, c, h, h),), (), (("kernel_shape", [2, 2]), ("strides", [2, 2])))
        yield Node("GlobalAveragePool", ((1, c, h, h),))
        yield Node("ConvTranspose", ((1, c, h, h),), ((c, 32, 2, 2),), (("strides", [2, 2]),))
        scales = np.array([1, 1, 2, 2], np.float32)
        yield Node("Resize", ((1, c, h, h),), (np.zeros(0, np.float32), scales), (("mode", "nearest"),))
        yield Node("Resize", ((1, c, h, h),), (np.zeros(0, np.float32), scales), (("mode", "linear"),))
        yield Node("Pad", ((1, c, h, h),), (np.array([0, 0, 1, 1, 0, 0, 1, 1]),))
        yield Node("BatchNormalization", ((1, c, h, h),), ((c,), (c,), (c,), np.ones(c, np.float32)))
        yield Node("InstanceNormalization", ((1, c, h, h),), ((c,), (c,)))
    for steps, size, hidden in ((10, 64, 64), (100, 128, 128), (100, 256, 256), (10, 512, 512), (200, 32, 32)):
        for op, gates in (("LSTM", 4), ("GRU", 3)):
            weights = ((1, gates * hidden, size), (1, gates * hidden, hidden))
            yield Node(op, ((steps, 1, size),), weights, (("hidden_size", hidden),))


def sample(path: Path, name: str, peaks: Roofline) -> Iterator[Sample]:
    """The tasks of a model."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "m.om"
        atcpy.convert(path, package, enable_single_stream=True)
        session = atcpy.InferenceSession(package, threads=1)
        feeds = feeds_for(path)
        session.profile(feeds)
        profiles = [session.profile(feeds) for _ in range(PROFILES)]
    families = {row.name: row.family for row in kernel_table()}
    for launches in zip(*profiles, strict=True):
        task, runs, cost = launches[0].task, launches[0].runs, launches[0].cost
        if task.kernel not in families or not runs or not cost.work:
            continue
        seconds = min(launch.seconds for launch in launches) / runs
        floor = peaks.floor_seconds(cost) or cost.bytes / peaks.bandwidth(cost.bytes)
        node = name if name != path.stem else f"{name}: {task.sources[-1] if task.sources else task.node}"
        op = name.split()[0] if name != path.stem else task.op_type
        yield Sample(families[task.kernel], op, node, cost, floor, seconds)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: that of the ranks, where equal values share the mean of theirs."""
    ranks = []
    for values in (np.asarray(a, float), np.asarray(b, float)):
        order = values.argsort(kind="stable")
        rank = np.empty(len(values))
        rank[order] = np.arange(len(values))
        for value in np.unique(values):
            rank[values == value] = rank[values == value].mean()
        ranks.append(rank)
    if min(rank.std() for rank in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def by_family(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """The samples of each family that are long enough to time, the family of most samples first. Those of one
    op and cost are one sample, the median: layers that a model repeats say nothing about ranks.
    """
    equal: dict[tuple[str, str, TaskCost], list[Sample]] = defaultdict(list)
    for each in samples:
        equal[each.family, each.op, replace(each.cost, stream=0)].append(each)
    found: dict[str, list[Sample]] = defaultdict(list)
    for group in equal.values():
        middle = sorted(group, key=lambda each: each.seconds)[len(group) // 2]
        if middle.seconds >= SHORTEST_S:
            found[middle.family].append(middle)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def family_table(families: dict[str, list[Sample]]) -> Iterator[str]:
    """A row for each family: rank correlations, what a unit of work takes, and how much that varies."""
    yield "| family | shapes | rank correlation of work | of the roofline | ns a unit | 10 % to 90 % |"
    yield "| --- |" + " ---: |" * 5
    for family, samples in families.items():
        if len(samples) < MIN_SHAPES:
            continue
        seconds = [each.seconds for each in samples]
        work = rank_correlation([each.cost.work for each in samples], seconds)
        roofline = rank_correlation([each.roofline_s for each in samples], seconds)
        units = [each.ns_per_work for each in samples]
        low, middle, high = np.percentile(units, (10, 50, 90))
        cells = (
            f"{work:.2f}{'' if work >= GOOD else ' ⚠'}",
            f"{roofline:.2f}",
            f"{middle:.3g}",
            f"{low:.2g} to {high:.2g}",
        )
        yield f"| {family} | {len(samples)} | {' | '.join(cells)} |"


def miss_table(families: dict[str, list[Sample]]) -> Iterator[str]:
    """The shapes whose unit of work is farthest from the median of their family."""
    yield "| family | task | work | µs | µs by the median of the family | times as long |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for family, samples in families.items():
        if len(samples) < MIN_SHAPES:
            continue
        middle = float(np.median([each.ns_per_work for each in samples]))
        for each in sorted(samples, key=lambda each: -abs(np.log(each.ns_per_work / middle)))[:WORST]:
            expected = each.cost.work * middle * 1e-3
            taken = 1e6 * each.seconds
            cells = (each.name, str(each.cost.work), f"{taken:.3g}", f"{expected:.3g}", f"{taken / expected:.2g}")
            yield f"| {family} | {' | '.join(cells)} |"


@dataclass(frozen=True)
class Gain:
    """A convolution, and how many times faster Winograd's is by the estimate and by the clock."""

    name: str
    estimate: float
    measured: float
    least: float = winograd.SMALLEST_GAIN
    kernels: tuple[str, str] = (winograd.DIRECT, winograd.WINOGRAD)

    @property
    def is_chosen(self) -> bool:
        """Whether the compiler takes Winograd's."""
        return self.estimate >= self.least

    @property
    def is_right(self) -> bool:
        """Whether the choice loses no more than 5 %."""
        return self.measured >= 0.95 if self.is_chosen else self.measured <= self.least * 1.05


def winograd_gains(shapes: Sequence[Shape] = WINOGRAD) -> Iterator[Gain]:
    """The gains of convolutions of 3x3 in float32."""
    for h, c, m, *strides in shapes:
        with (
            patch.object(winograd, "SMALLEST_GAIN", 0),
            patch.object(winograd, "STRIDED_GAIN", 0),
            patch.object(winograd, "gain", side_effect=winograd.gain) as asked,
        ):
            measured = _measured_gain(_conv(h, c, m, 3, *strides))
        if asked.called:
            name = ", ".join([_shape(h, c, m), *(f"stride {stride}" for stride in strides)])
            least = winograd.STRIDED_GAIN if strides else winograd.SMALLEST_GAIN
            yield Gain(name, winograd.gain(*asked.call_args_list[0].args), measured, least)


def winograd_gains_of_bytes(shapes: Sequence[Shape] = WINOGRAD_OF_BYTES) -> Iterator[Gain]:
    """The gains of convolutions of 3x3 in 8 bits."""
    for h, c, m in shapes:
        with (
            patch.object(qwinograd, "LEAST_GAIN", 0),
            patch.object(qwinograd, "gain", side_effect=qwinograd.gain) as asked,
        ):
            measured = _measured_gain(_conv_of_bytes(h, c, m))
        estimate = qwinograd.gain(*asked.call_args.args)
        kernels = (qwinograd.DIRECT, qwinograd.WINOGRAD)
        yield Gain(f"{_shape(h, c, m)}, 8 bits", estimate, measured, qwinograd.LEAST_GAIN, kernels)


def _shape(h: int, c: int, m: int) -> str:
    return f"{h}×{h}, {c} → {m}"


def _measured_gain(node: Node) -> float:
    """How many times longer a convolution takes without Winograd's algorithm, both computed in turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(node.model(), path)
        atcpy.convert(path, Path(folder) / "w.om")
        atcpy.convert(path, Path(folder) / "d.om", optimization_switch=f"{choose_winograd.NAME}:off")
        feeds = feeds_for(path)
        sessions = [atcpy.InferenceSession(Path(folder) / f"{name}.om", threads=1) for name in "dw"]
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(2 * PROFILES):
            for session, times in zip(sessions, seconds, strict=True):
                times.append(sum(t.seconds for t in session.profile(feeds) if t.task.op_type.endswith("Conv")))
    return min(seconds[0]) / min(seconds[1])


def gain_table(gains: Sequence[Gain]) -> Iterator[str]:
    """The gains of Winograd's convolutions."""
    yield "| 3×3 convolution | estimate | measured | chosen | |"
    yield "| --- | ---: | ---: | --- | --- |"
    for each in gains:
        chosen = each.kernels[each.is_chosen]
        remark = "" if each.is_right else "⚠"
        yield f"| {each.name} | {each.estimate:.2f} | {each.measured:.2f} | {chosen} | {remark} |"


def main(
    models: Annotated[list[Path] | None, typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)] = None,
) -> None:
    """Prints the report."""
    peaks = measure_roofline(1)
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        for node in nodes():
            path = Path(folder) / "one.onnx"
            onnx.save(node.model(), path)
            samples += sample(path, node.name, peaks)
    for model in models or ():
        try:
            samples += sample(model, model.stem, peaks)
        except AtcError as error:
            print(f"{model.stem}: {error.what}", file=sys.stderr)
    families, gains = by_family(samples), [*winograd_gains(), *winograd_gains_of_bytes()]
    page = PAGE.format(
        cpu=cpu_model(), isa=_kernels.cpu()[0], good=GOOD, smallest=winograd.SMALLEST_GAIN,
        strided=winograd.STRIDED_GAIN, of_bytes=qwinograd.LEAST_GAIN,
        models=", ".join(f"`{model.stem}`" for model in models or ()) or "no models",
        families="\n".join(family_table(families)), misses="\n".join(miss_table(families)),
        gains="\n".join(gain_table(gains)), right=sum(gain.is_right for gain in gains), of=len(gains),
    )  # fmt: skip
    print(page, end="")


if __name__ == "__main__":
    typer.run(main)
