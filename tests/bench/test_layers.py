from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.bench.layers import BusyThreads, LayerTime, idle_share, time_layers
from atcpy.runtime.roofline import Bandwidth, Roofline

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[8,8] x) => (float[8,8] y)
  { a = MatMul(x, x)  b = MatMul(a, x)  y = MatMul(b, a) }"""


def test_each_task_has_its_time_and_share(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    layers = time_layers(session, {"x": np.ones((8, 8), np.float32)}, profiles=3)
    assert [layer.op for layer in layers] == ["MatMul"] * 3
    assert [layer.task for layer in layers] == [0, 1, 2]
    assert sum(layer.share for layer in layers) == pytest.approx(1)
    assert all(layer.median > 0 for layer in layers)
    assert [layer.floor for layer in layers] == [None] * 3


def test_each_task_has_what_a_run_moves_and_computes(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    machine = Roofline(1, 1e6, (Bandwidth(1 << 20, 1e9),))
    layers = time_layers(session, {"x": np.ones((8, 8), np.float32)}, profiles=1, roofline=machine)
    # 8 · 8 · 8 products are two operations each, at a million of which a second.
    assert [layer.floor for layer in layers] == pytest.approx([1024e-6] * 3)
    assert [(layer.read_bytes, layer.written_bytes, layer.flops) for layer in layers] == [(512, 256, 1024)] * 3
    for layer in layers:
        assert layer.roofline == pytest.approx(1024e-6 / layer.median)
        assert layer.gflops_per_second == pytest.approx(1024e-9 / layer.median)
        assert layer.gbytes_per_second == pytest.approx(768e-9 / layer.median)


def layer_of(median: float, busy: dict[int, float]) -> LayerTime:
    return LayerTime(
        *(0, "Op", ("n",), "k", "e", median, (median, median), 1.0, None, None, 0, 0, 0.0, None, None, 0, 1),
        busy_threads=tuple(BusyThreads(threads, count) for threads, count in busy.items()),
    )


def test_idle_threads_are_weighed_by_time() -> None:
    even, alone = layer_of(1.0, {2: 2.0, 4: 4.0}), layer_of(1.0, {2: 1.0, 4: 1.0})
    assert idle_share([even], 2, 4) == 0
    assert idle_share([alone], 2, 4) == pytest.approx(0.75)
    # Of four threads, the first takes half a second for two seconds of work, the other one a second for one.
    assert idle_share([even, alone], 2, 4) == pytest.approx(1 - 3 / (4 * 1.5))
