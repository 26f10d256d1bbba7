"""Random graphs with allreduces: however they meet, ranks find the same, and their tasks are in order."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.distributed.world import World
from atcpy.stages.pipeline import compile_model
from tests.effort import quick_and_slow
from tests.models_in_text import model, package
from tests.passes.compile.test_assign_streams import come_before, share

SPLITS: tuple[dict[str, str], ...] = (
    {},
    {"allreduce_split": "auto"},
    {"allreduce_split": "auto", "allreduce_cost": "alpha=0,beta=1e-6"},
    {"allreduce_split_size": "100"},
    {"allreduce_split_threshold": "200"},
    {"allreduce_split_size": "30,30,40", "disable_reuse_memory": "1"},
)


def random_graph(seed: int) -> str:
    """Values of three sizes, added and reduced in any order; some of those in between are outputs, too."""
    rng = random.Random(seed)
    values = {3: ["x3"], 8: ["x8"], 40: ["x40"]}
    lines, outputs = [], []
    for number in range(rng.randrange(8, 30)):
        size = rng.choice([3, 8, 40])
        name, source = f"v{number}", rng.choice(values[size])
        match rng.randrange(5):
            case 0:
                lines.append(f"{name} = Sin({source})")
            case 1:
                lines.append(f"{name} = Add({source}, {rng.choice(values[size])})")
            case kind:
                reduction = rng.choice(["sum", "sum", "sum", "mean", "max"])
                fusion = rng.choice(["", "", "", ", fusion = 0", ", fusion = 2, fusion_id = 3"])
                group = rng.choice(["", "", ', group = "pair"'])
                lines.append(f'{name} = HcomAllReduce<reduction = "{reduction}"{fusion}{group}>({source})')
                if kind == 2:
                    outputs.append((name, size))
        values[size].append(name)
    outputs += [(names[-1], size) for size, names in values.items() if len(names) > 1]
    ins = ", ".join(f"float[{size}] x{size}" for size in values)
    outs = ", ".join(f"float[{size}] {name}" for name, size in dict.fromkeys(outputs))
    return f"g ({ins}) => ({outs}) {{ {' '.join(lines)} }}"


def found_by(package: bytes) -> list[list[np.ndarray]]:
    def work(world: World) -> list[np.ndarray]:
        rng = np.random.default_rng(world.rank)
        feeds = {f"x{size}": rng.standard_normal(size).astype(np.float32) for size in (3, 8, 40)}
        session = InferenceSession(package, threads=1, world=world)
        names = [port.name for port in session.get_inputs()]
        found: list[np.ndarray] = session.run(None, {name: feeds[name] for name in names})
        return found

    return run_simulated(work, 2, {"pair": (0, 1)})


@pytest.mark.parametrize("seed", quick_and_slow(range(12), 4))
def test_ranks_find_the_same_however_allreduces_meet(seed: int) -> None:
    text = random_graph(seed)
    expected = found_by(package(text, {"skip_pass": "HcomAllReduceFusionPass"}))
    for options in SPLITS:
        compiled, report = compile_model(model(text), convert_options(options))
        before = come_before(compiled.tasks)
        for one, other in combinations(range(len(compiled.tasks)), 2):
            if share(compiled.tasks[one], compiled.tasks[other]):
                assert one in before[other]
        plan = report.allreduce
        assert plan is None or plan.collectives <= plan.allreduces <= text.count("HcomAllReduce")
        for found, wanted in zip(found_by(writer.to_bytes(compiled)), expected, strict=True):
            for array, other_array in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(array, other_array)
