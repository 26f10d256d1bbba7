import pytest

from atcpy.verify.selftest import CASES, CaseReport, build, run_cases, untested_families


def test_each_case_is_a_model_with_its_constants() -> None:
    for number, text in enumerate(CASES):
        model = build(text, seed=number)
        made = {name for node in model.graph.node for name in node.output}
        known = {value.name for value in (*model.graph.input, *model.graph.initializer)} | made | {""}
        assert all(name in known for node in model.graph.node for name in node.input), text


REPORTS = list(run_cases())


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.ops)
def test_each_case_computes_what_the_standard_says(report: CaseReport) -> None:
    assert report.problem == ""


def test_each_kernel_family_has_a_case() -> None:
    assert untested_families(REPORTS) == []


def test_a_family_without_a_case_is_named() -> None:
    assert "matmul" in untested_families([])
    assert "matmul" not in untested_families([CaseReport("MatMul", ("matmul",), 0.0, "")])
