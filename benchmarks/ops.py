"""Times every operator against ONNX Runtime: models of one node, at three sizes, with one thread.

python benchmarks/ops.py --json ops.json                    # all cases: about 40 minutes
python benchmarks/ops.py "Conv 3d" GridSample --sizes large  # the cases whose names begin so
python benchmarks/ops.py --from ops.json --page docs/operator-speed.md
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import onnx
import typer
from feeds import Array, relative_error
from onnx import helper
from op_cases import CASES, MICROSOFT, ML, Case, Const
from side_by_side import provenance

EXIT_SLOW, EXIT_WRONG = 1, 5
SIZES: Final = {"small": 10**3, "medium": 10**5, "large": 10**7}
GOAL: Final = 0.8
MAX_RUNS: Final = 1000  # of one engine in a round
Run = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """A case at one size: the shortest times in µs, None where an engine cannot run it; `problem` says why a row has no
    ratio, or that the results differ. `kernels` are the rows of kernels.inc that ran.
    """

    case: str
    size: str
    kernels: tuple[str, ...]
    ours_us: float | None
    ort_us: float | None
    problem: str = ""
    is_wrong: bool = False

    @property
    def ratio(self) -> float | None:
        """ONNX Runtime's time over ours: above 1 ours is faster."""
        return self.ort_us / self.ours_us if self.ours_us and self.ort_us else None


def build(case: Case, n: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model of one node, and its inputs."""
    feeds: dict[str, Array] = {}
    weights: list[onnx.TensorProto] = []
    names: list[str] = []
    for index, operand in enumerate(case.operands(n)):
        name = f"x{index}" if operand is not None else ""
        names.append(name)
        if isinstance(operand, Const):
            weights.append(onnx.numpy_helper.from_array(operand.array, name))
        elif operand is not None:
            feeds[name] = np.ascontiguousarray(operand)
    outputs = [f"y{index}" for index in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.op_type, names, outputs, domain=case.domain, **case.attrs)],
        "op",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        weights,
    )
    domains = [helper.make_opsetid("", case.opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10), feeds


def measure(case: Case, size: str, *, rounds: int, seconds: float) -> Row:
    """Compare the results of both engines, then time them in turns, A B A B."""
    model, feeds = build(case, SIZES[size])
    kernels: tuple[str, ...] = ()
    try:
        ours, our_results, kernels = _open_ours(model, feeds)
    except Exception as error:  # noqa: BLE001 (whatever an engine raises is its result)
        return Row(case.name, size, (), None, None, f"atcpy: {_first_line(error)}")
    try:
        theirs, their_results = _open_ort(model, feeds)
    except Exception as error:  # noqa: BLE001
        return Row(case.name, size, kernels, None, None, f"ONNX Runtime: {_first_line(error)}")
    if problem := _difference(case, our_results, their_results):
        return Row(case.name, size, kernels, None, None, problem, is_wrong=True)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for run, found in zip((ours, theirs), times, strict=True):
            found.append(_shortest(run, seconds))
    return Row(case.name, size, kernels, 1e6 * min(times[0]), 1e6 * min(times[1]))


def _open_ours(model: onnx.ModelProto, feeds: dict[str, Array]) -> tuple[Run, list[Array], tuple[str, ...]]:
    import atcpy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "op.om"
        source = Path(folder) / "op.onnx"
        onnx.save(model, source)
        atcpy.convert(source, path)
        session = atcpy.InferenceSession(str(path), threads=1)
        results: list[Array] = session.run(None, feeds)
    kernels = tuple(dict.fromkeys(task.kernel for task in session.tasks))
    return lambda: session.run(None, feeds), results, kernels


def _open_ort(model: onnx.ModelProto, feeds: dict[str, Array]) -> tuple[Run, list[Array]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds), session.run(None, feeds)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"


def _shortest(run: Run, seconds: float) -> float:
    """Return the shortest time of runs that last `seconds` together, at least two, after one that is not timed."""
    run()
    start = before = time.perf_counter()
    shortest = np.inf
    for count in range(MAX_RUNS):
        run()
        now = time.perf_counter()
        shortest = min(shortest, now - before)
        if now - start > seconds and count:
            break
        before = time.perf_counter()
    return float(shortest)


def _difference(case: Case, ours: Sequence[Array], theirs: Sequence[Array]) -> str:
    """How the results differ, in one line; empty if they agree."""
    for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        if (our.shape, our.dtype) != (their.shape, their.dtype):
            return f"output {index} is {our.dtype}{list(our.shape)}, not {their.dtype}{list(their.shape)}"
        if case.is_random:
            continue
        if our.dtype.kind == "f":
            if (error := relative_error([our], [their])) > case.tolerance:
                return f"output {index} differs by {error:.1e} of its scale"
        elif our.dtype.itemsize == 1 and our.dtype.kind in "iu":  # quantized: a sum at .5 may round to either side
            if (steps := int(np.abs(our.astype(int) - their.astype(int)).max(initial=0))) > 1:
                return f"output {index} differs by {steps} steps"
        elif wrong := int(np.count_nonzero(our != their)):
            return f"output {index} differs in {wrong} of {our.size} elements"
    return ""


def table(rows: Sequence[Row], sizes: Sequence[str]) -> Iterator[str]:
    """A table of Markdown: a line for each case, with the times of atcpy and the ratio at each size."""
    yield " | ".join(("| operator", "kernel", *(f"{size}, µs | ratio" for size in sizes))) + " |"
    yield "| --- | --- |" + " ---: | ---: |" * len(sizes)
    for case in dict.fromkeys(row.case for row in rows):
        own = {row.size: row for row in rows if row.case == case}
        kernels = ", ".join(dict.fromkeys(f"`{name}`" for row in own.values() for name in row.kernels))
        yield " | ".join((f"| {case}", kernels, *(_cells(own.get(size)) for size in sizes))) + " |"


def _cells(row: Row | None) -> str:
    if row is None or row.ratio is None:
        return "– | –"
    ratio = f"{row.ratio:.2f}"
    return f"{row.ours_us:.3g} | {f'**{ratio}**' if row.ratio < GOAL else ratio}"


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Lines on the whole: the geometric mean, rows below the goal, slowest first, and rows without a ratio."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield f"{len(ratios)} measurements; geometric mean of the ratios: {mean:.2f}."
    slow = sorted((row for row in rows if _is_slow(row)), key=lambda row: row.ratio or 0)
    yield f"Below {GOAL}: {len(slow)}." + "".join(f"\n- {row.case}, {row.size}: {row.ratio:.2f}" for row in slow)
    failed = [row for row in rows if row.problem]
    yield f"Not timed: {len(failed)}." + "".join(f"\n- {row.case}, {row.size}: {row.problem}" for row in failed)


def _is_slow(row: Row) -> bool:
    return row.ratio is not None and row.ratio < GOAL


def _joined(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rows of several records of one machine and one commit."""
    for record in records:
        for key in ("machine", "commit", "versions"):
            if record[key] != records[0][key]:
                raise typer.BadParameter(f"the files differ in {key}", param_hint="--from")
    return {**records[0], "rows": [row for record in records for row in record["rows"]]}


def _rows(record: dict[str, Any]) -> list[Row]:
    return [Row(**{**each, "kernels": tuple(each["kernels"])}) for each in record["rows"]]


def page(record: dict[str, Any]) -> str:
    """The page of documentation of what a file of `--json` holds."""
    rows = _rows(record)
    sizes = list(dict.fromkeys(row.size for row in rows))
    machine, versions = record["machine"], record["versions"]
    return "\n".join(
        (
            "# Operator speed",
            "",
            "Times of each operator alone beside ONNX Runtime, measured and written by `benchmarks/ops.py`. A ratio "
            "above 1 means that atcpy is faster.",
            "",
            f"- Machine: {machine['cpu']}, {machine['isa']}, one thread; commit {record['commit']}, {record['date']}.",
            f"- Versions: atcpy {versions['atcpy']}, ONNX Runtime {versions['onnxruntime']}.",
            f"- Sizes: {', '.join(f'{size} is about {SIZES[size]:,} elements' for size in sizes)}. Convolutions and "
            "products of matrices have so many times 32 products.",
            "- Times are the shortest of all runs of `session.run`, numpy arrays in and out, in turns. Results are "
            "compared first; what differs is not timed.",
            "",
            "## Summary",
            "",
            "\n\n".join(summary(rows)).replace(":\n-", ":\n\n-").replace(".\n-", ".\n\n-"),
            "",
            "## All operators",
            "",
            f"Ratios below {GOAL} are bold. A dash stands for a size that was not measured, or that an engine does not "
            "run.",
            "",
            *table(rows, sizes),
            "",
        )
    )


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="cases whose names begin so")] = None,
    sizes: Annotated[str, typer.Option(help=f"by commas: {', '.join(SIZES)}")] = ",".join(SIZES),
    rounds: Annotated[int, typer.Option(min=1, help="how often each engine is measured")] = 5,
    seconds: Annotated[float, typer.Option(help="duration of a measurement")] = 0.02,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures to this file")] = None,
    from_files: Annotated[
        list[Path] | None, typer.Option("--from", help="read the figures from this file; several are joined")
    ] = None,
    page_file: Annotated[Path | None, typer.Option("--page", help="write a page of Markdown to this file")] = None,
) -> None:
    """Times operators; exit status 5 if results differ, 1 if a ratio is below 0.8."""
    if from_files:
        record = _joined([json.loads(path.read_text(encoding="utf-8")) for path in from_files])
        rows = _rows(record)
    else:
        rows = []
        for case in _choose(names or [""]):
            for size in _parse_sizes(sizes):
                rows.append(measure(case, size, rounds=rounds, seconds=seconds))
                print(_line(rows[-1]), flush=True)
        record = {**provenance(("atcpy", "onnxruntime")), "rows": [asdict(row) for row in rows]}
    for path, text in ((json_file, json.dumps(record, indent=1) + "\n"), (page_file, page(record))):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    print("\n".join(summary(rows)))
    if any(row.is_wrong for row in rows):
        raise SystemExit(EXIT_WRONG)
    if any(map(_is_slow, rows)):
        raise SystemExit(EXIT_SLOW)


def _line(row: Row) -> str:
    head = f"{row.case:<32}{row.size:<8}"
    if row.ours_us is None or row.ort_us is None:
        return head + row.problem
    return f"{head}{row.ours_us:>12.1f}{row.ort_us:>12.1f}{row.ratio:>8.2f}x  {' '.join(row.kernels)}"


def _choose(names: Sequence[str]) -> list[Case]:
    chosen = [case for case in CASES if case.name.startswith(tuple(names))]
    if unknown := [name for name in names if not any(case.name.startswith(name) for case in CASES)]:
        raise typer.BadParameter(f"no case begins with {', '.join(unknown)}", param_hint="NAME")
    return chosen


def _parse_sizes(text: str) -> list[str]:
    sizes = text.split(",")
    if unknown := [size for size in sizes if size not in SIZES]:
        raise typer.BadParameter(f"{', '.join(unknown)}: there are {', '.join(SIZES)}", param_hint="--sizes")
    return sizes


if __name__ == "__main__":
    typer.run(main)
