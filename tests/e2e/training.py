"""The training example on the ranks of MPI: `mpiexec -n 2 python -m mpi4py -m tests.e2e.training`, or `make e2e`."""

from __future__ import annotations

import numpy as np
import xxhash

from atcpy.runtime.distributed.mpi_world import MpiWorld
from tests.models_in_text import package
from tests.runtime.test_training import BATCH, COLLECTIVES, STEPS, step, train, train_rank


def main() -> None:
    """Trains with one, two and as many collectives as there are parameters, and compares with one process."""
    world = MpiWorld()
    alone, (expected,) = train(1, STEPS, {})
    for name, options in COLLECTIVES.items():
        losses, state = train_rank(world, package(step(BATCH // world.ranks), options), STEPS)
        digest = xxhash.xxh3_64(b"".join(state[key].tobytes() for key in sorted(state))).intdigest()
        assert len(set(world.exchange(digest))) == 1, f"{name}: the ranks have different parameters"
        np.testing.assert_allclose(losses, alone, rtol=1e-3, atol=1e-4)
        for key, array in state.items():
            np.testing.assert_allclose(array, expected[key], rtol=1e-3, atol=1e-4)
        if world.rank == 0:
            print(f"{world.ranks} ranks, {name}: loss {losses[0]:.4f} → {losses[-1]:.4f} in {STEPS} steps", flush=True)


if __name__ == "__main__":
    main()
