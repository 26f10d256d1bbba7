"""`atcpy.quantize`: what it writes, what it measures, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import atcpy
from atcpy.cli.app import execute
from atcpy.errors import AtcError, Unsupported, UsageError, VerifyFailed
from atcpy.quantization import quantize as command
from atcpy.quantization import quantizer
from atcpy.rewrite import optimize
from atcpy.rewrite.export import CannotExport
from tests.models_in_text import model
from tests.sources import REPO

DIGITS = REPO / "models" / "digits" / "digits.onnx"
PICTURES = REPO / "models" / "digits" / "pictures"

DENSE = """dense (float[1,2,8] x) => (float[1,2,4] y) <float[8,16] w, float[16] b, float[16,4] v> {
  [first] p = MatMul(x, w)
  [sum] s = Add(p, b)
  [relu] r = Relu(s)
  [second] y = MatMul(r, v)
}"""
CONVOLUTIONS = """net (float[1,3,8,8] x) => (float[1,4,8,8] y)
<float[4,3,3,3] w, float[4] gamma, float[4] beta, float[4] mean, float[4] var, float[4,4,1,1] v> {
  [stem] c = Conv<pads = [1,1,1,1]>(x, w)
  [norm] n = BatchNormalization(c, gamma, beta, mean, var)
  [relu] r = Relu(n)
  [side] d = Conv(r, v)
  [join] y = Add(r, d)
}"""


def feeds(shape: Sequence[int], count: int = 6) -> list[dict[str, Any]]:
    return [{"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)} for seed in range(count)]


def net(text: str = DENSE) -> onnx.ModelProto:
    result = model(text)
    for tensor in result.graph.initializer:
        if tensor.name == "var":
            tensor.CopyFrom(numpy_helper.from_array(np.ones(4, np.float32), "var"))
    return result


def quantized(folder: Path, source: Any, samples: Any, **options: Any) -> tuple[onnx.ModelProto, Any]:
    report = atcpy.quantize(source, folder / "q.onnx", calibrate=samples, **options)
    return onnx.load(folder / "q.onnx"), report


def ops(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def weights(proto: onnx.ModelProto) -> Mapping[str, Any]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


def test_convolutions_stay_in_bytes_from_end_to_end(tmp_path: Path) -> None:
    proto, report = quantized(tmp_path, net(CONVOLUTIONS), feeds((1, 3, 8, 8)))
    onnx.checker.check_model(proto, full_check=True)
    assert "BatchNormalization" not in ops(proto)
    assert sorted(layer.node for layer in report.layers) == ["join", "side", "stem"]
    assert all(layer.integer for layer in report.layers)
    assert report.outputs[0].atcpy.snr_db > 30
    atcpy.convert(proto, tmp_path / "q.om")
    tasks = atcpy.inspect(tmp_path / "q.om", "tasks").record["tasks"]
    assert [t["op"] for t in tasks] == [
        "QuantizeLinear", "QLinearConv", "FusedQLinearConv", "DequantizeLinear", "TransData",
    ]  # fmt: skip


def test_sums_behind_products_of_matrices_stay_float(tmp_path: Path) -> None:
    proto, report = quantized(tmp_path, net(), feeds((1, 2, 8)))
    assert sorted(layer.node for layer in report.layers) == ["first", "second"]
    producer = {name: node for node in proto.graph.node for name in node.output}
    assert ops(proto).count("MatMul") == 2
    assert all(
        producer[name].op_type == "DequantizeLinear"
        for node in proto.graph.node
        if node.op_type == "MatMul"
        for name in node.input
    )
    assert report.samples.calibration == 5
    assert report.samples.held_out == 1


def test_activations_join_the_products_before_them(tmp_path: Path) -> None:
    proto, _ = quantized(tmp_path, net(DENSE.replace("Add(p, b)", "Identity(p)")), feeds((1, 2, 8)))
    assert "Relu" not in ops(proto)
    assert weights(proto)["r_zero_point"] == 0


def test_errors_are_those_of_the_model_that_was_written(tmp_path: Path) -> None:
    """Against both engines, run here on the sample that was held out, the fifth."""
    source, samples = net(), feeds((1, 2, 8))
    proto, report = quantized(tmp_path, source, samples)
    held = samples[4]
    exact = onnxruntime.InferenceSession(source.SerializeToString()).run(None, held)[0].astype(np.float64)
    atcpy.convert(proto, tmp_path / "q.om")
    results = {
        "onnxruntime": onnxruntime.InferenceSession(proto.SerializeToString()).run(None, held)[0],
        "atcpy": atcpy.InferenceSession(tmp_path / "q.om").run(None, held)[0],
    }
    [output] = report.outputs
    for name, result in results.items():
        error = getattr(output, name)
        assert error.max_abs == pytest.approx(np.abs(result - exact).max(), rel=1e-4)
        assert error.snr_db == pytest.approx(10 * np.log10((exact**2).sum() / ((result - exact) ** 2).sum()), abs=1e-3)
        norms = np.linalg.norm(exact) * np.linalg.norm(result.astype(np.float64))
        assert error.cosine == pytest.approx((exact * result).sum() / norms, abs=1e-6)
    assert output.difference.max_abs == pytest.approx(np.abs(results["atcpy"] - results["onnxruntime"]).max())


def test_the_own_error_of_a_layer_is_that_with_exact_inputs(tmp_path: Path) -> None:
    """The second product by hand: its operands and its result through their QuantizeLinear, from exact inputs."""
    source, samples = net(), feeds((1, 2, 8))
    proto, report = quantized(tmp_path, source, samples)
    by_name, float_weights = weights(proto), weights(source)

    def through(array: Any, name: str) -> Any:
        scale, zero = by_name[f"{name}_scale"], by_name[f"{name}_zero_point"].astype(int)
        info = np.iinfo(by_name[f"{name}_zero_point"].dtype)
        return (np.clip(np.rint(array / scale) + zero, info.min, info.max) - zero) * scale

    x = samples[4]["x"]
    relu = np.maximum(x @ float_weights["w"] + float_weights["b"], 0)
    exact = (relu @ float_weights["v"]).astype(np.float64)
    result = through(through(relu, "r") @ through(float_weights["v"], "v"), "y")
    [second] = [layer for layer in report.layers if layer.node == "second"]
    expected = 10 * np.log10((exact**2).sum() / ((result - exact) ** 2).sum())
    assert second.own.snr_db == pytest.approx(expected, abs=0.5)  # a half may be rounded to either side
    assert second.total.snr_db == pytest.approx(report.outputs[0].onnxruntime.snr_db, abs=0.5)


@pytest.mark.parametrize("pattern", ["first", "fi*"])
def test_excluded_nodes_stay_float(pattern: str, tmp_path: Path) -> None:
    proto, report = quantized(tmp_path, net(), feeds((1, 2, 8)), exclude=pattern)
    assert [layer.node for layer in report.layers] == ["second"]
    [product] = [node for node in proto.graph.node if node.name == "first"]
    assert list(product.input) == ["x", "w"]


def test_an_op_is_excluded(tmp_path: Path) -> None:
    proto, report = quantized(tmp_path, net(CONVOLUTIONS), feeds((1, 3, 8, 8)), exclude="OpType::Add")
    assert sorted(layer.node for layer in report.layers) == ["side", "stem"]
    [join] = [node for node in proto.graph.node if node.name == "join"]
    assert join.output == ["y"]


def test_names_of_the_file_exclude_what_became_of_the_nodes(tmp_path: Path) -> None:
    _, report = quantized(tmp_path, net(CONVOLUTIONS), feeds((1, 3, 8, 8)), exclude=["norm"])
    assert sorted(layer.node for layer in report.layers) == ["join", "side"]


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
@pytest.mark.parametrize(("activations", "of_weights"), [("u8", "i8"), ("u8", "u8"), ("i8", "i8")])
def test_methods_and_types(method: str, activations: str, of_weights: str, tmp_path: Path) -> None:
    proto, report = quantized(
        tmp_path, net(), feeds((1, 2, 8)), method=method, activation_type=activations, weight_type=of_weights
    )
    names = {"u8": np.uint8, "i8": np.int8}
    by_name = weights(proto)
    assert by_name["r_zero_point"].dtype == names[activations]
    assert by_name["w_quantized"].dtype == names[of_weights]
    assert by_name["w_scale"].shape == (16,)
    assert report.outputs[0].atcpy.cosine > 0.99
    assert report.outputs[0].difference.snr_db > 30


def test_one_scale_for_a_tensor(tmp_path: Path) -> None:
    proto, _ = quantized(tmp_path, net(), feeds((1, 2, 8)), per_channel=False)
    assert weights(proto)["w_scale"].shape == ()


@pytest.mark.slow
def test_entropy_cuts_off_what_is_rare(tmp_path: Path) -> None:
    samples = [{"x": each["x"] ** 3} for each in feeds((1, 2, 8), 40)]
    widest, _ = quantized(tmp_path, net(), samples)
    cut, _ = quantized(tmp_path, net(), samples, method="entropy")
    assert weights(cut)["x_scale"] < weights(widest)["x_scale"] / 2


def test_open_dims_take_the_sizes_of_the_samples(tmp_path: Path) -> None:
    source = net(DENSE.replace("1,2,", "1,N,"))
    samples = [*feeds((1, 2, 8), 3), *feeds((1, 5, 8), 3)]
    proto, report = quantized(tmp_path, source, samples)
    assert len(report.layers) == 2
    assert report.outputs[0].atcpy.snr_db > 25
    assert proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param == "N"


@pytest.mark.slow
def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=np.stack([each["x"] for each in feeds((1, 2, 8))]))
    for number in "12":
        command = [sys.executable, "-m", "atcpy", "quantize", "m.onnx", f"q{number}.onnx", "--calibrate", "s.npz"]
        environment = {"PYTHONHASHSEED": number, "PYTHONPATH": str(REPO)}
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "q1.onnx").read_bytes() == (tmp_path / "q2.onnx").read_bytes()


# --- --suggest -----------------------------------------------------------------------------------


def sensitive() -> onnx.ModelProto:
    """Two convolutions, of which the first has one channel whose weights leave no steps for the others."""
    result = net(CONVOLUTIONS)
    for tensor in result.graph.initializer:
        if tensor.name == "w":
            array = numpy_helper.to_array(tensor).copy()
            array[0, 0, 0, 0] = 500
            tensor.CopyFrom(numpy_helper.from_array(array, "w"))
    return result


@pytest.mark.slow
def test_layers_are_kept_until_the_bound_is_met(tmp_path: Path) -> None:
    source, samples = sensitive(), feeds((1, 3, 8, 8))
    _, all_bytes = quantized(tmp_path, source, samples, per_channel=False)
    bound = all_bytes.outputs[0].onnxruntime.snr_db + 3
    proto, report = quantized(tmp_path, source, samples, per_channel=False, suggest=f"snr={bound:.2f}")
    assert report.kept
    assert len(report.kept) < len(all_bytes.layers)
    assert report.outputs[0].atcpy.snr_db >= bound - 0.01
    assert report.outputs[0].onnxruntime.snr_db >= bound - 0.01
    same, _ = quantized(tmp_path, source, samples, per_channel=False, exclude=report.kept)
    assert same == proto  # the list is what --exclude takes
    assert not set(report.kept) & {layer.node for layer in report.layers}


def test_the_bound_holds_in_atcpy_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, samples = sensitive(), feeds((1, 3, 8, 8))
    _, all_bytes = quantized(tmp_path, source, samples, per_channel=False)
    bound = all_bytes.outputs[0].atcpy.snr_db + 3
    monkeypatch.setattr(command._Judge, "in_onnxruntime", lambda *_: {})  # ONNX Runtime finds no error
    _, report = quantized(tmp_path, source, samples, per_channel=False, suggest=f"snr={bound:.2f}")
    assert report.kept
    assert report.outputs[0].atcpy.snr_db >= bound - 0.01


def test_nothing_is_kept_where_the_bound_is_met(tmp_path: Path) -> None:
    _, report = quantized(tmp_path, net(), feeds((1, 2, 8)), suggest="cosine=0.9")
    assert report.kept == ()
    assert report.bound == "cosine=0.9"


def test_a_bound_that_cannot_be_met_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(VerifyFailed, match="no choice of the 2 layers meets max_abs=1e-09") as caught:
        quantized(tmp_path, net(), feeds((1, 2, 8)), suggest="max_abs=1e-9")
    assert caught.value.code == "V0001"
    assert list(tmp_path.iterdir()) == []


# --- old opsets ----------------------------------------------------------------------------------

OLD = """net (float[1,3,8,8] x) => (float[4,8,8] y) <float[4,3,3,3] w, float[4] b> {
  [conv] c = Conv<pads = [1,1,1,1]>(x, w, b)
  [relu] r = Relu(c)
  [squeeze] y = Squeeze<axes = [0]>(r)
}"""


def old_model(body: str, opset: int) -> onnx.ModelProto:
    proto = model(body)
    proto.opset_import[0].version = opset
    return proto


@pytest.mark.parametrize(("opset", "raised"), [(9, 13), (11, 13), (12, 13)])
@pytest.mark.parametrize("per_channel", [True, False])
def test_a_model_of_an_old_opset_is_raised(tmp_path: Path, opset: int, raised: int, per_channel: bool) -> None:
    samples = feeds((1, 3, 8, 8))
    proto, report = quantized(tmp_path, old_model(OLD, opset), samples, per_channel=per_channel)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == raised
    assert report.outputs[0].atcpy.snr_db > 25
    assert {layer.integer for layer in report.layers} == {True}


def test_a_model_of_a_newer_opset_keeps_it(tmp_path: Path) -> None:
    proto, _ = quantized(tmp_path, old_model(DENSE, 17), feeds((1, 2, 8)))
    assert proto.opset_import[0].version == 17


def test_an_old_model_that_cannot_be_raised_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*args: object, **named: object) -> None:
        raise CannotExport("a node has no newer form")

    monkeypatch.setattr(optimize, "export_rewritten", cannot)
    quantized(tmp_path, old_model(DENSE, 13), feeds((1, 2, 8)))
    (tmp_path / "q.onnx").unlink()
    with pytest.raises(Unsupported, match="the model has opset 12, and cannot be brought to 13") as caught:
        quantized(tmp_path, old_model(DENSE, 12), feeds((1, 2, 8)))
    assert (caught.value.code, list(tmp_path.iterdir())) == ("E10055", [])


@pytest.mark.parametrize(("group", "kept"), [(1, {"stem", "up"}), (2, {"stem"})])
def test_grouped_transposed_convolutions_stay_float(tmp_path: Path, group: int, kept: set[str]) -> None:
    text = f"""up (float[1,4,6,6] x) => (float[1,4,7,7] y)
        <float[4,4,1,1] w, float[4,{4 // group},2,2] v, float[4] b> {{
      [stem] s = Conv(x, w)
      [up] y = ConvTranspose<group = {group}>(s, v, b)
    }}"""
    _, report = quantized(tmp_path, model(text), feeds((1, 4, 6, 6)))
    assert {layer.node for layer in report.layers} == kept


def test_a_bias_that_layers_share_replaces_no_other_value(tmp_path: Path) -> None:
    """ONNX Runtime's quantizer calls copies of `b` b0, b1 and so on, whatever these are already."""
    text = """shared (float[1,4,6,6] x) => (float[1,4,6,6] y)
        <float[4,4,1,1] u, float[4,4,1,1] v, float[4,4,1,1] w, float[4] b> {
      b0 = Conv(x, u, b)
      b1 = Conv(b0, v, b)
      b2 = Conv(b1, w, b)
      y = Add(b0, b2)
    }"""
    proto, report = quantized(tmp_path, model(text), feeds((1, 4, 6, 6)))
    onnx.checker.check_model(proto, full_check=True)
    assert report.outputs[0].atcpy.snr_db > 25
    assert report.outputs[0].onnxruntime.snr_db > 25


def test_dims_without_a_name_need_not_be_equal(tmp_path: Path) -> None:
    text = "open (float[?,?] x) => (float[?,?] y) <float[8,4] w> { y = MatMul(x, w) }"
    proto = model(text.replace("?", "N"))
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = "?"
    _, report = quantized(tmp_path, proto, feeds((2, 8)))
    assert report.outputs[0].atcpy.snr_db > 25


# --- refusals ------------------------------------------------------------------------------------

IF = """branch (float[2] x, bool c) => (float[2] y) {
  [choose] y = If (c) <
    then_branch = t () => (float[2] p) { p = Relu(x) }, else_branch = e () => (float[2] q) { q = Neg(x) }
  >
}"""
HALF = "half (float16[2,8] x) => (float16[2,4] y) <float16[8,4] w> { y = MatMul(x, w) }"
NOTHING = "none (float[2] x) => (float[2] y) { y = Exp(x) }"
COMPUTED = "computed (float[2,2] x) => (int64[2] y) { y = ArgMax<keepdims = 0>(x) }"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (IF, "a model with If cannot be quantised"),
        (HALF, "a model in float16 cannot be quantised"),
        (NOTHING, "no node of the model can be quantised"),
        (COMPUTED, "no node of the model can be quantised"),
    ],
)
def test_models_that_are_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=what) as caught:
        quantized(tmp_path, model(text), [{"x": np.zeros(2, np.float32)}])
    assert caught.value.code == "E10055"
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_quantised_model_is_refused(tmp_path: Path) -> None:
    proto, _ = quantized(tmp_path, net(), feeds((1, 2, 8)))
    with pytest.raises(Unsupported, match="the model is quantised already") as caught:
        quantized(tmp_path, proto, feeds((1, 2, 8)))
    assert caught.value.where.op in ("QuantizeLinear", "DequantizeLinear")


def test_a_model_with_more_than_two_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atcpy.rewrite import serialize

    monkeypatch.setattr(serialize, "MAX_MESSAGE", 100)
    with pytest.raises(Unsupported, match="takes at most 2 GB"):
        quantized(tmp_path, model("big (float[2,64] x) => (float[2,64] y) <float[64,64] w> { y = MatMul(x, w) }"), [])


def test_weights_outside_of_the_file_are_read(tmp_path: Path) -> None:
    wide = "wide (float[2,64] x) => (float[2,64] y) <float[64,64] w> { [p] y = MatMul(x, w) }"
    onnx.save(model(wide), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    proto, report = quantized(tmp_path, tmp_path / "m.onnx", feeds((2, 64)))
    assert weights(proto)["w_quantized"].shape == (64, 64)
    assert report.bytes.before > 64 * 64 * 4


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        ({"exclude": "frist"}, "E10016", 'the model has no node "frist"'),
        ({"exclude": "OpType::Matmul"}, "E10016", "the model has no Matmul"),
        ({"exclude": "*"}, "E10055", "all nodes are excluded"),
        ({"method": "median"}, "E10001", '"median"'),
        ({"suggest": "snr"}, "E10001", '"snr" is no bound'),
        ({"suggest": "cosine=2"}, "E10013", "outside 0..1"),
        ({"activation_type": "i8", "weight_type": "u8"}, "E10056", "does not combine"),
        ({"max_samples": 0}, "E10013", "outside"),
        ({"maxsamples": 1}, "E10001", 'no option "maxsamples"'),
    ],
)
def test_options_that_are_refused(options: Any, code: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(AtcError, match=what) as caught:
        quantized(tmp_path, net(), feeds((1, 2, 8)), **options)
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_the_nearest_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        quantized(tmp_path, net(), feeds((1, 2, 8)), exclude="frist")
    assert caught.value.hint == 'did you mean "first"?'


def test_a_missing_quantizer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)
    with pytest.raises(Unsupported, match="ONNX Runtime's quantizer cannot be loaded") as caught:
        quantized(tmp_path, net(), feeds((1, 2, 8)))
    assert caught.value.hint == "pip install onnxruntime"


def test_what_the_quantizer_raises_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = quantizer._import_library()

    def raise_error(*_: object) -> None:
        raise ValueError("Quantization parameters are not specified for param r.")

    monkeypatch.setattr(library.QDQQuantizer, "quantize_model", raise_error)
    with pytest.raises(Unsupported, match="cannot quantise the model") as caught:
        quantized(tmp_path, net(), feeds((1, 2, 8)))
    assert caught.value.why == "ValueError: Quantization parameters are not specified for param r."


def test_values_that_become_infinite_are_refused(tmp_path: Path) -> None:
    source = model("m (float[2,8] x) => (float[2,4] y) <float[8,4] w> { e = Exp(x) [p] y = MatMul(e, w) }")
    with pytest.raises(Unsupported, match="a value becomes infinite") as caught:
        quantized(tmp_path, source, [{"x": np.full((2, 8), 1000, np.float32)}])
    assert caught.value.where.value in ("e", "y")


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, report = tmp_path / "q.onnx", tmp_path / "r.json"
    command = ["quantize", str(DIGITS), "-o", str(target), "--calibrate", str(PICTURES), "--mean", "127.5"]
    assert execute([*command, "--std", "127.5", "--report", str(report), "--exclude", "OpType::Gemm", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert json.loads(report.read_text()) == result
    assert result["excluded"] == ["OpType::Gemm"]
    assert result["samples"] == {"calibration": 8, "held_out": 2, "others": True}
    assert result["bytes"]["after"] == target.stat().st_size
    assert {layer["op"] for layer in result["layers"]} == {"Conv", "Add", "GlobalAveragePool"}
    assert result["outputs"][0]["atcpy"]["cosine"] > 0.999


@pytest.mark.parametrize(("arguments", "code"), [([], "E10054"), (["--calibrate", "no/where"], "E10410")])
def test_samples_are_required(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["quantize", str(DIGITS), "q.onnx", *arguments]) == 2
    assert f"error[{code}]" in capsys.readouterr().err
