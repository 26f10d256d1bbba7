"""Which convolutions run by Winograd's algorithm, and that packages of both kinds agree with ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import numpy_helper

from atcpy import InferenceSession
from atcpy.ir import CompiledModel
from atcpy.kernels.table import pack_compiled_task, read_number
from atcpy.om import writer
from atcpy.ops.conv.winograd import LARGE, SMALL, SMALLEST_GAIN, STRIDED_GAIN, gain, tiles_of
from atcpy.ops.core.opdef import KernelCall, ParamValue
from atcpy.ops.quant import qwinograd
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model
from tests.ort import open_ort

CALL = {
    "n": 1, "c": 64, "h": 28, "w": 28, "m": 64, "oh": 28, "ow": 28, "kh": 3, "kw": 3, "sh": 1, "sw": 1, "dh": 1,
    "dw": 1, "pt": 1, "pl": 1, "group": 1, "cg": 64, "mg": 64, "src_c0": 16, "weights": "f32", "activation": "Relu",
}  # fmt: skip
DIMS = "1,32,12,14"


def call(**changes: ParamValue) -> KernelCall:
    return KernelCall("conv2d", (), (), {**CALL, **changes})


def compiled_net(dims: str = DIMS, **options: object) -> tuple[bytes, CompiledModel]:
    n, c, *spatial = dims.split(",")
    text = f"net (float[{dims}] x) => (float[{n},20,{','.join(spatial)}] y) <float[20,{c},3,3] w, float[20] b> {{ "
    proto = model(text + "a = Conv<pads = [1,1,1,1]>(x, w, b) y = Relu(a) }")
    return proto.SerializeToString(), compile_model(proto, convert_options({"debug": True, **options}))[0]


def families(compiled: CompiledModel) -> set[str]:
    """The kernels of all tasks, also of plans for open dims, but for changes of the format."""
    plans = (plan for cluster in compiled.clusters for variant in cluster.variants for plan in variant.plans)
    tasks = [*compiled.tasks, *(task for plan in plans for task in plan.tasks)]
    return {task.kernel for task in tasks} - {"transdata"}


@pytest.mark.parametrize(
    ("options", "family"),
    [
        ({}, "winograd2d"),
        ({"op_select_implmode": "high_performance"}, "winograd2d"),
        ({"op_select_implmode": "high_precision"}, "conv2d"),
        ({"optimization_switch": "WinogradPass:off"}, "conv2d"),
        ({"pass_limit": "WinogradPass:0"}, "conv2d"),
    ],
    ids=str,
)
def test_options_choose_the_kernel_and_both_agree_with_onnxruntime(options: dict[str, object], family: str) -> None:
    proto, compiled = compiled_net(**options)
    assert families(compiled) == {family}
    x = np.random.default_rng(0).standard_normal((1, 32, 12, 14), np.float32)
    [expected] = open_ort(proto).run(None, {"x": x})
    [y] = InferenceSession(writer.to_bytes(compiled)).run(None, {"x": x})
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("dims", "precision", "family"),
    [
        ("n,32,12,14", "origin", "winograd2d"),
        ("1,32,h,14", "origin", "winograd2d"),
        ("n,32,12,w", "origin", "winograd2d"),
        ("n,32,h,w", "mixed_float16", "winograd2d"),
        ("n,32,h,w", "mixed_bfloat16", "conv2d"),  # pairs of weights have no definition to fall back on
    ],
)
def test_sizes_of_pictures_may_be_open(dims: str, precision: str, family: str) -> None:
    proto, compiled = compiled_net(dims, precision_mode_v2=precision)
    assert families(compiled) - {"graph_kernel"} == {family}  # of casts
    session, oracle = InferenceSession(writer.to_bytes(compiled), threads=1), open_ort(proto)
    for n, h, w in ((1, 12, 14), (3, 40, 37), (1, 1, 1), (2, 3, 5)):
        given = {"n": n, "h": h, "w": w}
        sizes = [given[dim] if dim in given else int(dim) for dim in dims.split(",")]
        x = np.random.default_rng(0).standard_normal(sizes, np.float32)
        [expected] = oracle.run(None, {"x": x})
        [y] = session.run(None, {"x": x})
        tolerance = 1e-5 if precision == "origin" else 2e-2
        np.testing.assert_allclose(y, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    "change",
    [
        {"kh": 1}, {"kw": 5}, {"sh": 2}, {"sw": 2}, {"sh": 3, "sw": 3}, {"dh": 2}, {"dw": 3},
        {"group": 2, "cg": 32, "mg": 32}, {"src_c0": 1},
    ],
    ids=str,
)  # fmt: skip
def test_other_convolutions_are_left_alone(change: dict[str, ParamValue]) -> None:
    assert tiles_of(call()) == (LARGE,)
    assert tiles_of(call(**change)) == ()
    assert tiles_of(replace(call(), family="conv_transpose2d")) == ()


STRIDED: dict[str, ParamValue] = {"sh": 2, "sw": 2}


@pytest.mark.parametrize(
    ("change", "tiles"),
    [
        ({}, (SMALL,)), ({"weights": "bf16"}, (SMALL,)), ({"c": 63, "cg": 63}, (SMALL,)),
        ({"weights": "bf16_vnni2"}, ()), ({"kh": 1}, ()), ({"src_c0": 1}, ()),
    ],
)  # fmt: skip
def test_tiles_at_stride_2_multiply_floats(change: dict[str, ParamValue], tiles: tuple[int, ...]) -> None:
    assert tiles_of(call(**STRIDED | change)) == tiles


@pytest.mark.parametrize(
    ("side", "c", "m", "is_faster"),
    [
        (28, 128, 128, True), (14, 256, 256, True), (80, 32, 64, True), (40, 64, 128, True), (20, 128, 256, True),
        (7, 512, 512, False), (160, 16, 32, False), (56, 8, 64, False),
    ],
)  # fmt: skip
def test_the_estimate_at_stride_2_is_on_the_side_that_was_measured(side: int, c: int, m: int, is_faster: bool) -> None:
    estimate = gain(call(c=c, cg=c, m=m, mg=m, oh=side, ow=side, **STRIDED), SMALL)
    assert (estimate >= STRIDED_GAIN) is is_faster


@pytest.mark.parametrize("height", ["28", "h"])
def test_convolutions_at_stride_2_are_computed_in_tiles(height: str) -> None:
    text = f"net (float[1,64,{height},28] x) => (float[1,64,a,b] y) <float[64,64,3,3] w> "
    proto = model(text + "{ y = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w) }")
    compiled, _ = compile_model(proto, convert_options({}))
    assert families(compiled) == {"winograd2d"}
    session = InferenceSession(writer.to_bytes(compiled))
    for h in (28, 3, 61) if height == "h" else (28,):  # 3: by the definition
        x = np.random.default_rng(0).standard_normal((1, 64, h, 28), np.float32)
        [expected] = open_ort(proto.SerializeToString()).run(None, {"x": x})
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("weights", "ratio"), [("f16", 1), ("bf16", 1), ("bf16_vnni2", 0.5)])
def test_weights_of_16_bits_gain_as_much_unless_the_definition_multiplies_pairs(weights: str, ratio: float) -> None:
    narrow = call(weights=weights)
    assert LARGE in tiles_of(narrow)
    assert gain(narrow) == ratio * gain(call())


@pytest.mark.parametrize(
    ("side", "c", "m", "is_faster"),
    [
        (56, 64, 64, True), (14, 256, 256, True), (14, 32, 32, True), (7, 512, 512, True), (56, 64, 1, True),
        (7, 64, 64, False), (4, 512, 512, False), (56, 4, 64, False), (56, 8, 8, False), (1, 512, 512, False),
    ],
)  # fmt: skip
def test_the_estimate_is_on_the_side_that_was_measured(side: int, c: int, m: int, is_faster: bool) -> None:
    estimate = gain(call(c=c, cg=c, m=m, mg=m, oh=side, ow=side))
    assert (estimate >= SMALLEST_GAIN) is is_faster


@pytest.mark.parametrize(
    ("change", "tiles"),
    [
        ({}, (LARGE, SMALL)), ({"weights": "bf16"}, (LARGE,)), ({"weights": "f32"}, (LARGE,)),
        ({"c": 63, "cg": 63}, (LARGE,)), ({"c": 62, "cg": 62}, (LARGE, SMALL)), ({"m": 63, "mg": 63}, (LARGE, SMALL)),
        ({"kh": 1}, ()),
    ],
)  # fmt: skip
def test_small_tiles_multiply_pairs_of_channels(change: dict[str, ParamValue], tiles: tuple[int, ...]) -> None:
    assert tiles_of(call(**{"weights": "bf16_vnni2"} | change)) == tiles


# As measured on AVX512-BF16. Large tiles, whose products round less, are taken where small ones are as fast.
@pytest.mark.parametrize(
    ("side", "channels", "tile"),
    [
        (14, 256, SMALL), (7, 512, SMALL), (10, 256, SMALL), (28, 128, SMALL), (14, 64, SMALL), (56, 256, SMALL),
        (56, 64, LARGE), (80, 64, LARGE), (128, 64, LARGE),
        (4, 512, None), (7, 64, None), (160, 16, None), (56, 16, None),
    ],
)  # fmt: skip
def test_the_faster_tiles_are_taken(side: int, channels: int, tile: int | None) -> None:
    text = f"net (float[1,{channels},{side},{side}] x) => (float[1,{channels},{side},{side}] y) "
    proto = model(f"{text} <float[{channels},{channels},3,3] w> {{ y = Conv<pads = [1,1,1,1]>(x, w) }}")
    compiled, _ = compile_model(proto, convert_options({"precision_mode_v2": "mixed_bfloat16"}))
    [task] = [task for task in compiled.tasks if task.kernel in ("conv2d", "winograd2d")]
    found = read_number(pack_compiled_task(task), task.kernel, "tile") if task.kernel == "winograd2d" else None
    assert found == tile


def test_small_tiles_stay_within_the_error_of_bfloat16() -> None:
    """Beside ONNX Runtime in float32, and twice as far from it as the definition at most."""
    proto, compiled = compiled_net("1,256,14,14", precision_mode_v2="mixed_bfloat16")
    assert families(compiled) - {"graph_kernel"} == {"winograd2d"}
    _, direct = compiled_net("1,256,14,14", precision_mode_v2="mixed_bfloat16", op_select_implmode="high_precision")
    assert families(direct) - {"graph_kernel"} == {"conv2d"}
    x = np.random.default_rng(0).standard_normal((1, 256, 14, 14), np.float32)
    [expected] = open_ort(proto).run(None, {"x": x})
    small, definition = (
        np.std(InferenceSession(writer.to_bytes(each)).run(None, {"x": x})[0] - expected) for each in (compiled, direct)
    )
    assert small < 2 * definition < 0.02 * expected.std()


# --- of bytes ------------------------------------------------------------------------------------


def quantised_net(dims: str = "1,64,28,28", weight: int = 20, **options: object) -> tuple[bytes, CompiledModel]:
    """QLinearConv of bytes by int8 weights up to a magnitude."""
    n, c, *spatial = dims.split(",")
    text = f"net (uint8[{dims}] x) => (uint8[{n},48,{','.join(spatial)}] y) <int8[48,{c},3,3] w> "
    constants = {"s": "float {0.05}", "t": "float {0.002}", "r": "float {0.04}", "z": "uint8 {121}", "v": "int8 {0}"}
    nodes = " ".join(f"{name} = Constant<value = {value}>()" for name, value in constants.items())
    proto = model(f"{text} {{ {nodes} y = QLinearConv<pads = [1,1,1,1]>(x, s, z, w, t, v, r, z) }}")
    channels = int(c)
    array = np.random.default_rng(0).integers(-weight, weight + 1, (48, channels, 3, 3)).astype(np.int8)
    [initializer] = proto.graph.initializer
    initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))
    return proto.SerializeToString(), compile_model(proto, convert_options({"debug": True, **options}))[0]


@pytest.mark.parametrize(
    ("dims", "options", "family"),
    [
        ("1,64,28,28", {}, "qwinograd2d"),
        ("1,64,28,28", {"op_select_implmode": "high_precision"}, "qwinograd2d"),  # it is exact
        ("1,64,28,28", {"optimization_switch": "WinogradPass:off"}, "qgemm"),
        ("1,64,28,28", {"pass_limit": "WinogradPass:0"}, "qgemm"),
        ("1,64,7,7", {}, "qgemm"),
        ("1,60,28,28", {}, "qgemm"),  # no whole blocks
        ("n,64,28,28", {}, "qwinograd2d"),
        ("1,64,h,28", {}, "qwinograd2d"),
        ("n,64,h,w", {}, "qwinograd2d"),
    ],
    ids=str,
)
def test_convolutions_of_bytes_are_the_same_by_either_kernel(
    dims: str, options: dict[str, object], family: str
) -> None:
    proto, compiled = quantised_net(dims, **options)
    assert families(compiled) == {family}
    session = InferenceSession(writer.to_bytes(compiled))
    direct = InferenceSession(writer.to_bytes(quantised_net(dims, optimization_switch="WinogradPass:off")[1]))
    oracle = open_ort(proto)
    sizes = [{"n": 2, "h": 30, "w": 33}, {"n": 1, "h": 3, "w": 5}, {"n": 3, "h": 12, "w": 8}]
    for given in sizes if set(dims) & set("nhw") else sizes[:1]:
        shape = [given[dim] if dim in given else int(dim) for dim in dims.split(",")]
        x = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
        [y] = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, direct.run(None, {"x": x})[0])
        assert np.abs(y.astype(int) - oracle.run(None, {"x": x})[0]).max() <= 1  # its scale is rounded otherwise


def test_weights_whose_sums_would_not_be_exact_are_left_alone() -> None:
    """Of 512 channels, random ones up to 127 add up to more than the limit; half of that does not."""
    assert families(quantised_net("1,512,32,32", 127)[1]) == {"qgemm"}
    assert families(quantised_net("1,512,32,32", 63)[1]) == {"qwinograd2d"}


BYTES: dict[str, ParamValue] = {"n": 1, "c": 64, "m": 64, "oh": 28, "ow": 28}


# As measured on AVX-512 VNNI, with weights that come from L3.
@pytest.mark.parametrize(
    ("side", "c", "m", "is_faster"),
    [
        (56, 64, 64, True), (28, 128, 128, True), (28, 256, 256, True), (112, 32, 64, True), (80, 32, 32, True),
        (20, 192, 192, True), (14, 256, 256, False), (7, 512, 512, False), (56, 16, 16, False), (7, 64, 64, False),
    ],
)  # fmt: skip
def test_the_estimate_of_bytes_is_on_the_side_that_was_measured(side: int, c: int, m: int, is_faster: bool) -> None:
    launch = KernelCall("qgemm", (), (), BYTES | {"c": c, "m": m, "oh": side, "ow": side})
    assert (qwinograd.gain(launch) >= qwinograd.LEAST_GAIN) is is_faster


# As measured: filters are transformed once for many pictures.
@pytest.mark.parametrize(
    ("n", "side", "channels", "of_floats", "of_bytes"),
    [
        (1, 7, 64, False, False), (2, 7, 64, True, False), (8, 7, 128, True, True), (32, 7, 64, True, True),
        (4, 7, 512, True, False), (8, 7, 512, True, True), (2, 14, 256, True, True), (1, 4, 512, False, False),
    ],
)  # fmt: skip
def test_all_pictures_of_a_batch_count(n: int, side: int, channels: int, of_floats: bool, of_bytes: bool) -> None:
    sizes = {"n": n, "c": channels, "m": channels, "oh": side, "ow": side}
    assert (gain(call(**sizes)) >= SMALLEST_GAIN) is of_floats
    assert (qwinograd.gain(KernelCall("qgemm", (), (), sizes)) >= qwinograd.LEAST_GAIN) is of_bytes


@pytest.mark.parametrize(
    ("batch", "precision", "family"),
    [
        ("1", "origin", "conv2d"), ("8", "origin", "winograd2d"), ("n", "origin", "winograd2d"),
        ("n", "mixed_bfloat16", "conv2d"),  # it could not fall back
    ],
)  # fmt: skip
def test_a_batch_of_open_size_may_have_many_pictures(batch: str, precision: str, family: str) -> None:
    _, compiled = compiled_net(f"{batch},64,7,7", precision_mode_v2=precision)
    assert families(compiled) - {"graph_kernel"} == {family}


def test_the_size_of_the_batch_decides_at_run_time() -> None:
    """One picture of 4x4 by the definition, and many by Winograd's algorithm: as packages for known sizes do."""
    for channels, side in ((128, 4), (64, 7), (64, 9)):  # of which a single one gains 0.5, 1.13 and 1.17
        x, seen = np.random.default_rng(0).standard_normal((32, channels, side, side), np.float32), set()
        session = InferenceSession(writer.to_bytes(compiled_net(f"n,{channels},{side},{side}")[1]))
        for n in (1, 2, 5, 32):
            _, known = compiled_net(f"{n},{channels},{side},{side}")
            [y] = session.run(None, {"x": x[:n]})
            np.testing.assert_array_equal(y, InferenceSession(writer.to_bytes(known)).run(None, {"x": x[:n]})[0])
            seen |= families(known)
        assert seen == {"conv2d", "winograd2d"}
