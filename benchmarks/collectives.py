"""Time data-parallel training steps on ranks of MPI, each on one thread.

    python benchmarks/collectives.py overlap [--ranks 2] [--network 10] [--rounds 20]
    python benchmarks/collectives.py split [--ranks 2] [--network 10] [--rounds 20]

`overlap`: a multilayer perceptron with its backward pass, an allreduce for the gradient of each layer and gradient
descent, with allreduces in order and beside kernels. `split`: 161 gradients with the sizes of ResNet-50's, joined to
collectives by each of the rules.

`--network` adds the time that a network of so many Gbit/s would take for each allreduce, during which no core is busy:
ranks of one machine have no network, and copy by their cores. Each line shows milliseconds of a step, the minimum over
the rounds. Results are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from onnx import parser

import atcpy
from atcpy.ir.tensor import Array

LAYERS, WIDTH, BATCH = 8, 1024, 512
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # of ResNet-50: blocks, channels
ALONE = "without collectives"


def overlap_step(*, with_collectives: bool) -> str:
    """The training step of the perceptron in ONNX's text form."""
    ins = ", ".join(f"float[{WIDTH},{WIDTH}] w{n}" for n in range(LAYERS))
    outs = ", ".join(f"float[{WIDTH},{WIDTH}] w{n}_next" for n in range(LAYERS))
    shape = f"float[{BATCH},{WIDTH}]"
    lines = []
    for n in range(LAYERS):
        lines += [f"z{n} = MatMul(h{n}, w{n})", f"h{n + 1} = Relu(z{n})"]
    lines.append(f"d{LAYERS} = Sub(h{LAYERS}, truth)")
    for n in reversed(range(LAYERS)):
        lines += [
            f"s{n} = Sign(h{n + 1})",
            f"e{n} = Mul(d{n + 1}, s{n})",
            f"t{n} = Transpose<perm = [1, 0]>(h{n})",
            f"g{n} = MatMul(t{n}, e{n})",
            f"r{n} = {reduced(f'g{n}', with_collectives)}",
            f"m{n} = Mul(r{n}, rate)",
            f"w{n}_next = Sub(w{n}, m{n})",
        ]
        if n:
            lines += [f"v{n} = Transpose<perm = [1, 0]>(w{n})", f"d{n} = MatMul(e{n}, v{n})"]
    return model(f"{shape} h0, {shape} truth, {ins}", outs, lines)


def split_step(*, with_collectives: bool) -> str:
    """A chain of products, the results of which scale parameters to gradients, in ONNX's text form."""
    sizes = list(gradient_sizes())
    ins = ", ".join(f"float[{size}] w{n}" for n, size in enumerate(sizes))
    outs = ", ".join(f"float[{size}] r{n}" for n, size in enumerate(sizes))
    lines = ["c0 = Identity(x)"]
    for n in range(len(sizes)):
        lines += [
            f"p{n} = MatMul(c{n}, c{n})",
            f"c{n + 1} = Tanh(p{n})",
            f"a{n} = ReduceMean<keepdims = 0>(c{n + 1})",
            f"g{n} = Mul(w{n}, a{n})",
            f"r{n} = {reduced(f'g{n}', with_collectives)}",
        ]
    return model(f"float[384,384] x, {ins}", outs, lines)


def gradient_sizes() -> Iterator[int]:
    """The elements of ResNet-50's parameters, from the last to the first."""
    forward = [3 * 64 * 49, 64, 64]
    channels = 64
    for blocks, width in STAGES:
        for block in range(blocks):
            for weights, bias in (
                (channels * width, width),
                (9 * width * width, width),
                (4 * width * width, 4 * width),
            ):
                forward += [weights, bias, bias]
            if block == 0:
                forward += [channels * 4 * width, 4 * width, 4 * width]
            channels = 4 * width
    return reversed([*forward, 2048 * 1000, 1000])


def reduced(gradient: str, with_collectives: bool) -> str:
    """The node that reduces a gradient."""
    return f'hccl.HcomAllReduce<reduction = "mean">({gradient})' if with_collectives else f"Identity({gradient})"


def model(ins: str, outs: str, lines: list[str]) -> str:
    """A model in ONNX's text form."""
    return f"""<ir_version: 10, opset_import: ["" : 21, "hccl" : 1]>
    step ({ins}) => ({outs}) <float rate = {{0.001}}> {{ {" ".join(lines)} }}"""


# The options of each row, beside those of the network.
OVERLAP = {
    "in order": {"allreduce_split_threshold": "0", "enable_single_stream": True},
    "beside kernels": {"allreduce_split_threshold": "0"},
}
SPLIT: Mapping[str, Mapping[str, object]] = {
    "each alone": {"allreduce_split_threshold": "0"},
    "by 25 MB": {"allreduce_split_threshold": "25M"},
    "by default": {},
    "auto": {"allreduce_split": "auto"},
    "one": {"allreduce_split_size": "100"},
}


def convert(folder: Path, options: argparse.Namespace) -> dict[str, str]:
    """The packages by row."""
    step, rows = (overlap_step, OVERLAP) if options.what == "overlap" else (split_step, SPLIT)
    cost = f"ranks={options.ranks},beta={3e-10 + (8e-9 / options.network if options.network else 0)}"
    packages = {ALONE: str(folder / "alone.om")}
    atcpy.convert(parser.parse_model(step(with_collectives=False)), packages[ALONE])
    for number, (row, own) in enumerate(rows.items()):
        packages[row] = str(folder / f"{number}.om")
        given = {"allreduce_cost": cost} if options.network else {}
        report = atcpy.convert(parser.parse_model(step(with_collectives=True)), packages[row], **given, **own)
        if options.what == "split" and report.allreduce is not None:
            plan = report.allreduce
            print(f"{row}: {plan.collectives} collectives, {1e3 * plan.seconds:.1f} ms by the model of costs")
    return packages


def rank(packages: dict[str, str], gbits: float, rounds: int) -> None:
    """Time the steps as one rank, and print them if it is the first."""
    from atcpy.runtime.distributed.mpi_world import MpiWorld

    class NetworkWorld(MpiWorld):
        """Ranks that a network connects."""

        def all_reduce(self, array: Array, reduction: str, group: str) -> None:
            super().all_reduce(array, reduction, group)
            time.sleep(2 * (self.ranks - 1) / self.ranks * array.nbytes * 8 / (gbits * 1e9))

    no_world = {}, 60.0, lambda error: sys.exit(str(error))
    world = NetworkWorld(*no_world, overlaps=True) if gbits else MpiWorld(*no_world)
    rng = np.random.default_rng(world.rank)
    sessions = {name: atcpy.InferenceSession(path, threads=1, world=world) for name, path in packages.items()}
    ports = next(iter(sessions.values())).get_inputs()
    feeds = {port.name: rng.standard_normal(port.shape, np.float32) / 32 for port in ports}  # type: ignore[arg-type]
    times = dict.fromkeys(sessions, float("inf"))
    results = {}
    for _ in range(rounds):
        for name, session in sessions.items():
            world.exchange(0)
            start = time.perf_counter()
            results[name] = session.run(None, feeds)
            world.exchange(0)
            times[name] = min(times[name], time.perf_counter() - start)
    first, *others = (found for name, found in results.items() if name != ALONE)
    for other in others:
        for one, two in zip(first, other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)
    if world.rank == 0:
        print(json.dumps(times))


def main() -> None:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["overlap", "split"])
    arguments.add_argument("--ranks", type=int, default=2)
    arguments.add_argument("--network", type=float, default=0.0, metavar="GBIT/S")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--rank", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.rank:
        rank(json.loads(options.rank), options.network, options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        packages = json.dumps(convert(Path(folder), options))
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-n", options.ranks, sys.executable, "-m", "mpi4py", __file__, options.what]
        command += ["--rank", packages, "--network", options.network, "--rounds", options.rounds]
        found = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True)
    times = {name: 1e3 * seconds for name, seconds in json.loads(found.stdout).items()}
    print(f"{options.ranks} ranks, {f'{options.network:g} Gbit/s' if options.network else 'no network'}")
    for name, milliseconds in times.items():
        print(f"{name:20} {milliseconds:8.1f} ms")
    if options.what == "overlap":
        whole, hidden = times["in order"] - times[ALONE], times["in order"] - times["beside kernels"]
        print(f"{'hidden':20} {hidden:8.1f} of {whole:.1f} ms, {100 * hidden / whole:.0f} %")


if __name__ == "__main__":
    main()
