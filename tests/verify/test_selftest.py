import pytest

from atcpy.verify.selftest import CASES, CaseReport, build, run_cases, untested_families


def test_each_case_is_a_closed_model() -> None:
    for number, text in enumerate(CASES):
        model = build(text, seed=number)
        computed = {name for node in model.graph.node for name in node.output}
        known = {value.name for value in (*model.graph.input, *model.graph.initializer)} | computed | {""}
        assert all(name in known for node in model.graph.node for name in node.input), text


@pytest.fixture(scope="module")
def reports() -> list[CaseReport]:
    return list(run_cases())


@pytest.mark.parametrize("number", range(len(CASES) + 2))
def test_each_case_agrees_with_the_standard(number: int, reports: list[CaseReport]) -> None:
    """The last two, a program of graph kernel and pictures, have no model text."""
    assert len(reports) == len(CASES) + 2
    assert reports[number].problem == "", reports[number].ops


def test_each_kernel_family_has_a_case(reports: list[CaseReport]) -> None:
    assert untested_families(reports) == []


def test_a_family_without_a_case_is_reported() -> None:
    assert "matmul" in untested_families([])
    assert "matmul" not in untested_families([CaseReport("MatMul", ("matmul",), 0.0, "")])
