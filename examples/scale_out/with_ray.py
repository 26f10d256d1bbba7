"""Scores a data set of pictures with Ray Data: `python with_ray.py M.om FOLDER ROWS`.

Ray opens one session in each of two workers, which it starts again if they end, and shows its progress.
"""

from __future__ import annotations

import sys

import numpy as np
import ray

import atcpy


def picture(row: dict[str, int]) -> dict[str, np.ndarray]:
    """The picture of a row: here a random one, elsewhere what a file holds."""
    random = np.random.default_rng(row["id"])
    return {"image": random.random((1, 28, 28), np.float32)}


def main(package: str, folder: str, rows: int) -> None:
    """Write the results as Parquet files."""
    ray.init(num_cpus=3, include_dashboard=False)
    scored = (
        ray.data.range(rows, override_num_blocks=4)
        .map(picture)
        .map_batches(
            atcpy.Scorer,
            fn_constructor_args=(package,),
            compute=ray.data.ActorPoolStrategy(size=2),
            batch_size=64,
        )
    )
    scored.write_parquet(folder)
    print(f"{ray.data.read_parquet(folder).count()} rows")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
