"""The stages together: what an observer sees, what the report says at the end, what reaches the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import pytest

from atcpy.errors import AtcError
from atcpy.ir import CompiledModel, Graph
from atcpy.ir.decisions import Moment
from atcpy.om import writer
from atcpy.om.reader import parse_package, read_model
from atcpy.options import Stage, convert_options
from atcpy.passes.prepare.fold import contrib
from atcpy.stages.pipeline import Observer, compile_model, convert
from atcpy.stages.report import ConvertReport
from tests.models_in_text import model

DIGITS = Path(__file__).parent.parent.parent / "models" / "digits" / "digits.onnx"
BLOCK = """
block (float[1,32,8,8] x) => (float[1,32,8,8] y, float[1,32] p)
<float[32,32,3,3] w1, float[32,32,1,1] w2, float[32] gamma, float[32] beta, float[32] mean, float[32] var,
 int64[2] axes = {2, 3}> {
  a = Conv<pads = [1,1,1,1]>(x, w1)
  n = BatchNormalization(a, gamma, beta, mean, var)
  b = Relu(n)
  i = Identity(b)
  c = Conv(i, w2)
  d = Add(c, x)
  unused = Sigmoid(d)
  y = Relu(d)
  g = GlobalAveragePool(y)
  p = Squeeze(g, axes)
}
"""
SPEC = [Stage.PARSE, Stage.PREPARE, Stage.SPLIT, Stage.OPTIMIZE, Stage.COMPILE]


def models() -> dict[str, onnx.ModelProto]:
    return {"digits": onnx.load(DIGITS), "block": model(BLOCK)}


@pytest.fixture(scope="module", params=["digits", "block"])
def converted(request: pytest.FixtureRequest) -> tuple[onnx.ModelProto, CompiledModel, ConvertReport]:
    source = models()[request.param]
    return source, *compile_model(source, convert_options({"debug": True}))


Converted = tuple[onnx.ModelProto, CompiledModel, ConvertReport]


def work(graph: Graph) -> list[tuple[str, ...]]:
    """The sources of the nodes that do something."""
    return [node.sources for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]


def test_each_source_node_is_in_one_node_or_gone_for_a_reason(converted: Converted) -> None:
    source, compiled, _ = converted
    count = Counter(name for sources in work(compiled.graph) for name in sources)
    removed = compiled.graph.decisions.removed
    assert set(count.values()) == {1}
    assert count.keys() & removed.keys() == set()
    names = {node.name or node.output[0] for node in source.graph.node}
    assert count.keys() | removed.keys() == names


def test_the_residual_block_becomes_two_convs() -> None:
    compiled, _ = compile_model(model(BLOCK), convert_options({}))
    fused = {sources for sources in work(compiled.graph) if len(sources) > 1}
    assert {frozenset(sources) for sources in fused} == {frozenset("anb"), frozenset("cdy")}
    assert compiled.graph.decisions.removed == {"i": "identity", "unused": "dead"}


MOVES = """
moves (float[2,3,4] x) => (float[2,3,4] a, float[2,3,4] b) <int64[2] flat = {6, 4}, int64[3] back = {2, 3, 4}> {
  t = Transpose<perm = [0,2,1]>(x)
  u = Transpose<perm = [0,2,1]>(t)
  f = Reshape(x, flat)
  r = Reshape(f, back)
  a = Exp(u)
  e = Exp(r)
  s = Sin(e)
  again = Sin(e)
  b = Add(s, again)
}
"""


def test_moves_that_cancel_name_the_pass_that_removed_them_and_what_is_merged_stays() -> None:
    compiled, _ = compile_model(model(MOVES), convert_options({}))
    assert compiled.graph.decisions.removed == dict.fromkeys("turf", "replaced by TransposeReshapeMergePass")
    assert {source for sources in work(compiled.graph) for source in sources} == {"a", "e", "s", "again", "b"}


def test_provenance_and_decisions_reach_the_package(converted: Converted) -> None:
    _, compiled, _ = converted
    found = read_model(parse_package(writer.to_bytes(compiled)))
    assert work(found.graph) == work(compiled.graph)
    mine, theirs = compiled.graph.decisions, found.graph.decisions
    assert theirs.removed == mine.removed
    assert theirs.counts() == mine.counts()
    assert [record.rejects for record in theirs.passes] == [record.rejects for record in mine.passes]


def test_the_report_tells_what_was_made(converted: Converted) -> None:
    source, compiled, report = converted
    assert report.nodes_before == len(source.graph.node)
    assert report.task_count == len(compiled.tasks)
    assert [(item.name, item.matched, item.applied) for item in report.passes] == compiled.graph.decisions.counts()
    assert report.engines["HOST_CPU"] == 0 and report.host_cpu_ops == ()
    assert sum(report.engines.values()) == len(work(compiled.graph))
    assert [port.name for port in report.inputs] == [value.name for value in source.graph.input]
    assert [port.name for port in report.outputs] == [value.name for value in source.graph.output]
    assert 0 < report.memory.lower_bound <= report.memory.arena <= report.memory.unshared
    assert report.memory.weights == sum({weight.offset: weight.nbytes for weight in compiled.weights}.values())
    assert [entry.name for entry in report.stages] == [stage.value for stage in SPEC]
    left = sum(1 for node in compiled.graph.nodes if node.op_type == "TransData")
    assert report.transdata.inserted - report.transdata.cancelled == left
    assert (report.output, report.bytes, report.sha256) == (None, 0, "")


def test_the_report_of_a_file_names_it(tmp_path: Path) -> None:
    report = convert(model(BLOCK), tmp_path / "m.om", convert_options({}))
    assert report.output == str(tmp_path / "m.om")
    assert report.bytes == (tmp_path / "m.om").stat().st_size
    assert [entry.name for entry in report.stages][-1] == "write"


@dataclass
class Recorder(Observer):
    """Records the calls of an observer."""

    calls: list[tuple[str, Stage]] = field(default_factory=list)
    graphs: dict[Stage, int] = field(default_factory=dict)
    passes: list[tuple[str, Moment]] = field(default_factory=list)

    def stage(self, stage: Stage) -> None:
        self.calls.append(("begins", stage))

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        assert seconds >= 0
        self.calls.append(("done", stage))
        self.graphs[stage] = len(graphs)

    def passing(self, name: str, graph: Graph, moment: Moment) -> None:
        self.passes.append((name, moment))


def test_an_observer_sees_each_stage_begin_and_end_in_order() -> None:
    recorder = Recorder()
    compile_model(model(BLOCK), convert_options({}), recorder)
    assert recorder.calls == [(what, stage) for stage in SPEC for what in ("begins", "done")]
    assert {stage: count for stage, count in recorder.graphs.items() if count != 1}.keys() == {Stage.SPLIT}


def test_an_observer_sees_each_pass_before_and_after() -> None:
    recorder = Recorder()
    compiled, _ = compile_model(model(BLOCK), convert_options({}), recorder)
    assert [moment for _, moment in recorder.passes[:4]] == [Moment.BEFORE, Moment.AFTER] * 2
    names = [name for name, _ in recorder.passes]
    assert names[::2] == names[1::2]
    recorded = {record.name for record in compiled.graph.decisions.passes}
    assert set(names) == recorded - {contrib.NAME}  # which inference runs, node by node


def test_a_stage_that_fails_is_not_done() -> None:
    recorder = Recorder()
    broken = "m (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }"
    with pytest.raises(AtcError):
        compile_model(model(broken), convert_options({}), recorder)
    assert recorder.calls[-1] == ("begins", Stage.PARSE)
