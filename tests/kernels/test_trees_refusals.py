"""trees and pairwise_coupling refuse records and constants that would access memory outside their operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from tests.effort import trials

Params = dict[str, table.ParamValue]

X = np.array([[0.5, -1.0], [2.0, 1.0], [np.nan, 0.0]], np.float32)
PARAMS: Params = {
    "rows": 3, "features": 2, "targets": 2, "trees": 2, "nodes": 4, "depth": 1, "leaves": 2, "entries": 3,
    "max_entries": 2, "missing": 1,
}  # fmt: skip


def node(threshold: float, feature: int, child_0: int, child_1: int) -> list[int]:
    """The two 64-bit words of a split node."""
    word = int(np.float32(threshold).view(np.uint32)) | feature << 32
    return [word - (1 << 64) if word >> 63 else word, child_0 | child_1 << 32]


def leaf(number: int, itself: int) -> list[int]:
    """The two 64-bit words of a leaf node."""
    return [number, itself | itself << 32]


NODES = [node(0.0, 1, 1, 2), leaf(0, 1), leaf(1, 2), leaf(1, 3)]


def constants(**changes: Sequence[object]) -> list[Array]:
    """The constants of two trees: a split with two leaves, and a single leaf."""
    values: dict[str, tuple[Sequence[object], type]] = {
        "nodes": (NODES, np.int64),
        "roots": ([0, 3], np.int32),
        "starts": ([0, 2, 3], np.int32),
        "targets": ([0, 1, 1], np.int32),
        "weights": ([1.0, 2.0, 4.0], np.float32),
    }
    return [np.array(changes.get(name, value), dtype) for name, (value, dtype) in values.items()]


def load(
    params: Params, arrays: list[Array], *, region: Region = Region.WEIGHTS, launches: int = 1
) -> tuple[_kernels.Plan, list[Array]]:
    """A plan of a launch, or of several that are the same, as the loader creates it, and its inputs."""
    weights, slots, inputs = bytearray(), [], [X]
    slots.append(Slot(Region.INPUT, 0, X.nbytes, TensorDesc.plain(DType.FLOAT32, X.shape)))
    for array in arrays:
        desc = TensorDesc.plain(DType.from_numpy(array.dtype), array.shape)
        if region is Region.INPUT:
            slots.append(Slot(region, 0, array.nbytes, desc, len(inputs)))
            inputs.append(array)
            continue
        weights.extend(bytes(-len(weights) % 64))
        slots.append(Slot(region, len(weights), array.nbytes, desc))
        weights.extend(array.tobytes())
    y = Slot(Region.OUTPUT, 0, 24, TensorDesc.plain(DType.FLOAT32, (3, 2)))
    record = table.pack_task("trees", slots, [y], table.pack_params("trees", params))
    return _kernels.Plan(record * launches, bytes(weights), 0, [array.nbytes for array in inputs], [24], 1), inputs


def run(plan: _kernels.Plan, inputs: list[Array]) -> Array:
    y = np.empty((3, 2), np.float32)
    plan.start([array.reshape(-1).view(np.uint8) for array in inputs], [y.reshape(-1).view(np.uint8)]).execute(0, 1)
    return y


def test_valid_trees_run() -> None:
    assert run(*load(PARAMS, constants())).tolist() == [[1, 6], [0, 8], [1, 6]]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nodes": [node(0, 2, 1, 2), *NODES[1:]]}, "does not exist"),
        ({"nodes": [node(0, 1, 4, 2), *NODES[1:]]}, "does not exist"),
        ({"nodes": [node(0, 1, 1, 4), *NODES[1:]]}, "does not exist"),
        ({"nodes": [node(0, 1, 1, 0xFFFFFFFF >> 1), *NODES[1:]]}, "does not exist"),
        ({"nodes": [NODES[0], leaf(2, 1), *NODES[2:]]}, "does not exist"),
        ({"nodes": [NODES[0], leaf(0xFFFFFFFF, 1), *NODES[2:]]}, "does not exist"),
        ({"roots": [0, 4]}, "does not exist"),
        ({"roots": [-1, 3]}, "does not exist"),
        ({"starts": [0, 2, 4]}, "does not exist"),
        ({"starts": [-1, 2, 3]}, "does not exist"),
        ({"starts": [0, 3, 2]}, "does not exist"),
        ({"starts": [0, 0, 3]}, "does not exist"),
        ({"targets": [0, 1, 2]}, "does not exist"),
        ({"targets": [-1, 1, 1]}, "does not exist"),
        ({"nodes": NODES[:3]}, "too small"),
        ({"roots": [0]}, "too small"),
        ({"starts": [0, 2]}, "too small"),
        ({"weights": [1.0, 2.0]}, "too small"),
    ],
)
def test_invalid_constants_are_refused(changes: dict[str, Sequence[object]], reason: str) -> None:
    with pytest.raises(_kernels.Refused, match=reason):
        load(PARAMS, constants(**changes))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"features": 1}, "does not exist"),
        ({"features": 3}, "too small"),
        ({"features": 0}, "out of range"),
        ({"rows": 4}, "too small"),
        ({"targets": 3}, "too small"),
        ({"trees": 3}, "too small"),
        ({"nodes": 5}, "too small"),
        ({"nodes": 2**40}, "out of range"),
        ({"leaves": 3}, "too small"),
        ({"leaves": 0}, "without leaves"),
        ({"max_entries": 1}, "does not exist"),
        ({"missing": 2}, "neither 0 nor 1"),
        ({"depth": 2**46}, "more work"),
    ],
)
def test_invalid_arguments_are_refused(change: Params, reason: str) -> None:
    with pytest.raises(_kernels.Refused, match=reason):
        load(PARAMS | change, constants())


def test_nodes_that_track_missing_values_need_the_missing_argument() -> None:
    flagged = {"nodes": [node(0.0, 1 | 1 << 31, 1, 2), *NODES[1:]]}
    load(PARAMS, constants(**flagged))
    with pytest.raises(_kernels.Refused, match="does not exist"):
        load(PARAMS | {"missing": 0}, constants(**flagged))


def test_trees_in_run_time_inputs_are_refused() -> None:
    with pytest.raises(_kernels.Refused, match="not constant"):
        load(PARAMS, constants(), region=Region.INPUT)


def test_many_launches_of_the_same_constants_are_refused() -> None:
    """Each is checked: a small package must not keep the loader busy for minutes."""
    nodes = 2**18  # of 16 bytes
    leaves = np.zeros((nodes, 2), np.int64)
    leaves[:, 1] = np.arange(nodes) * (2**32 + 1)
    arrays = [leaves, *constants()[1:]]
    load(PARAMS | {"nodes": nodes}, arrays, launches=20)
    with pytest.raises(_kernels.Refused, match="named too often") as refused:
        load(PARAMS | {"nodes": nodes}, arrays, launches=100)
    assert refused.value.args[1] == 256 // 4 + 16  # 256 MiB, and 16 times the constants


def test_a_cycle_ends_after_the_stated_depth() -> None:
    cycle = {"nodes": [node(0.0, 1, 1, 1), node(0.0, 1, 0, 0), leaf(1, 2), leaf(1, 3)]}
    assert run(*load(PARAMS | {"depth": 10**6}, constants(**cycle))).tolist() == [[0, 4]] * 3


def test_corrupted_constants_are_refused_or_stay_in_bounds() -> None:
    """The sanitizer build reports any out-of-bounds access."""
    rng = np.random.default_rng(0)
    accepted = 0
    for _ in range(trials(300)):
        arrays = constants()
        for _ in range(int(rng.integers(1, 4))):
            elements = arrays[int(rng.integers(4))].reshape(-1).view(np.int32)
            elements[rng.integers(len(elements))] = rng.integers(-1, 6)
        try:
            run(*load(PARAMS, arrays))
        except _kernels.Refused:
            continue
        accepted += 1
    assert accepted
