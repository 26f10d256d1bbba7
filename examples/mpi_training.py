"""Gradient descent on several ranks, each with data of its own: `mpiexec -n 2 python -m mpi4py mpi_training.py`.

The model is one step: the gradient of the mean squared error of `x @ w`, averaged over the ranks, taken from `w`.
"""

from zlib import crc32

import numpy as np
from onnx import parser

import atcpy
from atcpy.runtime.distributed.mpi_world import MpiWorld

STEPS, ROWS, RATE = 50, 32, 0.1
MODEL = parser.parse_model(
    f"""<ir_version: 10, opset_import: ["" : 21, "hccl" : 1]>
step (float[{ROWS},3] x, float[{ROWS},1] y, float[3,1] w) => (float[3,1] next)
<float scale = {{{2 * RATE / ROWS}}}> {{
    product = MatMul(x, w)
    error = Sub(product, y)
    columns = Transpose<perm = [1, 0]>(x)
    own = MatMul(columns, error)
    gradient = hccl.HcomAllReduce<reduction = "mean">(own)
    change = Mul(gradient, scale)
    next = Sub(w, change)
}}"""
)


def main() -> None:
    """Train, and compare the weights of all ranks."""
    world = MpiWorld()
    package = f"step{world.rank}.om"  # the same bytes on each rank: the ranks compare them before the first run
    atcpy.convert(MODEL, package)
    session = atcpy.InferenceSession(package, threads=1, world=world)

    rng = np.random.default_rng(world.rank)
    truth = np.array([[1.0], [-2.0], [0.5]], np.float32)
    x = rng.standard_normal((ROWS, 3)).astype(np.float32)
    w = np.zeros((3, 1), np.float32)
    for _ in range(STEPS):
        [w] = session.run(None, {"x": x, "y": x @ truth, "w": w})

    assert np.abs(w - truth).max() < 1e-2
    assert len(set(world.exchange(crc32(w.tobytes())))) == 1, "the ranks have different weights"
    if world.rank == 0:
        print(f"{world.ranks} ranks found {', '.join(f'{each:.2f}' for each in w[:, 0])}")


if __name__ == "__main__":
    main()
