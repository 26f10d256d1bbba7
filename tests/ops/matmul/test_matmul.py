"""MatMul, Gemm, FusedMatMul: every row against the ONNX reference, and inference against ONNX's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, Reject, TensorDesc
from atcpy.ir.shape import Shape, Sym
from atcpy.ir.tensor import Array
from atcpy.kernels import table
from atcpy.ops import find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.matmul.matmul import infer_matmul, supports_matmul
from tests.effort import trials
from tests.harness import load_task, make_node, reference_op, run_op
from tests.isa import ISAS

# Around the kernels' tiles (6 and 14 rows, panels of 16, 256 of k), and empty.
ROWS = st.one_of(st.integers(0, 30), st.sampled_from([127, 224, 225, 230]))
COLUMNS = st.one_of(st.integers(0, 34), st.sampled_from([48, 95, 161]))
DEPTHS = st.one_of(st.integers(0, 20), st.sampled_from([64, 255, 256, 257, 600]))
TINY = np.finfo(np.float32).eps


def random(rng: np.random.Generator, shape: Shape, dtype: str = "f4") -> Array:
    """Small integers for integer dtypes, else normally distributed floats."""
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal([int(str(dim)) for dim in shape]).astype(dtype)
    return rng.integers(-(2**31), 2**31 - 1, [int(str(dim)) for dim in shape]).astype(dtype)


def assert_near(ours: Array, expected: Array, depth: int) -> None:
    """Assert that sums of `depth` products of normal numbers agree, with a bound proportional to `depth`."""
    assert ours.shape == expected.shape
    assert ours.dtype == expected.dtype
    eps = np.finfo(ours.dtype).eps if ours.dtype.kind == "f" else 0
    np.testing.assert_allclose(ours, expected, rtol=0, atol=16 * eps * (depth + 4))


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batch dims of both operands that broadcast."""
    dims = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=3))
    left = [draw(st.sampled_from([dim, dim, 1])) for dim in dims]
    right = [dim if one == 1 else draw(st.sampled_from([dim, 1])) for dim, one in zip(dims, left, strict=True)]
    skip_left, skip_right = draw(st.integers(0, len(dims))), draw(st.integers(0, len(dims)))
    return tuple(left[skip_left:]), tuple(right[min(skip_right, skip_left) :])


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60), deadline=None)
@given(
    batch=batches(), m=ROWS, k=DEPTHS, n=COLUMNS, constant=st.booleans(),
    dtype=st.sampled_from(["f4", "f4", "f8", "i4", "i8"]),
)  # fmt: skip
def test_matmul_agrees_with_the_reference(
    isa: str, batch: tuple[Shape, Shape], m: int, k: int, n: int, constant: bool, dtype: str
) -> None:
    rng = np.random.default_rng(m * n + k)
    arrays = [random(rng, (*batch[0], m, k), dtype), random(rng, (*batch[1], k, n), dtype)]
    node = make_node("MatMul", arrays, constants=[1] if constant else [])
    assert_near(run_op(node, arrays, isa=isa, threads=2)[0], reference_op(node, arrays)[0], k)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 24])
def test_each_half_of_the_last_panel(isa: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    for rows in range(1, 8):
        arrays = [random(rng, (rows, 11)), random(rng, (11, columns)), random(rng, (columns,))]
        node = make_node("FusedMatMul", arrays, {"activation": "Relu"}, constants=[1, 2])
        expected = np.maximum(arrays[0].astype("f8") @ arrays[1] + arrays[2], 0).astype("f4")
        assert_near(run_op(node, arrays, isa=isa)[0], expected, 11)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("a", "b"), [((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((2, 4, 5), (5,)), ((5,), (2, 5, 3)), ((0,), (0,))]
)
def test_vectors_are_rows_and_columns(isa: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    arrays = [random(rng, a), random(rng, b)]
    for constants in ([], [1]):
        node = make_node("MatMul", arrays, constants=constants)
        assert_near(run_op(node, arrays, isa=isa)[0], reference_op(node, arrays)[0], 5)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60), deadline=None)
@given(
    m=ROWS, k=DEPTHS, n=COLUMNS, trans=st.tuples(st.integers(0, 1), st.integers(0, 1)), constant=st.booleans(),
    bias=st.sampled_from(["none", "full", "row", "column", "one", "vector", "scalar"]),
    scales=st.sampled_from([(1.0, 1.0), (0.5, 1.0), (-1.5, 0.25)]), dtype=st.sampled_from(["f4", "f8"]),
)  # fmt: skip
def test_gemm_agrees_with_the_reference(
    isa: str, m: int, k: int, n: int, trans: tuple[int, int], constant: bool, bias: str,
    scales: tuple[float, float], dtype: str,
) -> None:  # fmt: skip
    shapes: dict[str, Shape] = {
        "full": (m, n), "row": (1, n), "column": (m, 1), "one": (1, 1), "vector": (n,), "scalar": (),
    }  # fmt: skip
    rng = np.random.default_rng(m * n + k)
    arrays: list[Array | None] = [
        random(rng, (k, m) if trans[0] else (m, k), dtype),
        random(rng, (n, k) if trans[1] else (k, n), dtype),
        random(rng, shapes[bias], dtype) if bias != "none" else None,
    ]
    attrs = {"transA": trans[0], "transB": trans[1], "alpha": scales[0], "beta": scales[1]}
    node = make_node("Gemm", arrays, attrs, constants=[1] if constant else [])
    assert_near(run_op(node, arrays, isa=isa, threads=2)[0], reference_op(node, arrays)[0], k)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(
    m=ROWS, k=DEPTHS, n=COLUMNS, batch=st.sampled_from([(), (2,), (2, 3)]), constant=st.booleans(),
    trans=st.tuples(st.integers(0, 1), st.integers(0, 1)), bias=st.booleans(), residual=st.booleans(),
    activation=st.sampled_from(["", "Relu", "Clip", "LeakyRelu", "Swish"]),
)  # fmt: skip
def test_fused_matmul_applies_scale_bias_residual_and_activation(
    isa: str, m: int, k: int, n: int, batch: tuple[int, ...], constant: bool, trans: tuple[int, int], bias: bool,
    residual: bool, activation: str,
) -> None:  # fmt: skip
    rng = np.random.default_rng(m * n + k)
    a = random(rng, (*batch, k, m) if trans[0] else (*batch, m, k))
    b = random(rng, (n, k) if trans[1] else (k, n))
    arrays: list[Array | None] = [
        a, b, random(rng, (n,)) if bias else None, random(rng, (*batch, m, n)) if residual else None,
    ]  # fmt: skip
    scale = 1.0 if residual else 0.125
    attrs = {
        "transA": trans[0], "transB": trans[1], "scale": scale, "activation": activation, "alpha": 0.25, "beta": 0.75,
    }  # fmt: skip
    node = make_node("FusedMatMul", arrays, attrs, constants=[1] if constant else [])
    wide = [None if array is None else array.astype(np.float64) for array in arrays]
    left, right = (np.swapaxes(x, -1, -2) if t else x for x, t in zip(wide, trans, strict=False) if x is not None)
    total = scale * (left @ right) + (0 if wide[2] is None else wide[2]) + (0 if wide[3] is None else wide[3])
    expected = activate(activation, np.asarray(total)).astype(np.float32)
    assert_near(run_op(node, arrays, isa=isa, threads=2)[0], expected, k)


def activate(kind: str, x: Array) -> Array:
    """The activations with alpha = 0.25 and beta = 0.75, in float64."""
    kinds: dict[str, Array] = {
        "": x,
        "Relu": np.maximum(x, 0),
        "Clip": np.clip(x, 0.25, 0.75),
        "LeakyRelu": np.where(x < 0, 0.25 * x, x),
        "Swish": x / (1 + np.exp(-0.25 * x)),
    }
    return kinds[kind]


@pytest.mark.parametrize("isa", ISAS)
def test_nan_and_infinity_stay_in_their_row_and_column(isa: str) -> None:
    """A NaN in row 3 of a and an infinity in column 17 of b affect only that row and that column."""
    a, b = np.ones((20, 40), np.float32), np.ones((40, 19), np.float32)
    a[3, 39], b[0, 17] = np.nan, np.inf
    node = make_node("MatMul", [a, b], constants=[1])
    y = run_op(node, [a, b], isa=isa)[0]
    expected = np.full((20, 19), 40, np.float32)
    expected[:, 17], expected[3] = np.inf, np.nan
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("m", [1, 3, 500])
def test_threads_do_not_change_a_bit(isa: str, m: int) -> None:
    rng = np.random.default_rng(3)
    arrays = [random(rng, (m, 700)), random(rng, (700, 130))]
    for constants in ([], [1]):
        node = make_node("MatMul", arrays, constants=constants)
        one, four, many = (run_op(node, arrays, isa=isa, threads=threads)[0] for threads in (1, 4, 64))
        np.testing.assert_array_equal(one, four)
        np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("batch", "m", "k", "n"), [(2, 1000, 40, 150), (1, 300, 800, 70), (1, 600, 1600, 23)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_chunks_of_rows_share_panels(isa: str, batch: int, m: int, k: int, n: int, transposed: int) -> None:
    """The rows of a product of several chunks are those of products of fewer rows, bit by bit."""
    rng = np.random.default_rng(m)
    a, b = random(rng, (batch, m, k)), random(rng, (batch, n, k) if transposed else (batch, k, n))

    def product(rows: slice, threads: int) -> Array:
        arrays = [np.ascontiguousarray(a[:, rows]), b]
        return run_op(make_node("FusedMatMul", arrays, {"transB": transposed}), arrays, isa=isa, threads=threads)[0]

    y = product(slice(None), 1)
    assert_near(y, (a.astype("f8") @ (b.transpose(0, 2, 1) if transposed else b)).astype("f4"), k)
    np.testing.assert_array_equal(product(slice(None), 3), y)
    np.testing.assert_array_equal(product(slice(m - 50, m), 1), y[:, m - 50 :])


# --- inference and records ---------------------------------------------------------------------


def described(op_type: str, shapes: list[Shape | None], attrs: dict[str, object] | None = None) -> Node:
    """A node on graph inputs of the given types."""
    graph = Graph("test")
    values = [graph.append("Data", (), {"index": i}, outputs=(f"i{i}",)).output for i in range(len(shapes))]
    for value, shape in zip(values, shapes, strict=True):
        value.desc = TensorDesc.plain(DType.FLOAT32, shape)
    return graph.append(op_type, values, attrs or {})


N, S = Sym("n"), Sym("s")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((N, 3), (3, 4), (N, 4)),
        ((N, 2, 3), (3, 4), (N, 2, 4)),
        ((N, 12, S, 64), (N, 12, 64, S), (N, 12, S, S)),
        ((N, 2, 3), (1, 3, 4), (N, 2, 4)),
        ((1, 2, 3), (N, 3, 4), (N, 2, 4)),
        ((N, 2, 3), (5, 3, 4), (5, 2, 4)),
        ((3,), (3,), ()),
        ((3,), (N, 3, 4), (N, 4)),
        (None, (3, 4), None),
    ],
)
def test_infers_through_symbols(a: Shape | None, b: Shape | None, expected: Shape | None) -> None:
    assert infer_matmul(described("MatMul", [a, b]), known_constant)[0].shape == expected


@settings(max_examples=trials(40), deadline=None)
@given(batch=batches(), m=st.integers(0, 3), k=st.integers(0, 3), n=st.integers(0, 3))
def test_infers_what_onnx_infers(batch: tuple[Shape, Shape], m: int, k: int, n: int) -> None:
    node = described("MatMul", [(*batch[0], m, k), (*batch[1], k, n)])
    assert list(infer_matmul(node, known_constant)) == infer_by_onnx(node, known_constant)


@pytest.mark.parametrize(
    ("op_type", "shapes", "what"),
    [
        ("MatMul", [(2, 3), (4, 5)], "3 columns by 4 rows cannot be multiplied"),
        ("MatMul", [(), (4, 5)], "a scalar cannot be multiplied as a matrix"),
        ("MatMul", [(2, 2, 3), (3, 3, 5)], "batches [2] and [3] do not fit"),
        ("Gemm", [(2, 3), (4, 3)], "3 columns by 4 rows cannot be multiplied"),
        ("Gemm", [(1, 2, 3), (3, 3)], "matrices of rank 3 and 2, not 2"),
        ("Gemm", [(2, 3), (3, 4), (3, 1)], "C of shape [3, 1] does not spread to [2, 4]"),
        ("Gemm", [(2, 3), (3, 4), (1, 2, 4)], "C of shape [1, 2, 4] does not spread to [2, 4]"),
    ],
)
def test_inconsistent_operands_are_refused(op_type: str, shapes: list[Shape | None], what: str) -> None:
    node = described(op_type, shapes)
    opdef = find_opdef(node)
    assert opdef is not None
    assert opdef.infer is not None
    with pytest.raises(ModelInvalid) as error:
        opdef.infer(node, known_constant)
    assert error.value.code == "EZ8888"
    assert what in str(error.value)


def test_each_rejection_has_its_reason() -> None:
    half = [np.zeros((2, 2), np.float16)] * 2
    assert list(supports_matmul(make_node("MatMul", half))) == [Reject("dtype", "MatMul", "float16")]
    unknown = described("MatMul", [(N, 3), (3, 4)])
    assert [reject.reason for reject in supports_matmul(unknown)] == ["shape-unknown"]
    full = [np.zeros((2, 2), np.float32)] * 4
    scaled = make_node("FusedMatMul", full, {"scale": 0.5})
    assert [reject.reason for reject in supports_matmul(scaled)] == ["scale-with-residual"]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_large_residual_is_rounded_to_once(rows: int, isa: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((rows, 900)).astype(np.float32), rng.standard_normal((900, 20)).astype(np.float32)
    residual = np.full((rows, 20), 4096, np.float32)
    arrays = [a, b, None, residual]
    ours = run_op(make_node("FusedMatMul", arrays, constants=[1]), arrays, isa=isa)[0]
    # Two blocks of k: twice half an ulp of 4096, plus the error of the products.
    np.testing.assert_allclose(ours, a.astype(np.float64) @ b + 4096, rtol=0, atol=2 * 2**-12 + 1e-4)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 15, 16, 17, 33, 70])
def test_one_row_by_columns_that_lie_in_memory_as_rows(isa: str, k: int) -> None:
    """It reads b where it lies, as dot products; two rows pack it."""
    rng = np.random.default_rng(k)
    for n in (1, 3, 4, 5, 15, 16, 17, 31, 33):
        for rows in (1, 2):
            arrays = [random(rng, (rows, k)), random(rng, (n, k)), random(rng, (n,))]
            attrs = {"transB": 1, "alpha": 0.5, "beta": 2.0}
            expected = 0.5 * (arrays[0].astype("f8") @ arrays[1].T.astype("f8")) + 2 * arrays[2].astype("f8")
            ours = run_op(make_node("Gemm", arrays, attrs), arrays, isa=isa, threads=2)[0]
            assert_near(ours, expected.astype("f4"), k)
            fused = make_node("FusedMatMul", arrays, {"transB": 1, "activation": "Tanh"}, constants=[2])
            expected = np.tanh(arrays[0].astype("f8") @ arrays[1].T.astype("f8") + arrays[2])
            assert_near(run_op(fused, arrays, isa=isa)[0], expected.astype("f4"), k)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("n", [1, 5, 31, 32, 33, 255, 257, 511, 512, 513, 1100])
def test_one_row_by_rows_is_a_sum_of_rows(isa: str, dtype: str, n: int) -> None:
    """Sums of some hundred columns, of four or eight rows at a time."""
    rng = np.random.default_rng(n)
    for k in (0, 1, 3, 4, 7, 8, 9, 19):
        operands = [random(rng, (1, k), dtype), random(rng, (k, n), dtype)]
        for threads in (1, 3):
            node = make_node("MatMul", operands)
            assert_near(run_op(node, operands, isa=isa, threads=threads)[0], reference_op(node, operands)[0], k)
    a, b, bias = (random(rng, shape, dtype) for shape in ((4100, 1), (4100, n), (1, n)))
    node = make_node("Gemm", [a, b, bias], {"transA": 1})
    assert_near(run_op(node, [a, b, bias], isa=isa)[0], a.T @ b + bias, 4100)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("trans", [0, 1])
def test_one_column_by_columns_that_lie_in_memory_as_rows(isa: str, trans: int) -> None:
    """aᵀ·b is the sum of the rows of a by the elements of b, with the bias and the residual of each row."""
    rng = np.random.default_rng(5)
    for m, k in ((1, 1), (5, 3), (16, 15), (33, 16), (40, 70)):
        shapes = (k, m), (1, k) if trans else (k, 1), (m, 1), (m, 1)
        arrays = [random(rng, shape) for shape in shapes]
        expected = arrays[0].T.astype("f8") @ arrays[1].reshape(k, 1) + arrays[2] + arrays[3]
        for constants in ([], [1]):
            attrs = {"transA": 1, "transB": trans, "activation": "Relu"}
            node = make_node("FusedMatMul", arrays, attrs, constants=constants)
            assert_near(run_op(node, arrays, isa=isa)[0], np.maximum(expected, 0).astype("f4"), k)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", [15, 16, 32, 33, 48])
@pytest.mark.parametrize("m", [2, 6, 7, 14, 15, 40])
def test_few_rows_read_whole_panels_where_they_lie(isa: str, m: int, n: int) -> None:
    """More rows than a tile has do so as long as b stays in L1; parts of a panel are packed."""
    rng = np.random.default_rng(m * n)
    for k in (0, 1, 85, 86, 128, 129, 256, 257, 770):
        for transposed in (0, 1):
            a, b = random(rng, (2, k, m) if transposed else (2, m, k)), random(rng, (2, k, n))
            residual = random(rng, (2, m, n))
            node = make_node("FusedMatMul", [a, b, None, residual], {"transA": transposed})
            expected = (np.swapaxes(a, 1, 2) if transposed else a).astype("f8") @ b + residual
            assert_near(run_op(node, [a, b, None, residual], isa=isa)[0], expected.astype("f4"), k)


@pytest.mark.parametrize("isa", ISAS)
def test_sums_of_rows_keep_nan_to_their_columns(isa: str) -> None:
    rng = np.random.default_rng(2)
    for rows in (1, 2):
        arrays = [random(rng, (rows, 19)), random(rng, (19, 48))]
        arrays[1][18, 5], arrays[1][0, 47] = np.nan, np.inf
        ours = run_op(make_node("MatMul", arrays), arrays, isa=isa)[0]
        assert np.flatnonzero(~np.isfinite(ours[0])).tolist() == [5, 47]


@pytest.mark.parametrize("isa", ISAS)
def test_one_row_keeps_nan_to_its_columns(isa: str) -> None:
    rng = np.random.default_rng(2)
    arrays = [random(rng, (1, 19)), random(rng, (21, 19))]
    arrays[1][5, 18], arrays[1][20, 0] = np.nan, np.inf
    ours = run_op(make_node("Gemm", arrays, {"transB": 1}), arrays, isa=isa)[0]
    assert np.flatnonzero(~np.isfinite(ours[0])).tolist() == [5, 20]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("k", [0, 1, 15, 16, 17, 31, 32, 33, 70])
def test_one_column_by_rows_that_lie_in_memory_as_rows(isa: str, k: int) -> None:
    """From 16 elements a row on, they are dot products, of the transposed product."""
    rng = np.random.default_rng(k)
    for m, bias in ((1, (1,)), (2, (2, 1)), (5, ()), (16, (1, 1)), (33, (33, 1)), (225, (1,))):
        arrays = [random(rng, (m, k)), random(rng, (k, 1)), random(rng, bias)]
        expected = 0.5 * (arrays[0].astype("f8") @ arrays[1]) + 2 * arrays[2].astype("f8")
        for transposed in (0, 1):
            b = arrays[1].T.copy() if transposed else arrays[1]
            operands = [arrays[0], b, arrays[2]]
            for constants in ([], [1, 2]):
                attrs = {"transB": transposed, "alpha": 0.5, "beta": 2.0}
                ours = run_op(make_node("Gemm", operands, attrs, constants=constants), operands, isa=isa, threads=2)[0]
                assert_near(ours, expected.astype("f4"), k)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("b_batch", [(), (1,), (3,), (2, 1), (2, 3)])
def test_batches_of_one_column(isa: str, dtype: str, b_batch: tuple[int, ...]) -> None:
    """Each matrix of a batch has its own column, or all share one."""
    rng = np.random.default_rng(4)
    for k in (15, 16, 37):
        arrays = [random(rng, (2, 3, 5, k), dtype), random(rng, (*b_batch, k, 1), dtype)]
        assert_near(
            run_op(make_node("MatMul", arrays), arrays, isa=isa)[0],
            reference_op(make_node("MatMul", arrays), arrays)[0],
            k,
        )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", ["", "Relu", "Tanh"])
def test_one_column_with_bias_residual_and_activation(isa: str, activation: str) -> None:
    """NaN and infinity stay in their rows."""
    rng = np.random.default_rng(3)
    for m in (1, 16, 21):
        arrays = [random(rng, (m, 19)), random(rng, (19, 1)), random(rng, (1,)), random(rng, (m, 1))]
        arrays[0][0, 18], arrays[0][m - 1, 0], arrays[3][m // 2] = np.nan, np.inf, np.nan
        node = make_node("FusedMatMul", arrays, {"activation": activation}, constants=[1, 2])
        apply = {"": np.positive, "Relu": lambda x: np.maximum(x, 0), "Tanh": np.tanh}[activation]
        with np.errstate(invalid="ignore"):
            expected = apply(arrays[0].astype("f8") @ arrays[1] + arrays[2] + arrays[3]).astype("f4")
        assert_near(run_op(node, arrays, isa=isa)[0], expected, 19)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f8", "i4", "i8"])
@pytest.mark.parametrize(("m", "k", "n", "transposed"), [(21, 1600, 37, 0), (21, 1600, 37, 1), (1, 1600, 37, 1)])
def test_runs_of_k_with_bias_and_residual(isa: str, dtype: str, m: int, k: int, n: int, transposed: int) -> None:
    rng = np.random.default_rng(k)
    shapes = [(m, k), (n, k) if transposed else (k, n), (n,), (m, n)]
    a, b, bias, residual = ((rng.standard_normal(shape) * 100).astype(dtype) for shape in shapes)
    y = np.zeros((m, n), dtype)
    params: dict[str, table.ParamValue] = {
        "batch": [1] * 5, "m": m, "k": k, "n": n, "a_row": k, "a_col": 1, "b_row": 1 if transposed else n,
        "b_col": k if transposed else 1, "y_row": n, "bias_col": 1, "scale": 1, "bias_scale": 1,
    }  # fmt: skip
    plan = load_task("matmul", params, [a, b, bias, residual], y, isa=isa)
    operands: list[Array | None] = [array.reshape(-1).view(np.uint8) for array in (a, b, bias, residual)]
    plan.start(operands, [y.reshape(-1).view(np.uint8)]).execute(0, 1)
    expected = a @ (b.T if transposed else b) + bias + residual
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12 * float(np.abs(expected).max()))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 33])
def test_panels_of_few_columns_have_scratch(dtype: str, n: int) -> None:
    """Doubles and integers are packed in two vectors of columns, of up to 128 bytes, even where there are fewer."""
    m, k = 1000, 64  # several chunks of rows, which share panels
    a, b, y = np.zeros((m, k), dtype), np.zeros((k, n), dtype), np.zeros((m, n), dtype)
    params: dict[str, table.ParamValue] = {
        "batch": [1] * 5, "m": m, "k": k, "n": n, "a_row": k, "a_col": 1, "b_row": n, "b_col": 1, "y_row": n,
        "scale": 1, "bias_scale": 1,
    }  # fmt: skip
    assert load_task("matmul", params, [a, b], y).scratch_bytes() >= 128 * k
