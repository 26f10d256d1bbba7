"""Trains a small network on several ranks, each with examples of its own: gradients meet in collectives.

python examples/sink/data_parallel.py [ranks] [steps]

The ranks are threads of this process. `atcpy run … --ranks N --iterations STEPS` makes them processes of MPI.
"""

import sys

import numpy as np
from gradient_descent import batches, first_weights, train, training_step

import atcpy
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.distributed.world import World

ROWS = 32  # of all ranks together


def train_rank(world: World, steps: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What `train` returns, as one of the ranks: its examples are each n-th of the whole batch."""
    session = atcpy.InferenceSession("parallel_step.om", threads=1, world=world)
    own = {name: array[:, world.rank :: world.ranks] for name, array in batches(steps, ROWS).items()}
    return train(session, first_weights(), own)


def train_on_ranks(ranks: int, steps: int) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """The results of all ranks."""
    model = training_step(ROWS // ranks, reduce='hccl.HcomAllReduce<reduction = "mean">')
    atcpy.convert(model, "parallel_step.om")
    return run_simulated(lambda world: train_rank(world, steps), ranks)


def main(ranks: int = 2, steps: int = 500) -> None:
    """Train, and compare the ranks."""
    results = train_on_ranks(ranks, steps)
    losses, weights = results[0]
    for _, others in results:
        assert all(np.array_equal(others[name], weights[name]) for name in weights)
    print(f"{ranks} ranks: loss {losses[:50].mean():.4f} to {losses[-50:].mean():.4f}, equal weights on all")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
