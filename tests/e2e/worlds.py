"""Collectives under MPI beside simulated ranks: `mpiexec -n 4 python -m mpi4py -m tests.e2e.worlds`."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from atcpy.ops.collectives import WORLD
from atcpy.runtime.distributed.mpi_world import MpiWorld
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.distributed.world import World

RANKS = 4
GROUPS = {"left": (0, 1), "right": (3, 2), "middle": (1, 2), "three": (3, 0, 1)}  # in pairs, and across each other
TYPES = [np.dtype(name) for name in ("float32", "float64", "float16", "int8", "int32", "int64", "uint8")]
TYPES.append(np.dtype(ml_dtypes.bfloat16))
COUNTS = {WORLD: 4, **{name: len(group) for name, group in GROUPS.items()}}
Results = dict[str, np.ndarray]


def values(rank: int, dtype: np.dtype, *shape: int) -> np.ndarray:
    """What a rank brings."""
    rng = np.random.default_rng(rank)
    noise = rng.standard_normal(shape) if dtype.kind not in "iu" else rng.integers(0, 5, shape)
    return noise.astype(dtype)


def work(world: World) -> Results:
    """Each collective of each type in each group that this rank is in."""
    found: Results = {}
    for group, size in COUNTS.items():
        if not world.is_in(group):
            continue
        for dtype in TYPES:
            for reduction in ("sum", "prod", "max", "min"):
                array = values(world.rank, dtype, 7)
                world.all_reduce(array, reduction, group)
                found[f"{group} {dtype} {reduction}"] = array
                part = np.empty(3, dtype)
                world.reduce_scatter(values(world.rank, dtype, size, 3), part, reduction, group)
                found[f"{group} {dtype} scattered {reduction}"] = part
            whole = np.empty((size, 5), dtype)
            world.all_gather(values(world.rank, dtype, 5), whole, group)
            found[f"{group} {dtype} gathered"] = whole
            array = values(world.rank, dtype, 5)
            world.broadcast(array, size - 1, group)
            found[f"{group} {dtype} broadcast"] = array
        large = values(world.rank, np.dtype(np.float32), 300_000)  # more than one part
        world.all_reduce(large, "sum", group)
        found[f"{group} large sum"] = large
        for count in (0, 1):
            few = values(world.rank, np.dtype(np.float32), count)
            world.all_reduce(few, "sum", group)
            found[f"{group} {count} sum"] = few
    return found


def is_exact(name: str) -> bool:
    """Is there one result only? Sums and products of floats depend on the order, if there are more than two."""
    group, *traits = name.split()
    whole = traits[0].startswith(("int", "uint"))
    return whole or COUNTS[group] == 2 or traits[-1] in ("max", "min", "gathered", "broadcast")


def main() -> None:
    """Compares what this rank finds with what it finds as a thread."""
    world = MpiWorld(GROUPS, 30)
    assert world.ranks == RANKS
    found, expected = work(world), run_simulated(work, RANKS, GROUPS)[world.rank]
    assert found.keys() == expected.keys()
    for name, array in found.items():
        if is_exact(name):
            assert array.tobytes() == expected[name].tobytes(), name
        else:
            wide = np.float64
            np.testing.assert_allclose(array.astype(wide), expected[name].astype(wide), 0.01, 1e-5, err_msg=name)
    if len(set(world.exchange(0))) == 1 and world.rank == 0:
        print(f"{len(found)} collectives of {RANKS} ranks are those of threads")


if __name__ == "__main__":
    main()
