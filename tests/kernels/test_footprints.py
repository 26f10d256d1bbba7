"""Products and bytes of tasks, against numbers that follow from the shapes by the definition of each op."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime.profile import TaskCost, costs_of, tasks_of
from atcpy.stages.pipeline import compile_model
from tests.golden.golden import parse_text
from tests.models_in_text import package

# Model, and products of two elements that are summed.
PRODUCTS = {
    "Conv": ("m (float[2,3,9,8] x, float[5,3,3,2] w) => (float[2,5,7,7] y) { y = Conv(x, w) }", 2 * 5 * 49 * 3 * 6),
    "Conv of padding and strides": (
        "m (float[1,4,9,9] x) => (float[1,6,5,5] y) <float[6,4,3,3] w> "
        "{ y = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w) }",
        6 * 25 * 4 * 9,
    ),
    "Conv of groups": (
        "m (float[1,32,5,5] x) => (float[1,64,5,5] y) <float[64,16,1,1] w> { y = Conv<group = 2>(x, w) }",
        64 * 25 * 16,
    ),
    "depthwise": (
        "m (float[1,20,6,6] x) => (float[1,20,4,4] y) <float[20,1,3,3] w> { y = Conv<group = 20>(x, w) }",
        20 * 16 * 9,
    ),
    "Conv of three dims": (
        "m (float[1,2,4,5,6] x) => (float[1,3,3,4,5] y) <float[3,2,2,2,2] w> { y = Conv(x, w) }",
        3 * 60 * 2 * 8,
    ),
    "ConvTranspose": (
        "m (float[1,4,5,6] x) => (float[1,7,11,13] y) <float[4,7,3,3] w> { y = ConvTranspose<strides = [2,2]>(x, w) }",
        4 * 30 * 7 * 9,
    ),
    "ConvTranspose of three dims": (
        "m (float[1,2,3,4,5] x) => (float[1,3,4,5,6] y) <float[2,3,2,2,2] w> { y = ConvTranspose(x, w) }",
        2 * 60 * 3 * 8,
    ),
    "MatMul": ("m (float[7,5] x, float[5,3] w) => (float[7,3] y) { y = MatMul(x, w) }", 7 * 5 * 3),
    "MatMul of a batch": (
        "m (float[2,4,7,5] x, float[4,5,3] w) => (float[2,4,7,3] y) { y = MatMul(x, w) }",
        8 * 7 * 5 * 3,
    ),
    "MatMul of doubles": ("m (double[7,5] x, double[5,3] w) => (double[7,3] y) { y = MatMul(x, w) }", 7 * 5 * 3),
    "MatMulInteger": (
        "m (uint8[7,5] x, int8[5,3] w) => (int32[7,3] y) { y = MatMulInteger(x, w) }",
        7 * 5 * 3,
    ),
    "ConvInteger": (
        "m (uint8[1,4,6,6] x) => (int32[1,5,4,4] y) <int8[5,4,3,3] w> { y = ConvInteger(x, w) }",
        5 * 16 * 4 * 9,
    ),
    "ConvInteger, depthwise": (
        "m (uint8[1,20,6,6] x) => (int32[1,20,4,4] y) <int8[20,1,3,3] w> { y = ConvInteger<group = 20>(x, w) }",
        20 * 16 * 9,
    ),
    "LSTM": (
        "m (float[6,2,3] x) => (float[6,1,2,5] y) <float[1,20,3] w, float[1,20,5] r> "
        "{ y = LSTM<hidden_size = 5>(x, w, r) }",
        6 * 2 * 20 * (3 + 5),
    ),
    "GRU": (
        "m (float[6,2,3] x) => (float[6,1,2,5] y) <float[1,15,3] w, float[1,15,5] r> "
        "{ y = GRU<hidden_size = 5>(x, w, r) }",
        6 * 2 * 15 * (3 + 5),
    ),
}
BYTES = {
    "Neg": ("m (float[6,7] x) => (float[6,7] y) { y = Neg(x) }", 168, 168),
    "Add of a row": ("m (float[6,7] x, float[7] b) => (float[6,7] y) { y = Add(x, b) }", 168 + 28, 168),
    "MatMul": ("m (float[7,5] x, float[5,3] w) => (float[7,3] y) { y = MatMul(x, w) }", 4 * (35 + 15), 4 * 21),
    "DFT, by the host": ("m (float[1,3,2] x) => (float[1,3,2] y) { y = DFT<inverse = 1>(x) }", 24, 24),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_flops_are_twice_the_products(name: str) -> None:
    text, products = PRODUCTS[name]
    [plan] = InferenceSession(package(text), threads=1).plans
    flops = [cost.flops for cost in costs_of(plan)]
    assert sum(each for each in flops if each is not None) == 2 * products


def test_attention_multiplies_queries_with_keys_and_scores_with_values() -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 23]> m (float[2,4,7,5] q, float[2,4,9,5] k, float[2,4,9,3] v) => '
        "(float[2,4,7,3] y) { y = Attention(q, k, v) }"
    )
    [plan] = InferenceSession(writer.to_bytes(compile_model(parse_text(text), convert_options(None))[0])).plans
    assert next(task.kernel for task in tasks_of(plan)).startswith("attention")
    assert [cost.flops for cost in costs_of(plan)] == [2 * 2 * 4 * 7 * 9 * (5 + 3)]


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_those_of_the_operands(name: str) -> None:
    text, read, written = BYTES[name]
    [plan] = InferenceSession(package(text), threads=1).plans
    [cost] = costs_of(plan)
    assert (cost.read_bytes, cost.written_bytes, cost.bytes) == (read, written, read + written)
    assert cost.flops == (None if name != "MatMul" else 2 * PRODUCTS["MatMul"][1])


def test_plans_for_open_dims_have_the_sizes_of_their_run() -> None:
    session = InferenceSession(package("m (float[n,5] x) => (float[n,3] y) <float[5,3] w> { y = MatMul(x, w) }"))
    for rows in (7, 11):
        session.run(None, {"x": np.ones((rows, 5), np.float32)})
    costs = [(cost.flops, cost.written_bytes) for plan in session.plans for cost in costs_of(plan)]
    assert sorted((c for c in costs if c[0]), key=str) == sorted(
        [(2 * 7 * 15, 7 * 12), (2 * 11 * 15, 11 * 12)], key=str
    )


def test_the_type_of_the_products_is_known() -> None:
    def multiplied(text: str) -> set[str]:
        [plan] = InferenceSession(package(text), threads=1).plans
        return {cost.multiplied for cost in costs_of(plan) if cost.flops is not None}

    assert multiplied(PRODUCTS["MatMul"][0]) == multiplied(PRODUCTS["Conv"][0]) == {"float32"}
    assert multiplied(PRODUCTS["MatMul of doubles"][0]) == {"float64"}
    assert multiplied(PRODUCTS["MatMulInteger"][0]) == {"int8"}


def test_products_of_bfloat16_are_none_of_float32() -> None:
    model = parse_text(
        '<ir_version: 10, opset_import: ["" : 21]> m (float[32,64] x) => (float[32,48] y) <float[64,48] w> '
        "{ y = MatMul(x, w) }"
    )
    compiled, _ = compile_model(model, convert_options({"precision_mode_v2": "mixed_bfloat16"}))
    [plan] = InferenceSession(writer.to_bytes(compiled), threads=1).plans
    pairs = zip(tasks_of(plan), costs_of(plan), strict=True)
    products = [(task.kernel.endswith(("avx512bf16", "amx")), cost.multiplied) for task, cost in pairs if cost.flops]
    assert products and all(multiplied == ("bfloat16" if pairs else "float32") for pairs, multiplied in products)


def test_the_stream_is_that_of_the_task() -> None:
    branches = " ".join(f"a{n} = MatMul(x, w{n}) y{n} = Relu(a{n})" for n in range(3))
    text = f"m (float[8,64] x) => ({', '.join(f'float[8,64] y{n}' for n in range(3))}) <{{}}> {{{{ {branches} }}}}"
    weights = ", ".join(f"float[64,64] w{n}" for n in range(3))
    [plan] = InferenceSession(package(text.format(weights)), threads=2).plans
    names = [task.op_type for task in tasks_of(plan)]
    streams = {cost.stream for name, cost in zip(names, costs_of(plan), strict=True) if "MatMul" in name}
    assert streams == {0, 1, 2} or "StreamActive" not in names


def test_threads_share_what_has_work_enough() -> None:
    [small] = InferenceSession(package("m (float[64] x) => (float[64] y) { y = Neg(x) }"), threads=1).plans
    [large] = InferenceSession(package("m (float[512,512] x) => (float[512,512] y) { y = Sin(x) }"), threads=1).plans
    [few], [many] = costs_of(small), costs_of(large)
    assert few.items == 1 and few.busy_threads(8) == 1
    assert many.items > 8 and many.work >= 512 * 512
    assert 1 < many.busy_threads(2) <= 2


@pytest.mark.parametrize("threads", [1, 64])
@pytest.mark.parametrize(
    "model",
    [
        "m (float[1,64,28,28] x) => (float[1,64,28,28] y) <float[64,64,1,1] w> { y = Conv(x, w) }",
        "m (float[1,64,56,56] x) => (float[1,64,56,56] y) <float[64,64,3,3] w> { y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
        "m (float[128,768] x) => (float[128,768] y) <float[768,768] w> { y = MatMul(x, w) }",
    ],
    ids=["conv2d", "winograd2d", "matmul"],
)
def test_many_threads_get_more_items(model: str, threads: int) -> None:
    [plan] = InferenceSession(package(model), threads=threads).plans
    costs = costs_of(plan)
    number = max(range(len(costs)), key=lambda i: costs[i].work)
    assert costs[number].items == plan.plan.items(threads)[number]
    items_of = costs[number].items_of
    assert items_of is not None and items_of(64) >= 2 * plan.plan.items(1)[number]
    assert costs[number].busy_threads(16) > 12


@pytest.mark.parametrize("threads", [0, -1, 2**31])
def test_no_such_threads(threads: int) -> None:
    [plan] = InferenceSession(package("m (float[64] x) => (float[64] y) { y = Neg(x) }"), threads=1).plans
    with pytest.raises(ValueError, match="no such number of threads"):
        plan.plan.items(threads)


def deal(items: int, threads: int) -> int:
    """The items of the thread that gets most by the pool's rule, if they take equally long."""
    least, left, loads = max(1, items // (32 * threads)), items, [0] * threads
    while left > 0:
        chunk = min(left, max(least, left // (2 * threads)))
        loads[loads.index(min(loads))] += chunk
        left -= chunk
    return max(loads)


@given(st.integers(0, 1000), st.integers(1, 70))
def test_threads_that_share_items_end_together(items: int, threads: int) -> None:
    share = -(-items // threads)
    assert share <= deal(items, threads) <= share + items // (32 * threads)
    busy = TaskCost(0, 0, 0, None, items=items).busy_threads(threads)
    assert busy == (pytest.approx(items / share) if items > 0 else 1.0)
