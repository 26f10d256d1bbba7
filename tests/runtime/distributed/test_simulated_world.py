"""A package on several ranks, as threads of one process: sums, groups, and what ends all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid, ResourceLimit, UsageError
from atcpy.runtime.distributed.failures import RankFailed
from atcpy.runtime.distributed.groups import read_groups
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.distributed.world import World
from tests.models_in_text import package

UNFUSED = {"skip_pass": ("HcomAllReduceFusionPass",)}
Array = npt.NDArray[np.generic]
GRADIENTS = """g (float[8,16] x, float[5] y) => (float[8,16] a, float[5] b, float[8,16] c, float[5] d) {
    a0 = Exp(x)
    a = HcomAllReduce<reduction = "sum">(a0)
    b0 = Sin(y)
    b = HcomAllReduce<reduction = "sum">(b0)
    c0 = Neg(x)
    c = HcomAllReduce<reduction = "mean">(c0)
    d0 = Cos(y)
    d = HcomAllReduce<reduction = "mean">(d0)
}"""
INDEX = """g (float[4] x, int64[1] i) => (float[1] y) {
    s = HcomAllReduce<reduction = "sum">(x)
    n = Neg(s)
    y = Gather<axis = 0>(n, i)
}"""


def feeds_of(rank: int) -> dict[str, Array]:
    rng = np.random.default_rng(rank)
    return {
        "x": rng.standard_normal((8, 16)).astype(np.float32),
        "y": rng.standard_normal(5).astype(np.float32),
    }


def ran_on(ranks: int, om: bytes, feeds: Callable[[int], dict[str, Array]], **options: object) -> list[list[Array]]:
    def work(world: World) -> list[Array]:
        results: list[Array] = InferenceSession(om, threads=1, world=world).run(None, feeds(world.rank))
        return results

    return run_simulated(work, ranks, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("ranks", [2, 4])
def test_fused_and_single_allreduces_agree_with_numpy_bit_for_bit(ranks: int) -> None:
    fused = ran_on(ranks, package(GRADIENTS), feeds_of)
    single = ran_on(ranks, package(GRADIENTS, UNFUSED), feeds_of)
    for one, other in zip(fused, single, strict=True):
        for a, b, first in zip(one, other, fused[0], strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, first)
    expected = sum(np.exp(feeds_of(rank)["x"].astype(np.float64)) for rank in range(ranks))
    np.testing.assert_allclose(fused[0][0], expected, rtol=1e-6)
    expected = sum(np.cos(feeds_of(rank)["y"].astype(np.float64)) for rank in range(ranks)) / ranks
    np.testing.assert_allclose(fused[0][3], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int32", "double"])
@pytest.mark.parametrize("reduction", ["sum", "prod", "max", "min"])
def test_reductions_of_each_type(dtype: str, reduction: str) -> None:
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype("float64" if dtype == "double" else dtype)
    om = package(f'g ({dtype}[7] x) => ({dtype}[7] y) {{ y = HcomAllReduce<reduction = "{reduction}">(x) }}')
    values = np.random.default_rng(1).integers(-4, 5, (3, 7)).astype(kind)
    fold = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[reduction]
    for (found,) in ran_on(3, om, lambda rank: {"x": values[rank]}):
        np.testing.assert_array_equal(found.astype(np.float64), fold(values.astype(np.float64), axis=0))


def test_gathering_scattering_and_broadcasting() -> None:
    om = package("""g (float[2,3] x) => (float[4,3] all, float[1,3] part, float[2,3] one) {
        all = HcomAllGather<rank_size = 2>(x)
        part = HcomReduceScatter<rank_size = 2, reduction = "sum">(x)
        one = HcomBroadcast<root_rank = 1>(x)
    }""")
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    for rank, (whole, part, one) in enumerate(ran_on(2, om, lambda rank: {"x": values[rank]})):
        np.testing.assert_array_equal(whole, values.reshape(4, 3))
        np.testing.assert_array_equal(part, values.sum(axis=0)[rank : rank + 1])
        np.testing.assert_array_equal(one, values[1])


def test_two_groups_and_a_rank_outside_keeps_what_it_has(tmp_path: Path) -> None:
    om = package("""g (float[3] x) => (float[3] y) {
        a = HcomAllReduce<reduction = "sum", group = "left">(x)
        y = HcomAllReduce<reduction = "sum", group = "right">(a)
    }""")
    table = tmp_path / "groups.json"
    table.write_text(json.dumps({"left": [0, 1], "right": [3, 2]}))
    found = ran_on(5, om, lambda rank: {"x": np.full(3, 2.0**rank, np.float32)}, groups=read_groups(str(table), 5))
    assert [float(y[0]) for (y,) in found] == [3, 3, 12, 12, 16]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON: nested too deep"),
        ("[]", "no object"),
        ('{"a": []}', "no list of ranks"),
        ('{"a": [0, 0]}', "has a rank twice"),
        ('{"a": [0, 4]}', "has rank 4, there are 0 to 3"),
        ('{"hccl_world_group": [0]}', "is that of all ranks"),
    ],
)
def test_tables_of_groups_that_are_wrong(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "groups.json").write_text(table)
    with pytest.raises(UsageError, match=message) as caught:
        read_groups(str(tmp_path / "groups.json"), 4)
    assert caught.value.code == "EI0004"


def failure_of(work: Callable[[World], object], ranks: int = 4, seconds: float = 5.0) -> RankFailed:
    """Why the ranks ended, which they did soon and all of them."""
    started, running = time.monotonic(), threading.active_count()
    with pytest.raises(RankFailed) as caught:
        run_simulated(work, ranks, seconds=seconds)
    assert time.monotonic() - started < 10
    assert threading.active_count() == running
    return caught.value


def test_another_package_on_one_rank_is_told_before_the_first_run() -> None:
    one, other = package(GRADIENTS), package(GRADIENTS, UNFUSED)
    failure = failure_of(
        lambda world: InferenceSession(other if world.rank == 2 else one, world=world).run(None, feeds_of(0))
    )
    assert isinstance(failure.error, ModelInvalid)
    assert (failure.error.code, failure.error.exit_code) == ("D0002", 3)
    assert "rank 2 runs another package than rank 0" in str(failure)


def test_an_error_on_one_rank_ends_all_and_names_rank_node_and_cause() -> None:
    om = package(INDEX)

    def work(world: World) -> None:
        session = InferenceSession(om, threads=1, world=world)
        for _ in range(3):  # the others go on to the next step, where they wait for rank 1
            index = np.array([9 if world.rank == 1 else 0])
            session.run(None, {"x": np.ones(4, np.float32), "i": index})

    assert str(failure_of(work)) == ('atcpy: rank 1 of 4: node "y" (Gather): index 9 is outside an axis of size 4')


def test_the_death_of_one_rank_ends_all() -> None:
    om = package(INDEX)

    def work(world: World) -> None:
        if world.rank != 3:
            InferenceSession(om, threads=1, world=world).run(None, {"x": np.ones(4, np.float32), "i": np.array([0])})

    failure = failure_of(work)
    assert failure.rank == 3
    assert isinstance(failure.error, ResourceLimit)
    assert failure.error.code == "EI0007"


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_waited_for_only_so_long() -> None:
    om = package(INDEX)

    def work(world: World) -> None:
        if world.rank == 1:
            time.sleep(1)
        InferenceSession(om, threads=1, world=world).run(None, {"x": np.ones(4, np.float32), "i": np.array([0])})

    assert "waits for rank 1 since 0.2 s" in str(failure_of(work, ranks=2, seconds=0.2))


def test_a_package_for_another_number_of_ranks_and_a_group_that_nobody_knows() -> None:
    gather = package("g (float[2] x) => (float[4] y) { y = HcomAllGather<rank_size = 2>(x) }")
    x = np.ones(2, np.float32)
    failure = failure_of(lambda world: InferenceSession(gather, world=world).run(None, {"x": x}), ranks=3)
    assert "it is for 2 ranks, 3 are running" in str(failure)
    group = package('g (float[2] x) => (float[2] y) { y = HcomAllReduce<reduction = "sum", group = "tp">(x) }')
    failure = failure_of(lambda world: InferenceSession(group, world=world).run(None, {"x": x}), ranks=2)
    assert isinstance(failure.error, UsageError)
    assert failure.error.code == "EI0004"


def test_collectives_of_a_graph_whose_shapes_are_unknown() -> None:
    om = package("""g (float[n] x) => (float[n] y, float[m] z) {
        y = HcomAllReduce<reduction = "sum">(x)
        i = NonZero(y)
        k = Squeeze(i)
        f = Cast<to = 1>(k)
        z = HcomAllReduce<reduction = "mean">(f)
    }""")
    for y, z in ran_on(2, om, lambda rank: {"x": np.array([1, 0, 2 * rank - 1], np.float32)}):
        np.testing.assert_array_equal(y, [2, 0, 0])
        np.testing.assert_array_equal(z, [0])


def test_one_rank_needs_no_mpi() -> None:
    program = "import sys, atcpy.cli.run, atcpy.runtime.session; print([n for n in sys.modules if 'mpi4py' in n])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"


def test_two_conversions_are_the_same_and_so_are_their_results() -> None:
    one, other = package(GRADIENTS), package(GRADIENTS)
    assert one == other
    for first, second in zip(ran_on(4, one, feeds_of), ran_on(4, other, feeds_of), strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
