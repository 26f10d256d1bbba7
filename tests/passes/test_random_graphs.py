"""Laws of the whole pipeline on random networks, whatever the passes do to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy import InferenceSession
from atcpy.ir import CompiledModel, Engine, Format, Reject
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.ops import find_opdef
from atcpy.options import convert_options
from atcpy.passes.pass_set import built_in_passes
from atcpy.stages.pipeline import compile_model
from atcpy.verify.float64 import evaluate_in_float64, is_as_accurate
from tests.effort import trials
from tests.ort import open_ort
from tests.random_models import cnn_models

OPTIONAL = [entry.name for entry in built_in_passes() if not entry.required]


def compiled(model: onnx.ModelProto, **options: object) -> CompiledModel:
    """The model compiled, its graph verified after each pass."""
    return compile_model(model, convert_options({**options, "debug": True}))[0]


def feeds_of(model: onnx.ModelProto) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        value.name: rng.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }


def expected(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime gives; its own fusions are off: that of Pad into a pool refuses some models."""
    session = open_ort(model)
    results: list[Array] = session.run(None, dict(feeds))
    return results


def check_results(
    model: onnx.ModelProto, package: CompiledModel, feeds: Mapping[str, Array], expected_arrays: list[Array]
) -> None:
    """Some models magnify rounding: where the two differ, float64 decides."""
    session = InferenceSession(writer.to_bytes(package), threads=1)
    names = [info.name for info in model.graph.output]
    for name, ours, theirs in zip(names, session.run(None, dict(feeds)), expected_arrays, strict=True):
        assert ours.shape == theirs.shape
        # Values inside are around one: a few results near zero are what cancellation left of them.
        atol = 1e-5 * max(float(np.abs(theirs).max(initial=0)), 0.3)
        if not np.allclose(ours, theirs, rtol=0, atol=atol, equal_nan=True):
            exact = evaluate_in_float64(model, feeds)
            assert exact is not None
            assert is_as_accurate(ours, [theirs], exact[name], atol), f"{name}: {np.abs(ours - theirs).max()} > {atol}"


@settings(max_examples=trials(150))
@given(model=cnn_models())
def test_results_are_those_of_onnx_runtime(model: onnx.ModelProto) -> None:
    feeds = feeds_of(model)
    package = compiled(model)
    check_results(model, package, feeds, expected(model, feeds))
    check_formats(package)


def check_formats(package: CompiledModel) -> None:
    """No format is changed and changed back, none twice, and every node gets those that its record asks for."""
    changed: set[tuple[object, Format]] = set()
    for node in package.graph.nodes:
        if node.op_type == "TransData":
            source, form = node.operand(0), node.output.desc.format
            assert source.producer.op_type != "TransData"
            assert source.desc.format != form
            assert (source, form) not in changed
            changed.add((source, form))
            continue
        opdef = find_opdef(node)
        if node.op_type in {"ReFormat", "GraphKernel"}:  # made when formats had been chosen
            continue
        if opdef is None or opdef.layout is None or node.engine is Engine.HOST_CPU:
            assert all(value.desc.storage_shape is None for value in node.operands)
            continue
        have = tuple(value.desc.format for value in node.operands if value.tensor is None)
        layout = opdef.layout(node, tuple(value.desc.format for value in node.operands))
        if isinstance(layout, Reject):
            assert all(form.is_plain for form in have), f"{node.name}: {layout}"
            continue
        for input_index, value in enumerate(node.inputs):
            required = layout.inputs[input_index] if input_index < len(layout.inputs) else None
            if value is not None and value.tensor is None:
                assert value.desc.format == (required or value.desc.origin_format), f"{node.name}: input {input_index}"


@settings(max_examples=trials(120))
@given(model=cnn_models(), data=st.data())
def test_no_pass_is_needed_for_the_result(model: onnx.ModelProto, data: st.DataObject) -> None:
    """Skip one of the passes that change the graph; the golden files do so for every pass."""
    applied = {record.name for record in compiled(model).graph.decisions.passes if record.applied}
    name = data.draw(st.sampled_from([name for name in OPTIONAL if name in applied] or OPTIONAL))
    package = compiled(model, skip_pass=name)
    assert name not in {record.name for record in package.graph.decisions.passes}
    feeds = feeds_of(model)
    check_results(model, package, feeds, expected(model, feeds))


@pytest.mark.parametrize("level", ["O0", "O1"])
@settings(max_examples=trials(20))
@given(model=cnn_models())
def test_no_level_changes_the_result(level: str, model: onnx.ModelProto) -> None:
    feeds = feeds_of(model)
    check_results(model, compiled(model, oo_level=level), feeds, expected(model, feeds))


@settings(max_examples=trials(60))
@given(model=cnn_models())
def test_each_source_node_runs_somewhere_or_has_a_reason_not_to(model: onnx.ModelProto) -> None:
    package = compiled(model)
    nodes = [node for node in package.graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]
    ran = Counter(source for node in nodes for source in node.sources)
    removed = package.graph.decisions.removed
    assert {node.name for node in model.graph.node} == ran.keys() | removed.keys()
    assert ran.keys() & removed.keys() == set()
    # What a pass writes anew may be several nodes, which all stand for what was there.
    twice = {source for source, count in ran.items() if count > 1}
    assert [node for node in nodes if not node.passes and not twice.isdisjoint(node.sources)] == []
