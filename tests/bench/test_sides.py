import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from atcpy.bench.sides import onnxruntime_side, openvino_side
from atcpy.errors import ModelInvalid
from atcpy.verify.oracle import open_onnxruntime
from tests.sanitizers import loads_openvino

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] a, float[2,3] b) => (float[2,3] s, float[2,3] d)
  { s = Add(a, b)  d = Sub(a, b) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@loads_openvino
def test_openvino_computes_all_outputs_in_order(model: Path) -> None:
    pytest.importorskip("openvino")
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    side = openvino_side(model, 1, {"b": b, "a": a, "no input of the model": a})
    assert (side.engine, side.name) == ("openvino", "openvino " + ".".join(side.version.split(".")[:2]))
    outputs = side.run()
    np.testing.assert_array_equal(outputs[0], a + b)
    np.testing.assert_array_equal(outputs[1], a - b)


def test_openvino_has_the_threads_of_the_others(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    class Core:
        def read_model(self, path: str) -> str:
            return path

        def compile_model(self, read: str, device: str, settings: dict[str, Any]) -> Any:
            seen.update(settings, read=read, device=device)
            return SimpleNamespace(inputs=[], create_infer_request=lambda: None)

    module = ModuleType("openvino")
    vars(module).update(Core=Core, __version__="2030.1.0-7-abc")
    monkeypatch.setitem(sys.modules, "openvino", module)
    assert openvino_side(model, 3, {}).version == "2030.1.0"
    assert (seen["INFERENCE_NUM_THREADS"], seen["NUM_STREAMS"], seen["INFERENCE_PRECISION_HINT"]) == (3, 1, "f32")
    assert (seen["read"], seen["device"]) == (str(model), "CPU")


@loads_openvino
def test_a_model_that_an_engine_cannot_run_is_said(model: Path, tmp_path: Path) -> None:
    feeds = {"a": np.ones((5, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    with pytest.raises(ModelInvalid, match=r"ONNX Runtime cannot run m\.onnx: ") as caught:
        onnxruntime_side(onnxruntime, model, 1, feeds, open_onnxruntime).run()
    assert caught.value.code == "V0003"
    pytest.importorskip("openvino")
    with pytest.raises(ModelInvalid, match=r"OpenVINO cannot run m\.onnx: "):
        openvino_side(model, 1, feeds).run()
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ModelInvalid, match=r"OpenVINO cannot run no\.onnx: "):
        openvino_side(tmp_path / "no.onnx", 1, feeds)
