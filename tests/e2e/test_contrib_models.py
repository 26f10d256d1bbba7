"""Transformers as ONNX Runtime's optimizer writes them, from file to result."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

import atcpy
from tests.ort import open_ort

HIDDEN, HEADS, WORDS, ROWS = 64, 4, 50, 9
Array = npt.NDArray[np.generic]


class Builder:
    """A model in the making: nodes of com.microsoft, weights by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self._rng = np.random.default_rng(3)

    def weight(self, name: str, *shape: int, scale: float = 0.1) -> str:
        self.weights[name] = (scale * self._rng.standard_normal(shape)).astype(np.float32)
        return name

    def constant(self, name: str, array: Array) -> str:
        self.weights[name] = array
        return name

    def add(self, op_type: str, inputs: Iterable[str], *outputs: str, **attrs: object) -> str:
        domain = "" if op_type in ("Add", "MatMul", "SimplifiedLayerNormalization") else "com.microsoft"
        self.nodes.append(helper.make_node(op_type, list(inputs), list(outputs), outputs[0], domain=domain, **attrs))
        return outputs[0]

    def model(self, inputs: dict[str, Array], outputs: Iterable[str]) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in inputs.items()]  # fmt: skip
        results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "transformer", infos, results, weights)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def assert_as_in_ort(model: onnx.ModelProto, feeds: dict[str, Array], target: Path) -> Any:
    report = atcpy.convert(model, target)
    got = atcpy.InferenceSession(target).run(None, feeds)
    want = open_ort(model, optimized=True).run(None, feeds)
    for have, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(have, expected, rtol=1e-3, atol=2e-5)
    return report


def test_bert(tmp_path: Path) -> None:
    b = Builder()
    feeds: dict[str, Array] = {
        "ids": np.random.default_rng(1).integers(0, WORDS, (2, ROWS)).astype(np.int32),
        "segments": np.random.default_rng(2).integers(0, 2, (2, ROWS)).astype(np.int32),
        "mask": (np.arange(ROWS) < np.array([[ROWS], [5]])).astype(np.int32),
    }
    tables = [b.weight("word", WORDS, HIDDEN), b.weight("place", 16, HIDDEN), b.weight("segment", 2, HIDDEN)]
    norm = [b.weight("gamma", HIDDEN, scale=1), b.weight("beta", HIDDEN)]
    x = b.add("EmbedLayerNormalization", ["ids", "segments", *tables, *norm, "mask"], "x", "lengths", epsilon=1e-6)
    for layer in range(2):
        qkv = [b.weight(f"w{layer}", HIDDEN, 3 * HIDDEN), b.weight(f"b{layer}", 3 * HIDDEN)]
        mask = "mask" if layer else "lengths"
        y = b.add("Attention", [x, *qkv, mask], f"attention{layer}", num_heads=HEADS)
        y = b.add("MatMul", [y, b.weight(f"o{layer}", HIDDEN, HIDDEN)], f"projected{layer}")
        x = b.add("SkipLayerNormalization", [y, x, *norm, b.weight(f"ob{layer}", HIDDEN)], f"middle{layer}")
        y = b.add("MatMul", [x, b.weight(f"u{layer}", HIDDEN, 4 * HIDDEN)], f"up{layer}")
        y = b.add("BiasGelu", [y, b.weight(f"ub{layer}", 4 * HIDDEN)], f"gelu{layer}")
        y = b.add("MatMul", [y, b.weight(f"d{layer}", 4 * HIDDEN, HIDDEN)], f"down{layer}")
        x = b.add("SkipLayerNormalization", [y, x, *norm, b.weight(f"db{layer}", HIDDEN)], f"end{layer}")
    report = assert_as_in_ort(b.model(feeds, [x]), feeds, tmp_path / "bert.om")
    assert report.host_cpu_ops == ()
    kinds = [task.op_type for task in atcpy.InferenceSession(tmp_path / "bert.om").tasks]
    assert (kinds.count("FusedAttention"), kinds.count("LayerNormalization"), kinds.count("Gelu")) == (2, 4, 0)
    assert kinds.count("FusedLayerNormalization") == 1  # that adds up the embeddings


def test_gpt_with_a_cache(tmp_path: Path) -> None:
    b, step, past = Builder(), 3, 5
    rng = np.random.default_rng(7)
    feeds: dict[str, Array] = {
        "x": rng.standard_normal((2, step, HIDDEN)).astype(np.float32),
        "mask": np.array([[1] * (past + step), [0] * 2 + [1] * (past + step - 2)], np.int32),
    }
    x, norm = "x", [b.weight("gamma", HIDDEN, scale=1), b.weight("beta", HIDDEN)]
    for layer in range(2):
        feeds[f"past{layer}"] = rng.standard_normal((2, 2, HEADS, past, HIDDEN // HEADS)).astype(np.float32)
        qkv = [b.weight(f"w{layer}", HIDDEN, 3 * HIDDEN), b.weight(f"b{layer}", 3 * HIDDEN)]
        b.add("Attention", [x, *qkv, "mask", f"past{layer}"], f"attention{layer}", f"present{layer}",
              num_heads=HEADS, unidirectional=1)  # fmt: skip
        y = b.add("MatMul", [f"attention{layer}", b.weight(f"o{layer}", HIDDEN, HIDDEN)], f"projected{layer}")
        x = b.add("SkipLayerNormalization", [y, x, *norm, b.weight(f"ob{layer}", HIDDEN)], f"end{layer}")
    report = assert_as_in_ort(b.model(feeds, [x, "present0", "present1"]), feeds, tmp_path / "gpt.om")
    assert report.host_cpu_ops == ()
    # Of each layer a product, attention with its cache, a product that takes the sum along, a norm.
    session = atcpy.InferenceSession(tmp_path / "gpt.om")
    assert [task.op_type for task in session.tasks].count("FusedAttention") == 2
    assert len(session.tasks) == 2 * 4


def test_decoder_of_four_bits(tmp_path: Path) -> None:
    b, step, cache = Builder(), 1, 8
    shape = (1, 2, cache, HIDDEN // HEADS)
    feeds: dict[str, Array] = {
        "x": np.random.default_rng(1).standard_normal((1, step, HIDDEN)).astype(np.float32),
        "k": np.random.default_rng(2).standard_normal(shape).astype(np.float32),
        "v": np.random.default_rng(4).standard_normal(shape).astype(np.float32),
        "ends": np.array([5], np.int32),
    }
    angles = np.arange(16)[:, None] / np.arange(1, HIDDEN // HEADS // 2 + 1)
    caches = [b.constant("cos", np.cos(angles).astype("f")), b.constant("sin", np.sin(angles).astype("f"))]
    total = b.constant("total", np.array(6, np.int32))

    def product(x: str, name: str, rows: int, columns: int) -> str:
        packed = b.constant(
            f"{name}.b", np.random.default_rng(9).integers(0, 256, (rows, columns // 32, 16)).astype("u1")
        )
        scales = b.weight(f"{name}.scales", rows, columns // 32, scale=0.02)
        return b.add("MatMulNBits", [x, packed, scales], name, N=rows, K=columns, bits=4, block_size=32)

    gamma = b.weight("gamma", HIDDEN, scale=1)
    qkv = product(b.add("SimplifiedLayerNormalization", ["x", gamma], "n", epsilon=1e-5), "qkv", 2 * HIDDEN, HIDDEN)
    y = b.add("GroupQueryAttention", [qkv, "", "", "k", "v", "ends", total, *caches], "y", "k2", "v2",
              num_heads=HEADS, kv_num_heads=2, do_rotary=1)  # fmt: skip
    y = b.add("SkipSimplifiedLayerNormalization", ["x", product(y, "o", HIDDEN, HIDDEN), gamma], "m", "", "", "sum")
    y = b.add("QuickGelu", [product(y, "up", 2 * HIDDEN, HIDDEN)], "act", alpha=1.0)
    b.add("Add", ["sum", product(y, "down", HIDDEN, 2 * HIDDEN)], "z")
    model = b.model(feeds, ["z", "k2", "v2"])
    report = assert_as_in_ort(model, feeds, tmp_path / "decoder.om")
    assert report.host_cpu_ops == ()
