"""The models of the gate: `python -m tests.gate.models` runs all of them, and prints what was found as a table.

Hostile models must be refused with a documented exit code, without a crash, a hang, a traceback or a file left behind;
valid but odd ones must compute what the standard says.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.gate import graphdefs, odd_models, operators, structures
from tests.gate.cases import Case, Fault, Verdict, judge
from tests.gate.workers import Lost, call_each

SECONDS = 10.0
ODD_SECONDS = 60.0  # chains of thousands of nodes are among them
GROUPS: dict[str, Callable[[], Iterable[Case]]] = {
    "structure, types, constants, files": structures.cases,
    "operators, by their schemas": operators.cases_by_schema,
    "operators, by shapes and values": lambda: operators.cases_without_sense(list(operators.doubtful())),
    "TensorFlow": graphdefs.cases,
}


def faults_of(cases: Sequence[Case], *, seconds: float = SECONDS) -> Iterator[tuple[str, Fault, str]]:
    """Yield what is wrong with how cases end: the case, the figure it counts for, and the text. What takes longer than
    `seconds` hangs.
    """
    for case, verdict in call_each(judge, cases, seconds=seconds):
        if isinstance(verdict, Lost):
            yield case.name, Fault(verdict.value), ""
        else:
            assert isinstance(verdict, Verdict)
            for fault in verdict.faults:
                yield case.name, fault, f"exit {verdict.code}: {verdict.text}"


def odd_faults(cases: Sequence[odd_models.Odd]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the packages of valid models."""
    for case, fault in call_each(odd_models.fault_of, cases, seconds=ODD_SECONDS):
        if fault:
            yield case.name, fault.value if isinstance(fault, Lost) else fault


def main() -> int:
    """Run all, and print the figures."""
    warnings.simplefilter("ignore")
    start, counts, found, lines = time.perf_counter(), Counter[str](), Counter[Fault](), list[str]()
    for group, make in GROUPS.items():
        cases = list(make())
        counts[group] = len(cases)
        for name, fault, text in faults_of(cases):
            found[fault] += 1
            lines.append(f"{fault.value}: {name}: {text[:300]}")
    odd = list(odd_models.cases())
    refused = list(odd_faults(odd))
    lines += [f"valid: {name}: {why}" for name, why in refused]
    print("\n".join(lines))
    print("| hostile models | cases |\n| --- | ---: |")
    print("\n".join(f"| {group} | {count} |" for group, count in counts.items()))
    print(f"| all | {counts.total()} |\n\n| figure | found |\n| --- | ---: |")
    print("\n".join(f"| {fault.value} | {found[fault]} |" for fault in Fault))
    print(f"| valid but odd models refused or wrong, of {len(odd)} | {len(refused)} |")
    seconds = time.perf_counter() - start
    print(f"\n{counts.total()} hostile models, {len(odd)} odd ones, {len(lines)} findings, {seconds:.0f} s")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
