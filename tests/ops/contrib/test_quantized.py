"""Quantized ops agree with ONNX Runtime within one quantization step of the output."""

import numpy as np
import onnx
import pytest

from tests.ops.contrib.cases import assert_as_in_ort, feeds_of, floats, integers, make_model, results_of
from tests.parsers.onnx.canonical import Array, ops_of, run_ort


def scale(value: float) -> Array:
    return np.array(value, np.float32)


def zero(value: int, dtype: str = "uint8") -> Array:
    return np.array(value, dtype)


def tensor(dtype: str, *shape: int) -> Array:
    return integers(0, 255, *shape) if dtype == "uint8" else integers(-128, 127, *shape, dtype="int8")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shapes", [((2, 3, 5), (2, 3, 5)), ((2, 3, 5), (5,)), ((), (4,))])
def test_binary(op: str, dtype: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [tensor(dtype, *shapes[0]), scale(0.03), zero(7, dtype), tensor(dtype, *shapes[1]), scale(0.02),
              zero(11, dtype), scale(0.05), zero(3, dtype)]  # fmt: skip
    assert_as_in_ort(op, arrays, steps=1, symbolic=dtype == "int8")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2}), ("QLinearSoftmax", {"axis": -1, "opset": 13}),
     ("QLinearSoftmax", {"axis": 1, "opset": 11}), ("QLinearSoftmax", {"axis": 1, "opset": 13})],
)  # fmt: skip
def test_unary(op: str, attrs: dict[str, object], dtype: str) -> None:
    arrays = [
        tensor(dtype, 2, 3, 9),
        scale(0.03),
        zero(5, dtype),
        scale(1 / 256),
        zero(-128 % 256 if dtype == "uint8" else -128, dtype),
    ]
    assert_as_in_ort(op, arrays, attrs, steps=1, constants=(1, 2, 3, 4))


POOL = [scale(0.03), zero(5), scale(0.02), zero(4)]


@pytest.mark.parametrize(
    "attrs",
    [{}, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, {"pads": [1, 1, 1, 1], "count_include_pad": 1},
     {"channels_last": 1}, {"ceil_mode": 1, "strides": [2, 2]}],
)  # fmt: skip
def test_average_pool(attrs: dict[str, object]) -> None:
    arrays = [integers(0, 255, 2, 6, 7, 7), *POOL]
    assert_as_in_ort("QLinearAveragePool", arrays, {"kernel_shape": [3, 3], **attrs}, steps=1)
    if len(attrs) == 1:
        assert_as_in_ort("QLinearGlobalAveragePool", arrays, {"channels_last": 1}, steps=1)


def test_global_average_pool_and_convolution() -> None:
    x = integers(0, 255, 2, 6, 7, 7)
    assert_as_in_ort("QLinearGlobalAveragePool", [x, *POOL], steps=1)
    arrays = [x, scale(0.03), zero(5), tensor("int8", 4, 3, 3, 3), scale(0.01), zero(0, "int8"), scale(0.4), zero(99)]
    for last in (0, 1):
        arrays[0] = x.transpose(0, 2, 3, 1) if last else x
        assert_as_in_ort("QLinearConv", arrays, {"group": 2, "channels_last": last}, steps=1, constants=(3, 4, 5))


def test_concat_and_where() -> None:
    triples = [integers(0, 255, 2, 3), scale(0.03), zero(5), integers(0, 255, 2, 4), scale(0.01), zero(7)]
    assert_as_in_ort("QLinearConcat", [scale(0.02), zero(9), *triples], {"axis": 1}, steps=1, constants=range(8))
    rows = [integers(0, 255, 2, 4), scale(0.03), zero(5), integers(0, 255, 1, 4), scale(0.01), zero(7)]
    arrays = [np.array([[True], [False]]), *rows, scale(0.02), zero(9)]
    assert_as_in_ort("QLinearWhere", arrays, steps=1)


def test_reduce_mean_follows_its_schema() -> None:
    x, attrs = integers(0, 255, 2, 3, 4), {"axes": [1], "keepdims": 0}
    arrays = [x, scale(0.03), zero(5), scale(0.02), zero(4)]
    (y,) = results_of(make_model("QLinearReduceMean", arrays, attrs), arrays)[1]
    want = np.clip(np.rint(((x - 5.0) * 0.03).mean(1) / 0.02) + 4, 0, 255)
    assert np.abs(y - want).max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_linear_quantization(dtype: str) -> None:
    x, steps, zeros = floats(3, 4), floats(4) ** 2 + 0.01, np.array([1, 2, 3, 4], dtype)
    assert_as_in_ort("QuantizeLinear", [x, scale(0.02), zero(3, dtype)])
    assert_as_in_ort("QuantizeLinear", [x, steps, zeros], {"axis": 1}, constants=(1,))
    q = integers(0, 127, 3, 4, dtype=dtype)
    assert_as_in_ort("DequantizeLinear", [q, scale(0.02)[None], zero(3, dtype)[None]], {"axis": 0})
    assert_as_in_ort("DequantizeLinear", [q, steps, zeros], {"axis": 1})


# --- matrix products ---------------------------------------------------------------------------


@pytest.mark.parametrize("per_column", [False, True])
def test_integer_matmul(per_column: bool) -> None:
    b = tensor("int8", 6, 5)
    b_scale, b_zero = (
        (floats(5) ** 2, integers(-3, 3, 5, dtype="int8")) if per_column else (scale(0.02), zero(2, "int8"))
    )
    bias = floats(5)
    arrays = [integers(0, 255, 2, 4, 6), b, scale(0.03), b_scale, zero(9), b_zero, bias]
    assert_as_in_ort("MatMulIntegerToFloat", arrays, symbolic=per_column, constants=(1,))
    dynamic = [floats(2, 4, 6), b, b_scale, b_zero, bias]
    assert_as_in_ort("DynamicQuantizeMatMul", dynamic, symbolic=per_column, constants=(1,))
    assert_as_in_ort("DynamicQuantizeMatMul", dynamic[:3])


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_qgemm(quantized: bool, per_column: bool, transposed: int) -> None:
    a, b = integers(0, 255, 4, 6), tensor("int8", 6, 5)
    b_scale, b_zero = (floats(5) ** 2 / 50, np.zeros(5, np.int8)) if per_column else (scale(0.02), zero(2, "int8"))
    c = integers(-1000, 1000, 5, dtype="int32")
    arrays = [a, scale(0.03), zero(9), b.T.copy() if transposed else b, b_scale, b_zero, c]
    arrays += [scale(0.2), zero(100)] if quantized else []
    assert_as_in_ort("QGemm", arrays, {"transB": transposed, "alpha": 0.75}, steps=1, constants=(3, 4, 5, 6))


@pytest.mark.parametrize("past", [False, True])
def test_qattention(past: bool) -> None:
    # Seven bits: ONNX Runtime's sums of two products saturate at 16 bits on CPUs without VNNI.
    x, w = integers(0, 255, 2, 4, 16), integers(-63, 63, 16, 48, dtype="int8")
    mask = np.ones((2, 4 + 3 * past), np.int32)
    mask[0, -1] = 0
    arrays = [x, w, floats(48), scale(0.02), scale(0.02), mask, zero(128), zero(0, "int8")]
    arrays += [floats(2, 2, 2, 3, 8)] if past else []
    attrs = {"num_heads": 2, "unidirectional": int(past)}
    assert_as_in_ort("QAttention", arrays, attrs, outputs=1 + past, constants=(1, 2, 3, 4, 6, 7))


@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
@pytest.mark.parametrize(("bits", "block", "columns"), [(4, 16, 32), (4, 32, 80), (8, 16, 48), (2, 16, 32)])
def test_weights_in_blocks(zeros: str | None, bits: int, block: int, columns: int) -> None:
    if (bits, zeros) == (8, "floats"):
        pytest.skip("ONNX Runtime has no kernel for it")
    rows, blocks = 6, -(-columns // block)
    b = integers(0, 256, rows, blocks, block * bits // 8)
    scales = floats(rows, blocks)
    zero_points = {
        None: None,
        "packed": integers(0, 256, rows, -(-blocks * bits // 8)),
        "floats": floats(rows, blocks) + np.float32(2 ** (bits - 1)),
    }[zeros]
    attrs = {"N": rows, "K": columns, "bits": bits, "block_size": block}
    arrays = [floats(2, 3, columns), b, scales, zero_points, None, floats(rows)]
    graph = assert_as_in_ort("MatMulNBits", arrays, attrs, constants=(1, 2, 3, 5), atol=1e-3)
    assert ("Int4MatMul" if bits == 4 and zeros != "floats" else "DequantizeLinear") in ops_of(graph)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_in_blocks(bits: int, zeros: bool) -> None:
    data, scales = integers(0, 256, 10, 48 * bits // 8), floats(10, 3)
    points = integers(0, 256, 10, -(-3 * bits // 8)) if zeros else None
    attrs = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    at = np.array([[0, 9], [3, 3]])
    assert_as_in_ort("GatherBlockQuantized", [data, at, scales, points], attrs, constants=(0, 2, 3), atol=1e-4)


@pytest.mark.parametrize("dtype", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
def test_rows_of_four_bits(dtype: int) -> None:
    numbers = integers(0, 8, 10, 48, dtype="int8")
    attrs = {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    arrays = [numbers, np.array([[0, 9], [3, 3]]), floats(10, 3)]
    model = make_model("GatherBlockQuantized", arrays, attrs, constants=(0, 2))
    model.graph.initializer[0].CopyFrom(onnx.helper.make_tensor("i0", dtype, numbers.shape, numbers))
    (want,), (got,) = run_ort(model, feeds_of(model, arrays)), results_of(model, arrays)[1]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_integers_without_scale() -> None:
    a, b = integers(-9000, 9000, 3, 4, dtype="int16"), integers(-9000, 9000, 4, 5, dtype="int16")
    assert_as_in_ort("MatMulInteger16", [a, b])
    a, b = integers(0, 255, 3, 4), integers(0, 255, 4)
    (y,) = results_of(make_model("MulInteger", [a, zero(9), b]), [a, zero(9), b])[1]
    np.testing.assert_array_equal(y, (a.astype(np.int32) - 9) * b)
    a = integers(-128, 127, 3, 4, dtype="int8")
    (y,) = results_of(make_model("ReduceSumInteger", [a], {"axes": [1], "keepdims": 0}), [a])[1]
    np.testing.assert_array_equal(y, a.astype(np.int32).sum(1))


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm_of_quantized_weights(direction: str, per_column: bool) -> None:
    sides, hidden = 1 + (direction == "bidirectional"), 8
    x, bias = floats(5, 2, 6), floats(sides, 8 * hidden)
    # Seven bits: ONNX Runtime's sums of two products saturate at 16 bits on CPUs without VNNI.
    w, r = (integers(-63, 63, sides, rows, 4 * hidden, dtype="int8") for rows in (6, hidden))
    shape = (sides, 4 * hidden) if per_column else (sides,)
    scales, zeros = np.full(shape, 0.008, np.float32), np.zeros(shape, np.int8)
    arrays = [x, w, r, bias, None, None, None, None, scales, zeros, scales, zeros]
    attrs = {"hidden_size": hidden, "direction": direction}
    # ONNX Runtime also rounds activations to 8 bits; its float LSTM on the dequantized weights does not.
    assert_as_in_ort("DynamicQuantizeLSTM", arrays, attrs, outputs=3, constants=range(1, 12), atol=0.03, rtol=0)
    model = make_model("DynamicQuantizeLSTM", arrays, attrs, outputs=3, constants=range(1, 12))
    plain = [x, *(array.transpose(0, 2, 1) * np.float32(0.008) for array in (w, r)), bias]
    exact = run_ort(
        make_model("LSTM", plain, attrs, outputs=3, domain="", opset=22),
        feeds_of(make_model("LSTM", plain, attrs, outputs=3, domain="", opset=22), plain),
    )
    for actual, expected in zip(results_of(model, arrays)[1], exact, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6)
