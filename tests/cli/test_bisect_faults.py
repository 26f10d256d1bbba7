"""`atcpy passes bisect` on small nets of two kinds whose passes are broken for some matches.

The pass and the match are found in 2·log2 of their numbers, and the reproducer shows the fault by itself. Each fault
asks what the match is like, not the how many-th it is: a part of the model has it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import log2
from pathlib import Path

import onnx
import pytest

from atcpy.ir import Graph, Match, Node, PassRecord, Rewriter, Value, erase_dead
from atcpy.ir.tensor import Array
from atcpy.passes import affine, base
from atcpy.passes.fusion import Fusion
from atcpy.passes.optimize.epilogue import ConvAdd, ConvRelu, MatMulAdd
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.attention.scaled_dot_product import Attention
from atcpy.passes.prepare.recognise.gelu import Gelu
from atcpy.passes.prepare.recognise.layer_norm import LayerNorm
from tests.models_in_text import model as model_of

from .conftest import Invoke
from .test_bisect import registered

MOST_NODES = 10

CONV_BLOCK = """
    c{i} = Conv<pads = [1,1,1,1]>({x}, wc{i})
    n{i} = BatchNormalization(c{i}, g{i}, b{i}, m{i}, var{i})
    r{i} = Relu(n{i})
    d{i} = Conv<pads = [1,1,1,1]>(r{i}, wd{i})
    o{i} = BatchNormalization(d{i}, h{i}, k{i}, l{i}, varo{i})
    s{i} = Conv({x}, ws{i})
    a{i} = Add(o{i}, s{i})
    x{i} = Relu(a{i})"""
CONV_WEIGHTS = """float[{w},{v},3,3] wc{i}, float[{w},{w},3,3] wd{i}, float[{w},{v},1,1] ws{i},
    float[{w}] g{i}, float[{w}] b{i}, float[{w}] m{i}, float[{w}] var{i},
    float[{w}] h{i}, float[{w}] k{i}, float[{w}] l{i}, float[{w}] varo{i}"""

NORM = """
    {y}_mean = ReduceMean({x}, last)  {y}_apart = Sub({x}, {y}_mean)  {y}_square = Pow({y}_apart, two)
    {y}_var = ReduceMean({y}_square, last)  {y}_moved = Add({y}_var, epsilon)  {y}_root = Sqrt({y}_moved)
    {y}_one = Div({y}_apart, {y}_root)  {y}_scaled = Mul({y}_one, gamma)  {y} = Add({y}_scaled, beta)"""
HEADS = """
    {y}_m = MatMul({x}, w{y})  {y}_a = Add({y}_m, b{y})
    {y}_r = Reshape({y}_a, heads)  {y} = Transpose<perm = [0,2,{perm}]>({y}_r)"""
LAYER = """
    scores{i} = MatMul(q{i}, k{i})  scaled{i} = Div(scores{i}, root)  soft{i} = Softmax(scaled{i})
    seen{i} = MatMul(soft{i}, v{i})  turned{i} = Transpose<perm = [0,2,1,3]>(seen{i})
    joined{i} = Reshape(turned{i}, rows)  out{i} = MatMul(joined{i}, wout)  sum{i} = Add(out{i}, {x})
    {norm_a}
    up{i} = MatMul(na{i}, wup)  inner{i} = Div(up{i}, root_two)  erf{i} = Erf(inner{i})  more{i} = Add(erf{i}, one)
    by{i} = Mul(up{i}, more{i})  act{i} = Mul(by{i}, half)
    down{i} = MatMul(act{i}, wdown)  total{i} = Add(down{i}, na{i})
    {norm_b}"""


def convolutional() -> onnx.ModelProto:
    """Five residual blocks, the last two wider."""
    widths = [4, 4, 4, 4, 8, 8]
    weights = [CONV_WEIGHTS.format(i=i, v=v, w=w) for i, (v, w) in enumerate(pairwise(widths))]
    blocks = [CONV_BLOCK.format(i=i, x=f"x{i - 1}" if i else "x") for i in range(5)]
    return model_of(
        f"net (float[1,4,6,6] x) => (float[1,8,6,6] y) <{', '.join(weights)}> {{ {''.join(blocks)} y = Neg(x4) }}"
    )


def transformer() -> onnx.ModelProto:
    """Three layers with attention and the norms behind the sums, spelled out as PyTorch does."""
    weights = [
        "int64[1] last = {-1}, float two = {2}, float one = {1}, float half = {0.5}, float root_two = {1.4142135}",
        "float epsilon = {0.00001}, float root = {2}, int64[4] heads = {0,0,2,4}, int64[3] rows = {0,0,8}",
        "float[8] gamma = {2,2,2,2,2,2,2,2}, float[8] beta, float[8,8] wout, float[8,16] wup, float[16,8] wdown",
    ]
    lines = []
    for i in range(3):
        x = f"nb{i - 1}" if i else "x"
        for part, perm in (("q", "1,3"), ("k", "3,1"), ("v", "1,3")):
            weights.append(f"float[8,8] w{part}{i}, float[8] b{part}{i}")
            lines.append(HEADS.format(x=x, y=f"{part}{i}", perm=perm))
        norms = {"norm_a": NORM.format(x=f"sum{i}", y=f"na{i}"), "norm_b": NORM.format(x=f"total{i}", y=f"nb{i}")}
        lines.append(LAYER.format(i=i, x=x, **norms))
    return model_of(
        f"net (float[1,6,8] x) => (float[1,6,8] y) <{', '.join(weights)}> {{ {''.join(lines)} y = Neg(nb2) }}"
    )


# --- faults ------------------------------------------------------------------------------------

Replace = Callable[[Match, Rewriter], Value]


def broken(patch: pytest.MonkeyPatch, fusion: type[Fusion], source: str, replace: Replace) -> str:
    """Replaces the matches that have a node of this name otherwise."""
    right = fusion.replacement

    def replacement(self: Fusion, m: Match, rw: Rewriter) -> Value:
        has = any(source in (node.name, *node.sources) for node in m.nodes.values())
        return replace(m, rw) if has else right(self, m, rw)

    patch.setattr(fusion, "replacement", replacement)
    return fusion.switch


def wrong_epsilon_of_wide(patch: pytest.MonkeyPatch) -> str:
    """ε is too large where there are 8 channels."""
    right = affine._affine

    def wrong(node: Node, numbers: Mapping[str, Array]) -> affine.Affine:
        is_wide = "var" in numbers and numbers["var"].size == 8
        return right(node, {**numbers, "var": numbers["var"] + 0.2} if is_wide else numbers)

    patch.setattr(affine, "_affine", wrong)
    return "ConvBatchnormFusionPass"


def forgotten_residual(patch: pytest.MonkeyPatch) -> str:
    return broken(patch, ConvAdd, "a3", lambda m, rw: m.node("cube").output)


def raises(patch: pytest.MonkeyPatch) -> str:
    def wrong(m: Match, rw: Rewriter) -> Value:
        raise RuntimeError("a bug")

    return broken(patch, ConvRelu, "x2", wrong)


def wrong_epsilon_of_norm(patch: pytest.MonkeyPatch) -> str:
    def wrong(m: Match, rw: Rewriter) -> Value:
        scale = rw.const([1.0] * 8, like=m["epsilon"])
        return rw.op("LayerNormalization", m["x"], scale, axis=-1, epsilon=0.1)

    return broken(patch, LayerNorm, "na1_one", wrong)


def other_gelu(patch: pytest.MonkeyPatch) -> str:
    return broken(patch, Gelu, "act2", lambda m, rw: rw.op("Gelu", m["x"], approximate="tanh"))


def other_scale(patch: pytest.MonkeyPatch) -> str:
    def wrong(m: Match, rw: Rewriter) -> Value:
        k = rw.op("Transpose", m["k"], perm=(0, 1, 3, 2))
        return rw.op("Attention", m["q"], k, m["v"], scale=0.4)

    return broken(patch, Attention, "soft1", wrong)


def forgotten_sum(patch: pytest.MonkeyPatch) -> str:
    return broken(patch, MatMulAdd, "total0", lambda m, rw: m.node("cube").output)


FAULTS = [
    (convolutional, wrong_epsilon_of_wide),
    (convolutional, forgotten_residual),
    (convolutional, raises),
    (transformer, wrong_epsilon_of_norm),
    (transformer, other_gelu),
    (transformer, other_scale),
    (transformer, forgotten_sum),
]
QUICK = {raises}


@pytest.mark.parametrize(
    ("net", "fault"),
    [
        pytest.param(net, fault, marks=() if fault in QUICK else pytest.mark.slow, id=fault.__name__)
        for net, fault in FAULTS
    ],
)
def test_a_fault_of_some_matches_is_found_and_cut_out(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    net: Callable[[], onnx.ModelProto],
    fault: Callable[[pytest.MonkeyPatch], str],
) -> None:
    model, repro = tmp_path / "net.onnx", tmp_path / "repro"
    onnx.save(net(), model)
    assert invoke("convert", "--model", model, "-o", tmp_path / "net", "--verify").code == 0
    name = fault(monkeypatch)
    ran = invoke("passes", "bisect", model, "--reduce", "-o", repro, "--json")
    assert ran.code == 5
    found = ran.envelope["result"]
    assert found["culprit"]["name"] == name
    assert found["pass_runs"] <= 2 * log2(len(found["passes"]))
    assert found["match_runs"] <= 2 * log2(found["culprit"]["applied"])
    part = onnx.load(repro / "model.onnx")
    assert 1 <= len(part.graph.node) <= MOST_NODES
    again = ("convert", "--model", repro / "model.onnx", "-o", repro / "m", "--input_data", repro / "inputs.npz")
    assert invoke(*again, "--verify").code == (1 if fault is raises else 5)
    assert invoke(*again, "--verify", f"--skip_pass={name}").code == 0


@pytest.fixture
def cancelling(tmp_path: Path) -> Path:
    """Differences of products that hardly differ, a million times as large: any two ways of adding them up disagree."""
    weights, lines = ["float near = {1.000001}, float million = {1000000}"], ["n = Mul(x, near) s0 = MatMul(x, w0)"]
    for i in range(12):
        weights.append(f"float[1000,8] w{i}")
        lines.append(f"p{i} = MatMul(x, w{i}) q{i} = MatMul(n, w{i}) d{i} = Sub(q{i}, p{i}) e{i} = Mul(d{i}, million)")
        lines.append(f"r{i} = Relu(e{i}) s{i + 1} = Add(s{i}, r{i})")
    head = f"net (float[2,1000] x) => (float[2,8] y, float[2,1000] z) <{', '.join(weights)}>"
    onnx.save(model_of(f"{head} {{ {' '.join(lines)} y = Abs(s12) z = Neg(x) }}"), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_rounding_is_no_fault(invoke: Invoke, cancelling: Path) -> None:
    assert invoke("passes", "bisect", cancelling, "-o", cancelling.parent / "repro").code == 0


@pytest.mark.slow
def test_rounding_does_not_lead_astray(invoke: Invoke, cancelling: Path) -> None:
    """A pass whose matches have no numbers is looked for in the whole model, large parts of it without float64."""
    with registered("SilentPass"):

        @base.graph_pass("SilentPass", Phase.RECOGNISE)
        def silent(graph: Graph, record: PassRecord, options: object) -> None:
            """Lose a minus."""
            for node in graph.nodes:
                if node.op_type == "Neg":
                    graph.replace_uses(node.output, node.operand(0))
                    erase_dead(graph, [node])
                    record.applied += 1

        ran = invoke("passes", "bisect", cancelling, "--reduce", "-o", cancelling.parent / "repro", "--json")
    found = ran.envelope["result"]
    assert found["culprit"]["name"] == "SilentPass"
    assert found["repro"]["ops"] == ["Neg"]
