"""Formats of constants: those that the kernels read, once for all nodes that read them so."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir import NC1HWC0, DType, Engine, FormatKind, Graph, PassRecord, Tensor, TensorDesc
from atcpy.options import OptimizeOptions, convert_options
from atcpy.passes.optimize.choose_formats import choose_formats, stored
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model


@pytest.mark.parametrize(
    "text",
    [
        "m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,16,1,1] w> { a = Conv(x, w) y = Conv(a, w) }",
        "m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,16,1,1] w, float[16,1,1] k>"
        "{ a = Conv(x, w) t = Tanh(a) b = Mul(t, k) s = Sin(b) y = Mul(s, k) }",
    ],
)
def test_a_shared_constant_is_stored_once(text: str) -> None:
    compiled, _ = compile_model(model(text), convert_options(None))
    assert [node.name for node in compiled.graph.nodes if node.op_type == "Const" and not node.output.use_count] == []
    stored = {weight.offset: weight.nbytes for weight in compiled.weights}
    assert sum(stored.values()) == 16 * 16 * 4 + (16 * 4 if "k>" in text else 0)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,16,1,1] w> { y = Conv(x, w) }", ["N1C1HWC0N0"]),
        ("m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,1,1,1] w> { y = Conv<group = 16>(x, w) }", ["C1HWC0"]),
        ("m (double[1,16,4,4] x) => (double[1,16,4,4] y) <double[16,16,1,1] w> { y = Conv(x, w) }", ["NCHW"]),
        (
            "m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,1,1,1] w>"
            "{ a = Conv<group = 16>(x, w) y = ConvTranspose<group = 16>(a, w) }",
            ["C1HWC0", "N1C1HWC0N0_T"],
        ),
        (
            "m (uint8[1,16,4,4] x) => (int32[1,16,4,4] y) <int8[16,16,1,1] w> { y = ConvInteger(x, w) }",
            ["N1K1N0K0"],
        ),
        (
            "m (uint8[1,16,4,4] x) => (int32[1,16,4,4] y) <int8[16,1,1,1] w> { y = ConvInteger<group = 16>(x, w) }",
            ["C1HWC0"],
        ),
        (  # two groups, which fill no block: the activations stay plain, the weights do not
            "m (uint8[1,16,4,4] x) => (int32[1,16,4,4] y) <int8[16,8,1,1] w> { y = ConvInteger<group = 2>(x, w) }",
            ["N1K1N0K0"],
        ),
        ("m (uint8[3,16] x) => (int32[3,8] y) <int8[16,8] w> { y = MatMulInteger(x, w) }", ["N1K1N0K0_T"]),
        ("m (uint8[2,3,16] x) => (int32[2,3,8] y) <int8[1,16,8] w> { y = MatMulInteger(x, w) }", ["NCHW"]),
    ],
)
def test_a_constant_is_stored_as_its_kernel_reads_it(text: str, kinds: list[str]) -> None:
    """The format that is chosen is the one in the package, for as many copies as there are kernels that differ."""
    compiled, _ = compile_model(model(text), convert_options({"debug": True}))
    found = {weight.desc.format.kind for weight in compiled.weights if weight.name.startswith("w")}
    plain = {kind for kind in found if kind in (FormatKind.ND, FormatKind.NCHW)}
    assert sorted("NCHW" if kind in plain else kind.name for kind in found) == kinds


@pytest.mark.parametrize(("rows", "form"), [(0, "NCHW"), (2, "NC1HWC0")])
def test_an_empty_result_asks_for_no_layout(rows: int, form: str) -> None:
    """The end of a Slice need not be a constant where it takes nothing: the layout would ask for the number."""
    graph = Graph("g")
    x = graph.append("Data", (), {"index": 0}, name="x").output
    x.desc = stored(TensorDesc.plain(DType.FLOAT32, (4, 32, 8, 8)), NC1HWC0)
    zero = graph.add_const(Tensor.of(np.zeros(1, np.int64)), "zero")
    if rows:
        end = graph.add_const(Tensor.of(np.full(1, rows)), "end")
    else:
        end = graph.append("Data", (), {"index": 1}, name="end").output
        end.desc = TensorDesc.plain(DType.INT64, (1,))
    node = graph.append("Slice", [x, zero, end, zero], name="s")
    node.output.desc, node.engine = TensorDesc.plain(DType.FLOAT32, (rows, 32, 8, 8)), Engine.VECTOR
    graph.append("NetOutput", [node.output], name="out", outputs=())
    choose_formats(graph, PassRecord("FormatRefreshPass", "optimize"), OptimizeOptions())
    assert node.output.desc.format.kind.name == form
