"""Time a data-parallel training step whose allreduces run beside the backward pass, and in order.

    python benchmarks/overlap.py [--ranks 2] [--network 10] [--rounds 20]

The model is a multilayer perceptron with its backward pass, an allreduce for the gradient of each layer, and gradient
descent. Ranks are processes of MPI, each on one thread. `--network` adds the time that a network of so many Gbit/s
would take for each allreduce, during which no core is busy: ranks of one machine have no network, and copy by its
cores. Each line shows milliseconds of a step, the minimum over the rounds: without collectives, with them in order, and
beside each other; and how much of the collectives' time is hidden.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import parser

import atcpy
from atcpy.ir.tensor import Array

LAYERS, WIDTH, BATCH = 8, 1024, 512


def step(*, with_collectives: bool) -> str:
    """The training step in ONNX's text form."""
    ins = ", ".join(f"float[{WIDTH},{WIDTH}] w{n}" for n in range(LAYERS))
    outs = ", ".join(f"float[{WIDTH},{WIDTH}] w{n}_next" for n in range(LAYERS))
    shape = f"float[{BATCH},{WIDTH}]"
    lines = []
    for n in range(LAYERS):
        lines += [f"z{n} = MatMul(h{n}, w{n})", f"h{n + 1} = Relu(z{n})"]
    lines.append(f"d{LAYERS} = Sub(h{LAYERS}, truth)")
    for n in reversed(range(LAYERS)):
        reduced = f'hccl.HcomAllReduce<reduction = "mean">(g{n})' if with_collectives else f"Identity(g{n})"
        lines += [
            f"s{n} = Sign(h{n + 1})",
            f"e{n} = Mul(d{n + 1}, s{n})",
            f"t{n} = Transpose<perm = [1, 0]>(h{n})",
            f"g{n} = MatMul(t{n}, e{n})",
            f"r{n} = {reduced}",
            f"m{n} = Mul(r{n}, rate)",
            f"w{n}_next = Sub(w{n}, m{n})",
        ]
        if n:
            lines += [f"v{n} = Transpose<perm = [1, 0]>(w{n})", f"d{n} = MatMul(e{n}, v{n})"]
    return f"""<ir_version: 10, opset_import: ["" : 21, "hccl" : 1]>
    step ({shape} h0, {shape} truth, {ins}) => ({outs}) <float rate = {{0.001}}> {{ {" ".join(lines)} }}"""


def convert(folder: Path, ranks: int, gbits: float) -> dict[str, str]:
    """The three packages, with a collective for each layer, for ranks that such a network connects."""
    cost = f"ranks={ranks},beta={3e-10 + (8e-9 / gbits if gbits else 0)}"
    split = {"allreduce_split_threshold": "0", "allreduce_cost": cost}
    packages = {
        "alone": (step(with_collectives=False), {}),
        "in order": (step(with_collectives=True), {"enable_single_stream": True}),
        "beside": (step(with_collectives=True), {}),
    }
    for name, (text, options) in packages.items():
        atcpy.convert(parser.parse_model(text), folder / f"{name}.om", **split, **options)
    return {name: str(folder / f"{name}.om") for name in packages}


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
    feeds = {
        port.name: rng.standard_normal(port.shape, np.float32) / 32  # type: ignore[arg-type]
        for port in next(iter(sessions.values())).get_inputs()
    }
    times = {name: float("inf") for name in sessions}
    results = {}
    for _ in range(rounds):
        for name, session in sessions.items():
            world.exchange(0)
            start = time.perf_counter()
            results[name] = session.run(None, feeds)
            world.exchange(0)
            times[name] = min(times[name], time.perf_counter() - start)
    assert all(np.array_equal(a, b) for a, b in zip(results["in order"], results["beside"], strict=True))
    if world.rank == 0:
        print(json.dumps(times))


def main() -> None:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ranks", type=int, default=2)
    arguments.add_argument("--network", type=float, default=0.0, metavar="GBIT/S")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--rank", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.rank:
        rank(json.loads(options.rank), options.network, options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        packages = json.dumps(convert(Path(folder), options.ranks, options.network))
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-n", options.ranks, sys.executable, "-m", "mpi4py", __file__, "--rank", packages]
        command += ["--network", options.network, "--rounds", options.rounds]
        found = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True)
    alone, in_order, beside = (1e3 * seconds for seconds in json.loads(found.stdout).values())
    hidden = in_order - beside
    print(
        f"{options.ranks} ranks: alone {alone:.1f} ms, in order {in_order:.1f} ms, beside {beside:.1f} ms: "
        f"{hidden:.1f} of {in_order - alone:.1f} ms hidden, {100 * hidden / (in_order - alone):.0f} %"
    )


if __name__ == "__main__":
    main()
