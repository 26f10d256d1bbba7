"""Which passes can be left out, and what is said of the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from atcpy.errors import UsageError
from atcpy.ir import Graph, PassRecord, Reject
from atcpy.options import Deadline, FusionGroup, OoLevel, PassSwitches, PrepareOptions, Stage, convert_options
from atcpy.passes import base
from atcpy.passes.base import Pass, check_switches, passes_of
from atcpy.stages.pipeline import compile_model
from atcpy.stages.prepare import prepare
from tests.models_in_text import model, package

MODEL = "m (float[1,3,8,8] x) => (float[1,3,8,8] y) { a = Identity(x) y = Relu(a) }"
REQUIRED = [entry.name for stage in Stage for entry in passes_of(stage) if entry.required]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_pass_that_the_result_needs_cannot_be_left_out(name: str) -> None:
    for options in ({"skip_pass": name}, {"optimization_switch": f"{name}:off"}):
        with pytest.raises(UsageError) as raised:
            package(MODEL, options)
        assert (raised.value.code, name in raised.value.what) == ("E10001", True)


def test_a_mistyped_pass_is_named_with_its_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        package(MODEL, {"skip_pass": "IdentityPas"})
    assert raised.value.code == "E10016"
    assert "IdentityPass" in raised.value.hint


def test_a_switch_file_may_name_passes_that_we_do_not_have() -> None:
    check_switches(PassSwitches(named={"TbeMultiOutputFusionPass": False}), ())


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (PrepareOptions(), {"required", "folding", "fusions"}),
        (PrepareOptions(level=OoLevel.O1), {"required", "folding"}),
        (PrepareOptions(level=OoLevel.O0), {"required"}),
        (PrepareOptions(switches=PassSwitches(groups={FusionGroup.GRAPH: False})), {"required"}),
    ],
    ids=["O3", "O1", "O0", "ALL:off"],
)
def test_levels_and_switches_choose_what_runs(options: PrepareOptions, ran: set[str]) -> None:
    graph = Graph("empty")
    graph.append("NetOutput", (), name="out", outputs=())
    prepare(graph, options, deadline=Deadline())
    kinds = {"ConstantFoldingPass": "required", "IdentityPass": "folding", "ConvBatchnormFusionPass": "fusions"}
    assert {kinds[record.name] for record in graph.decisions.passes if record.name in kinds} == ran


class _Counter:
    """A pass that applies as often as it is told to, and counts its runs."""

    def __init__(self, *applies: int, rejects: int = 0) -> None:
        self.applies, self.rejects, self.runs = applies, rejects, 0

    def run(self, graph: Graph, record: PassRecord, options: object) -> None:
        applied = self.applies[self.runs] if self.runs < len(self.applies) else 0
        self.runs += 1
        record.matched += applied + self.rejects
        record.applied += applied
        record.reject(*[Reject("rank", f"n{index}") for index in range(self.rejects)])


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty registry for one test."""
    monkeypatch.setattr(base, "_REGISTRY", {})
    passes_of.cache_clear()
    yield
    passes_of.cache_clear()


def _run(*passes: Pass) -> Graph:
    graph = Graph("empty")
    base.run_passes(Stage.PREPARE, graph, PrepareOptions(), deadline=Deadline(), verify_ir=False, first=passes)
    return graph


@pytest.mark.usefixtures("registry")
def test_a_clean_up_runs_again_only_where_another_pass_changed_the_graph() -> None:
    clean, rewrite = _Counter(1, 2, rejects=3), _Counter(1)
    graph = _run(
        Pass(name="Clean", stage=Stage.PREPARE, run=clean.run, repeats=True),
        Pass(name="Rewrite", stage=Stage.PREPARE, run=rewrite.run),
    )
    assert (clean.runs, rewrite.runs) == (2, 1)
    assert graph.decisions.counts() == [("Clean", 6, 3), ("Rewrite", 1, 1)]
    assert len(graph.decisions.passes[0].rejects) == 3


@pytest.mark.usefixtures("registry")
def test_clean_ups_that_never_end_are_stopped() -> None:
    one, other = _Counter(*[1] * 99), _Counter(*[1] * 99)
    _run(
        Pass(name="One", stage=Stage.PREPARE, run=one.run, repeats=True),
        Pass(name="Other", stage=Stage.PREPARE, run=other.run, repeats=True),
    )
    assert (one.runs, other.runs) == (base.MAX_ROUNDS, base.MAX_ROUNDS)


@pytest.mark.usefixtures("registry")
def test_before_and_after_order_passes() -> None:
    idle = _Counter()
    passes = (
        Pass(name="A", stage=Stage.PREPARE, run=idle.run, after=("C",)),
        Pass(name="B", stage=Stage.PREPARE, run=idle.run, before=("C",)),
        Pass(name="C", stage=Stage.PREPARE, run=idle.run),
    )
    assert [entry.name for entry in passes_of(Stage.PREPARE, passes)] == ["B", "C", "A"]


def test_a_switch_of_an_unknown_pass_is_a_warning_with_the_nearest() -> None:
    warnings = check_switches(PassSwitches(named={"IdentityPas": False, "TbeMultiOutputFusionPass": True}), ())
    assert [warning.code for warning in warnings] == ["W0013", "W0013"]
    assert '"IdentityPass"' in warnings[0].message


def test_priorities_have_no_effect_but_a_warning() -> None:
    warnings = check_switches(PassSwitches(priorities={"SoftmaxFusionPass": 7, "IdentityPas": 1000}), ())
    assert [warning.code for warning in warnings] == ["W0013", "W0012"]
    assert "SoftmaxFusionPass" in warnings[1].message


def test_a_limit_stops_a_pass_after_so_many_matches() -> None:
    text = "m (float[2] x) => (float[2] y) { a = Identity(x) b = Identity(a) c = Identity(b) y = Relu(c) }"
    _, report = compile_model(model(text), convert_options({"pass_limit": "IdentityPass:2"}))
    applied = {entry.name: entry.applied for entry in report.passes}
    assert applied["IdentityPass"] == 2
    assert report.warnings == ()
    assert "pass_limit=IdentityPass:2" in convert_options({"pass_limit": "IdentityPass:2"}).atc_cmdline
    with pytest.raises(UsageError):
        compile_model(model(text), convert_options({"pass_limit": "IdentityPas:2"}))
