"""SoftmaxCrossEntropyLoss against the ONNX reference, on kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import atcpy
from tests.ops.contrib.cases import floats, make_model


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [None, 1, -100])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sides", [(), (3, 2)])
def test_the_loss_and_the_log_probabilities(
    reduction: str, ignored: int | None, weighted: bool, sides: tuple[int, ...]
) -> None:
    scores, labels = floats(4, 5, *sides), np.random.default_rng(1).integers(0, 5, (4, *sides))
    if ignored == -100:
        labels[0] = -100
    arrays = [scores, labels, *([np.abs(floats(5))] if weighted else [])]
    attrs: dict[str, object] = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
    model = make_model("SoftmaxCrossEntropyLoss", arrays, attrs, outputs=2, domain="")
    for output in model.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, onnx.TensorProto.FLOAT, None))
    expected = ReferenceEvaluator(model).run(None, {f"i{at}": array for at, array in enumerate(arrays)})
    for have, want in zip(atcpy.backend.run_model(model, arrays), expected, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_no_part_of_the_loss_runs_on_the_host(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
      g (float[4,5] x, int32[4] labels) => (float loss, float[4,5] logs)
      { loss, logs = SoftmaxCrossEntropyLoss(x, labels) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om").host_cpu_ops == ()
