"""Scores shards of pictures on a Dask cluster: `python with_dask.py M.om FOLDER SHARDS`.

Start it again after an interruption: shards that are done stay as they are. Here the cluster is two processes of
this machine; `Client("tcp://scheduler:8786")` is one of many machines, which all must see the package and the folder.
"""

from __future__ import annotations

import sys

import numpy as np
from dask.distributed import Client, LocalCluster, as_completed

import atcpy


def load(shard: str) -> dict[str, np.ndarray]:
    """The inputs of a shard: here random pictures, elsewhere what a file holds."""
    random = np.random.default_rng(int(shard))
    return {"image": random.random((100, 1, 28, 28), np.float32)}


def main(package: str, folder: str, count: int) -> None:
    """Score all shards that are not done."""
    job = atcpy.ScoreShard(atcpy.Scorer(package), load, folder)
    shards = [str(number) for number in range(count)]
    left = job.missing(shards)
    print(f"{len(shards) - len(left)} of {len(shards)} shards are done")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        futures = client.map(job, left, pure=False)  # Dask does again what a worker that ended had begun
        for done, future in enumerate(as_completed(futures), len(shards) - len(left) + 1):
            print(f"{done} of {len(shards)}: {future.result()}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
