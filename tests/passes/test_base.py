"""Which passes can be left out, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atcpy.errors import InternalError, UsageError
from atcpy.ir import DType, Graph, PassRecord, Reject, Sym, TensorDesc
from atcpy.ir.decisions import Moment
from atcpy.ops.custom import CustomOps
from atcpy.options import (
    ConvertOptions,
    FusionGroup,
    OoLevel,
    ParseOptions,
    PassSwitches,
    PrepareOptions,
    convert_options,
)
from atcpy.passes import pass_manager
from atcpy.passes.base import Pass
from atcpy.passes.pass_manager import MAX_ROUNDS, PassManager
from atcpy.passes.pass_set import PassSet, built_in_passes
from atcpy.passes.phase import Phase
from atcpy.stages.parse import parse
from atcpy.stages.pipeline import compile_model
from atcpy.stages.prepare import prepare
from tests.models_in_text import model, package

MODEL = "m (float[1,3,8,8] x) => (float[1,3,8,8] y) { a = Identity(x) y = Relu(a) }"
REQUIRED = [entry.name for entry in built_in_passes() if entry.required]


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
    built_in_passes().check_switches(PassSwitches(named={"TbeMultiOutputFusionPass": False}), ())


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
    prepare(graph, PassManager(ConvertOptions(prepare=options)))
    kinds = {"ConstantFoldingPass": "required", "IdentityPass": "folding", "ConvBatchnormFusionPass": "fusions"}
    assert {kinds[record.name] for record in graph.decisions.passes if record.name in kinds} == ran


class _Counter:
    """A pass that applies as often as the test says, and counts its runs."""

    def __init__(self, *applies: int, rejects: int = 0) -> None:
        self.applies, self.rejects, self.runs = applies, rejects, 0

    def run(self, graph: Graph, record: PassRecord, options: object) -> None:
        applied = self.applies[self.runs] if self.runs < len(self.applies) else 0
        self.runs += 1
        record.matched += applied + self.rejects
        record.applied += applied
        record.reject(*[Reject("rank", f"n{index}") for index in range(self.rejects)])


def _run(*passes: Pass) -> Graph:
    graph = Graph("empty")
    PassManager(passes=PassSet.of(passes)).run(graph, Phase.MOVE)
    return graph


def test_a_clean_up_runs_again_only_where_another_pass_changed_the_graph() -> None:
    clean, rewrite = _Counter(1, 2, rejects=3), _Counter(1)
    graph = _run(
        Pass(name="Clean", phase=Phase.MOVE, run=clean.run, repeats=True),
        Pass(name="Rewrite", phase=Phase.MOVE, run=rewrite.run),
    )
    assert (clean.runs, rewrite.runs) == (2, 1)
    assert graph.decisions.counts() == [("Clean", 6, 3), ("Rewrite", 1, 1)]
    assert len(graph.decisions.passes[0].rejects) == 3


def test_clean_ups_that_never_end_are_stopped() -> None:
    one, other = _Counter(*[1] * 99), _Counter(*[1] * 99)
    _run(
        Pass(name="One", phase=Phase.MOVE, run=one.run, repeats=True),
        Pass(name="Other", phase=Phase.MOVE, run=other.run, repeats=True),
    )
    assert (one.runs, other.runs) == (MAX_ROUNDS, MAX_ROUNDS)


def test_only_the_passes_of_the_phases_that_are_asked_for_run() -> None:
    asked, other = _Counter(), _Counter()
    _run(Pass(name="Asked", phase=Phase.MOVE, run=asked.run), Pass(name="Other", phase=Phase.COMPACT, run=other.run))
    assert (asked.runs, other.runs) == (1, 0)


@pytest.mark.parametrize(
    ("verify_ir", "watched"), [(True, ["before", "after", "verified"]), (False, ["before", "after"])]
)
def test_a_pass_is_observed_and_verified(monkeypatch: pytest.MonkeyPatch, verify_ir: bool, watched: list[str]) -> None:
    seen: list[str] = []
    monkeypatch.setattr(pass_manager, "verify", lambda graph, name: seen.append("verified"))
    passes = PassSet.of([Pass(name="A", phase=Phase.MOVE, run=_Counter().run)])

    def observe(name: str, graph: Graph, moment: Moment) -> None:
        seen.append(moment.value)

    PassManager(ConvertOptions(verify_ir=verify_ir), passes, observe=observe).run(Graph("empty"), Phase.MOVE)
    assert seen == watched


def _retype(value: str, to: TensorDesc) -> Callable[..., None]:
    """A pass that gives a value another type."""

    def run(graph: Graph, record: PassRecord, options: object) -> None:
        next(node for node in graph.nodes if node.op_type == value).output.desc = to

    return run


@pytest.mark.parametrize(
    ("desc", "problem"),
    [
        (TensorDesc.plain(DType.FLOAT32, (Sym("n"), 3)), ""),
        (TensorDesc.plain(DType.FLOAT32, (2, 3)), ""),
        (TensorDesc.plain(DType.FLOAT32, (2, 4)), "Relu y gives"),
        (TensorDesc.plain(DType.FLOAT32, (2,)), "Relu y gives"),
        (TensorDesc.plain(DType.FLOAT64, (2, 3)), "Relu y gives"),
    ],
)
def test_a_pass_that_breaks_a_type_is_named(desc: TensorDesc, problem: str) -> None:
    graph = parse(model("m (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"), ParseOptions(), CustomOps()).graph
    passes = PassSet.of([Pass(name="A", phase=Phase.MOVE, run=_retype("Relu", desc))])
    manager = PassManager(ConvertOptions(verify_ir=True), passes)
    if problem:
        with pytest.raises(InternalError, match=f"pass A broke a type: {problem}"):
            manager.run(graph, Phase.MOVE)
    else:
        manager.run(graph, Phase.MOVE)


def test_a_pass_that_breaks_a_type_by_an_attribute_is_named_and_none_before() -> None:
    text = "m (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1, 0]> (x) }"
    graph = parse(model(text), ParseOptions(), CustomOps()).graph

    def run(graph: Graph, record: PassRecord, options: object) -> None:
        next(node for node in graph.nodes if node.op_type == "Transpose").attrs["perm"] = (0, 1)

    passes = PassSet.of(
        [Pass(name="A", phase=Phase.MOVE, run=_Counter().run), Pass(name="B", phase=Phase.MOVE, run=run)]
    )
    with pytest.raises(InternalError, match="pass B broke a type: Transpose y gives"):
        PassManager(ConvertOptions(verify_ir=True), passes).run(graph, Phase.MOVE)


def test_a_pass_is_not_blamed_for_a_type_that_was_broken_before() -> None:
    graph = parse(model("m (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"), ParseOptions(), CustomOps()).graph
    _retype("Relu", TensorDesc.plain(DType.FLOAT64, (2, 3)))(graph, None, None)
    passes = PassSet.of([Pass(name="A", phase=Phase.MOVE, run=_Counter().run)])
    PassManager(ConvertOptions(verify_ir=True), passes).run(graph, Phase.MOVE)


def _order(*passes: Pass) -> list[str]:
    return [entry.name for entry in PassSet.of(passes)]


def _declared(name: str, phase: Phase = Phase.MOVE, **declared: tuple[str, ...]) -> Pass:
    return Pass(name=name, phase=phase, run=_Counter().run, **declared)  # type: ignore[arg-type]


def test_before_and_after_order_passes_of_one_phase() -> None:
    assert _order(_declared("A", after=("C",)), _declared("B", before=("C",)), _declared("C")) == ["B", "C", "A"]


def test_phases_come_before_names() -> None:
    assert _order(_declared("A", Phase.FINISH), _declared("B"), _declared("C", Phase.INFER)) == ["C", "B", "A"]


@pytest.mark.parametrize("field", ["after", "before"])
def test_an_order_relative_to_an_unknown_pass_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match=rf"{field} names Foldd, which is no pass") as raised:
        _order(_declared("Fold"), _declared("Late", **{field: ("Foldd",)}))
    assert (raised.value.code, "Fold" in raised.value.hint) == ("E13030", True)


@pytest.mark.parametrize("field", ["after", "before"])
def test_an_order_relative_to_a_pass_of_another_phase_is_refused(field: str) -> None:
    declared = _declared("Late", **{field: ("Fold",)})
    with pytest.raises(UsageError, match=rf"{field} names Fold, whose phase is INFER, not MOVE") as raised:
        _order(_declared("Fold", Phase.INFER), declared)
    assert raised.value.code == "E13030"
    assert set(_order(_declared("Fold"), declared)) == {"Fold", "Late"}


def test_two_passes_of_one_name_and_cycles_are_refused() -> None:
    with pytest.raises(UsageError, match="the pass A is registered twice"):
        _order(_declared("A"), _declared("A", Phase.FINISH))
    with pytest.raises(UsageError, match="A, B is a cycle"):
        _order(_declared("A", after=("B",)), _declared("B", after=("A",)))


def test_the_family_of_a_pass_is_its_folder() -> None:
    families = {entry.name: entry.family for entry in built_in_passes()}
    assert families["ConvMulFusionPass"] == "affine"
    assert families["ConstantFoldingPass"] == "fold"
    assert families["EnginePlacerPass"] == ""


def test_a_switch_of_an_unknown_pass_is_a_warning_with_the_nearest() -> None:
    warnings = built_in_passes().check_switches(
        PassSwitches(named={"IdentityPas": False, "TbeMultiOutputFusionPass": True}), ()
    )
    assert [warning.code for warning in warnings] == ["W0013", "W0013"]
    assert '"IdentityPass"' in warnings[0].message


def test_priorities_have_no_effect_but_a_warning() -> None:
    warnings = built_in_passes().check_switches(
        PassSwitches(priorities={"SoftmaxFusionPass": 7, "IdentityPas": 1000}), ()
    )
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
