"""No pass is needed for the result: models that a pass changes are right without it, too.

The models are those of the golden files in which the pass applies.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from atcpy.om import writer
from atcpy.passes.pass_set import built_in_passes
from tests.golden.golden import FILES, compile_text, decision_lines, read_golden
from tests.golden.numbers import check_numbers

GOLDENS = {path.stem: read_golden(path) for path in FILES}
OPTIONAL = [entry.name for entry in built_in_passes() if not entry.required]


def applied(name: str) -> list[str]:
    """Return the golden files in which a pass changes the graph, that of the smallest model first."""
    line = re.compile(rf"{re.escape(name)} .*applied [1-9]")
    found = [stem for stem, golden in GOLDENS.items() if any(map(line.match, decision_lines(golden)))]
    return sorted(found, key=lambda stem: len(GOLDENS[stem].model_text))


LARGE_MODEL = 1900  # characters


def is_small(stem: str) -> bool:
    return len(GOLDENS[stem].model_text) <= LARGE_MODEL


# One file a pass is quick, unless even the smallest is large.
QUICK = [(name, stems[0]) for name in OPTIONAL if (stems := applied(name)) and is_small(stems[0])]
OTHERS = [(name, stem) for name in OPTIONAL for stem in applied(name) if (name, stem) not in QUICK]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS)]


_MODES = {"precision_mode", "precision_mode_v2"}


@pytest.mark.parametrize(("name", "stem"), CASES)
def test_results_are_right_without_a_pass_that_applies(name: str, stem: str) -> None:
    golden = GOLDENS[stem]
    skipped = ",".join(filter(None, [golden.options.get("skip_pass"), name]))
    model, compiled, _ = compile_text(replace(golden, options={**golden.options, "skip_pass": skipped}))
    assert compiled is not None
    assert name not in {record.name for record in compiled.graph.decisions.passes}
    in_halves = ["float16"] if name == "InsertCastPass" or golden.options.keys() & _MODES else []
    check_numbers(
        model,
        writer.to_bytes(compiled),
        golden.oracle,
        halves=frozenset({*compiled.graph.decisions.precision.outputs.values(), *in_halves}),
    )
