"""Plans of bounded dims: their memory is planned once, for the largest sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import ResourceLimit, UsageError
from atcpy.ir import CompiledModel, plans_of
from atcpy.kernels.symbolic_program import planned_arena_bytes
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.passes.compile.plan_largest import MAX_PLANNED_BYTES
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package
from tests.stages.test_symbolic import feeds_of, ort_session

ATTENTION = (
    "m (float[b,s,64] x) => (float[b,s,64] z) <float[64,64] w> {"
    " k = MatMul(x, w) t = Transpose<perm=[0,2,1]>(k) q = MatMul(x, t) p = Softmax(q) v = MatMul(p, k) z = Sub(v, x) }"
)
# The window [n, 40) becomes the smaller, the larger n is; its square is largest at the least n.
SHRINKING = (
    (
        "m (float[n] x) => (float[a,b] z, float[n] y) <float[40] c, int64[1] end = {40}, int64[1] first = {0}> {"
        " y = Neg(x) f = Shape(x) w = Slice(c, f, end, first) e = Exp(w) t = Unsqueeze(e, first) u = Unsqueeze(e, end1)"
        " z = MatMul(u, t) }"
    )
    .replace("end1", "one")
    .replace("int64[1] end", "int64[1] one = {1}, int64[1] end")
)
CONV = (
    "m (float[b,3,h,w] x) => (float[b,8,p,q] z) <float[8,3,3,3] k, float[8,8,3,3] l> {"
    " c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, k) r = Relu(c) d = Conv<pads=[1,1,1,1]>(r, l) z = Sigmoid(d) }"
)


def compiled(text: str, shapes: str, **options: object) -> CompiledModel:
    return compile_model(model(text), convert_options({"input_shape": shapes, **options}))[0]


def arenas(compiled: CompiledModel) -> list[int | None]:
    """The arena of each plan, None where runs place the blocks."""
    return [planned_arena_bytes(plan.program) for plan in plans_of(compiled.clusters)]


@pytest.mark.parametrize(
    ("text", "bounds", "runs"),
    [
        (ATTENTION, "x:2~8,3~70,64", [(2, 3), (5, 33), (8, 70), (8, 3), (2, 70)]),
        (ATTENTION, "x:4,1~70,64", [(4, 1), (4, 2), (4, 70)]),
        (SHRINKING, "x:2~38", [(2,), (21,), (38,)]),
        (CONV, "x:1~3,3,7~64,7~65", [(1, 7, 7), (2, 30, 31), (3, 64, 65), (1, 64, 7)]),
    ],
    ids=["attention", "fixed batch", "shrinking", "convolutions"],
)
def test_all_sizes_run_in_the_same_arena(text: str, bounds: str, runs: list[tuple[int, ...]]) -> None:
    source = model(text)
    planned = compiled(text, bounds)
    assert None not in arenas(planned)
    session, oracle = InferenceSession(writer.to_bytes(planned), threads=1), ort_session(source.SerializeToString())
    for number, run in enumerate(runs):
        feeds = feeds_of(oracle, sizes_of(source.graph.input[0].type.tensor_type.shape, run), number)
        for found, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=str(run))
    assert session.shape_cache is not None and session.shape_cache.misses == 0, "something was compiled"
    assert len(session.plans) == len(runs)
    assert {plan.arena_bytes for plan in session.plans} <= set(arenas(planned))


def sizes_of(shape: object, run: tuple[int, ...]) -> Mapping[str, int]:
    """The sizes of the dims that have names, in their order."""
    names = [dim.dim_param for dim in shape.dim if dim.dim_param]  # type: ignore[attr-defined]
    return dict(zip([name for name in names if name], run[-len(names) :], strict=True))


@pytest.mark.parametrize(
    ("text", "bounds", "largest"),
    [(ATTENTION, "x:1~8,1~70,64", "x:8,70,64"), (CONV, "x:1~3,3,7~64,7~65", "x:3,3,64,65")],
)
def test_the_arena_is_that_of_the_largest_sizes(text: str, bounds: str, largest: str) -> None:
    fixed = compiled(text, largest).memory
    found = max(filter(None, arenas(compiled(text, bounds))))
    assert fixed.lower_bound <= found <= 1.05 * fixed.arena_bytes


def test_blocks_share_no_memory_if_that_is_disabled() -> None:
    text = (
        "m (float[n,8] x) => (float[n,8] z) <float[8,8] w> {"
        " s = MatMul(x, w) t = MatMul(s, w) u = MatMul(t, w) z = MatMul(u, w) }"
    )
    block = 100 * 8 * 4
    assert arenas(compiled(text, "x:2~100,8")) == [2 * block]
    assert arenas(compiled(text, "x:2~100,8", disable_reuse_memory="1")) == [3 * block]


def test_sizes_that_shrink_are_planned_for_the_least() -> None:
    assert arenas(compiled(SHRINKING, "x:10~38")) == [128]  # 30 floats of the window, in 64 bytes


def test_a_size_above_the_bound_is_refused() -> None:
    session = InferenceSession(package(ATTENTION, {"input_shape": "x:1~8,1~70,64"}), threads=1)
    with pytest.raises(UsageError, match="dimension 0 may be 1 to 8") as caught:
        session.run(None, {"x": np.zeros((9, 3, 64), np.float32)})
    assert caught.value.code == "E10405"


def test_an_open_dim_beside_a_bounded_one_is_placed_at_run_time() -> None:
    planned = compiled(ATTENTION, "x:1~8,-1,64")
    assert set(arenas(planned)) == {None, 0}, "that of no elements has none"
    source = model(ATTENTION)
    session, oracle = InferenceSession(writer.to_bytes(planned), threads=1), ort_session(source.SerializeToString())
    for b, s in ((1, 1), (8, 5), (3, 200)):
        feeds = feeds_of(oracle, {"b": b, "s": s}, s)
        np.testing.assert_allclose(session.run(None, feeds)[0], oracle.run(None, feeds)[0], rtol=1e-4, atol=1e-4)
    assert len({plan.arena_bytes for plan in session.plans}) == 3


def test_a_dim_that_no_block_depends_on_may_be_open() -> None:
    text = (
        "m (float[b,64] x, float[t,64] y) => (float[b,64] z, float[t,64] u) <float[64,64] w> {"
        " e = MatMul(x, w) z = Softmax(e) u = Exp(y) }"
    )
    assert arenas(compiled(text, "x:1~8,64"))[0] == 8 * 64 * 4


def test_too_large_an_arena_is_placed_at_run_time() -> None:
    text = "m (float[n,1024] x) => (float[n,1024] z) <float[1024,1024] w> { y = MatMul(x, w) z = Softmax(y) }"
    rows = MAX_PLANNED_BYTES // 4096
    assert MAX_PLANNED_BYTES in arenas(compiled(text, f"x:2~{rows},1024"))
    assert set(arenas(compiled(text, f"x:2~{rows + 1},1024"))) == {None}


LARGEST = "the arena for the largest sizes needs 114688 bytes"  # two blocks of 8·28·64 floats


@pytest.mark.parametrize(("limit", "fits"), [(114688, True), (114687, False)])
def test_the_largest_sizes_keep_the_memory_limit(limit: int, fits: bool) -> None:
    shapes = "x:1~8,2~28,64"
    if fits:
        compiled(ATTENTION, shapes, memory_limit=str(limit))
        InferenceSession(package(ATTENTION, {"input_shape": shapes}), threads=1, memory_limit=limit)
        return
    with pytest.raises(ResourceLimit, match=LARGEST) as caught:
        compiled(ATTENTION, shapes, memory_limit=str(limit))
    assert caught.value.code == "R0001"
    with pytest.raises(ResourceLimit, match=LARGEST) as caught:
        InferenceSession(package(ATTENTION, {"input_shape": shapes}), threads=1, memory_limit=limit)
    assert caught.value.code == "R0001"


def test_bounds_that_are_not_planned_for_keep_the_memory_limit() -> None:
    shapes = "x:1~1000000,1~1000000,64"
    assert set(arenas(compiled(ATTENTION, shapes))) == {None}
    with pytest.raises(ResourceLimit, match="the arena for the largest sizes needs"):
        compiled(ATTENTION, shapes, memory_limit="64G")


def test_open_dims_have_no_largest_arena() -> None:
    planned = compiled(ATTENTION, "x:1~8,-1,64", memory_limit="16K")
    session = InferenceSession(writer.to_bytes(planned), threads=1, memory_limit=1 << 20)
    assert session.run(None, {"x": np.zeros((2, 3, 64), np.float32)})[0].shape == (2, 3, 64)
    with pytest.raises(ResourceLimit, match="a run with inputs of these sizes needs"):
        session.run(None, {"x": np.zeros((2, 4000, 64), np.float32)})
    assert session.run(None, {"x": np.zeros((2, 3, 64), np.float32)})[0].shape == (2, 3, 64)


@pytest.mark.parametrize(
    "options", [{}, {"input_shape": "x:-1,8", "dynamic_batch_size": "2,9"}], ids=["fixed", "gears"]
)
def test_the_arena_of_fixed_shapes_is_checked_at_load(options: dict[str, object]) -> None:
    text = "m (float[9,8] x) => (float[9,8] y) <float[8,8] w> { a = MatMul(x, w) y = MatMul(a, w) }"
    content = package(text if not options else text.replace("9,8", "n,8"), options)
    InferenceSession(content, threads=1, memory_limit=320)
    with pytest.raises(ResourceLimit, match="the arena needs 320 bytes, the limit is 319"):
        InferenceSession(content, threads=1, memory_limit=319)
