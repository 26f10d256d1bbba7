"""BatchNormalization behind a Conv: weights of 16 and of 32 bits take it in under the same requirements."""

from __future__ import annotations

import pytest

from atcpy.ir import CompiledModel, PassRecord
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions, convert_options
from atcpy.passes.prepare.affine.product_output import ConvBatchnorm
from atcpy.passes.split.conv_scale import ConvScale
from atcpy.stages.parse import parse
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

EPSILON = 3.0517578125e-05
PASSES = {"float16": "ConvScaleFusionPass", "float": "ConvBatchnormFusionPass"}
BOTH = pytest.mark.parametrize("weights", PASSES)


def net(
    weights: str, *, gamma: str = "2, 3", beta: str = "1, -1", var: str = "1, 4", bias: str = "", extra: str = ""
) -> CompiledModel:
    """A BatchNormalization with statistics of float32 behind a Conv with weights of some type."""
    outputs = f"{weights}[1,2,4,4] y" + (f", {weights}[1,2,4,4] z" if extra else "")
    statistics = f"float[2] s = {{{gamma}}}, float[2] h = {{{beta}}}, float[2] m = {{3, 5}}, float[2] v = {{{var}}}"
    return compile_model(
        model(
            f"net ({weights}[1,3,4,4] x) => ({outputs}) <{weights}[2,3,1,1] w, {weights}[2] b, {statistics}> {{"
            f"c = Conv(x, w{bias})  y = BatchNormalization<epsilon = {EPSILON}>(c, s, h, m, v)  {extra} }}"
        ),
        convert_options({"debug": True}),
    )[0]


def outcome(package: CompiledModel, weights: str) -> tuple[int, list[str]]:
    """How often the pass for these weights applied, and its reasons against the rest."""
    (record,) = (record for record in package.graph.decisions.passes if record.name == PASSES[weights])
    return record.applied, [reject.reason for reject in record.rejects]


@BOTH
@pytest.mark.parametrize("bias", ["", ", b"])
def test_statistics_of_every_finite_number_are_taken_in(weights: str, bias: str) -> None:
    package = net(weights, var="0, 4", bias=bias)
    assert outcome(package, weights) == (1, [])
    assert not any(node.op_type == "BatchNormalization" for node in package.graph.nodes)


@BOTH
@pytest.mark.parametrize(
    "numbers",
    [{"var": f"1, -{EPSILON}"}, {"var": "1, -1"}, {"gamma": "nan, 3"}, {"beta": "1, inf"}],
    ids=["factor-infinite", "factor-nan", "gamma-nan", "term-infinite"],
)
def test_a_factor_or_a_term_that_is_not_finite_stays(weights: str, numbers: dict[str, str]) -> None:
    applied, reasons = outcome(net(weights, **numbers), weights)
    assert applied == 0
    assert "other-constant" in reasons


@BOTH
def test_a_conv_that_others_read_stays(weights: str) -> None:
    applied, reasons = outcome(net(weights, extra="z = Sin(c)"), weights)
    assert applied == 0
    assert "second-consumer" in reasons


@BOTH
@pytest.mark.parametrize(
    ("attrs", "results"), [("", "y"), (", training_mode = 0", "y"), (", training_mode = 1", "y, n, u")]
)
def test_a_normalization_that_trains_stays(weights: str, attrs: str, results: str) -> None:
    constants = f"<{weights}[2,3,1,1] w, float[2] s, float[2] h, float[2] m, float[2] v = {{1, 4}}>"
    norm = f"{results} = BatchNormalization<epsilon = 0.5{attrs}>(c, s, h, m, v)"
    source = model(f"net ({weights}[1,3,4,4] x) => ({weights}[1,2,4,4] y) {constants} {{ c = Conv(x, w)  {norm} }}")
    graph = parse(source, ParseOptions(), CustomOps()).graph
    record, fusion = PassRecord("", ""), {"float16": ConvScale, "float": ConvBatchnorm}[weights]()
    fusion.run(graph, record, convert_options({}).prepare)
    assert ("training-mode" in [reject.reason for reject in record.rejects]) == ("1" in attrs)
    assert record.matched == 1


def test_weights_of_32_bits_take_the_factor_in_themselves() -> None:
    (record,) = (record for record in net("float").graph.decisions.passes if record.name == "ConvScaleFusionPass")
    assert (record.matched, record.applied) == (0, 0)
