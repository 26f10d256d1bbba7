"""Which passes can be left out, and what is said of the others."""

from __future__ import annotations

import pytest

from atcpy.errors import UsageError
from atcpy.ir import Graph
from atcpy.options import Deadline, FusionGroup, OoLevel, PassSwitches, PrepareOptions, Stage
from atcpy.passes.base import check_switches, passes_of
from atcpy.stages.prepare import prepare
from tests.models_in_text import package

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
