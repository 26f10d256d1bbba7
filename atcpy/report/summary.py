"""What `convert` prints at its end."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from atcpy.errors import count_of
from atcpy.ir import Source
from atcpy.ir.decisions import PassCount, Precision
from atcpy.passes.compile.plan_memory import GOOD_ENOUGH
from atcpy.precision_options import PrecisionMode
from atcpy.report.allreduce import allreduce_line
from atcpy.report.record import to_json
from atcpy.report.units import (
    counts,
    duration,
    iterations,
    largest_arena,
    planned,
    shape,
    size,
    states,
    streams,
    weight_files,
)
from atcpy.stages.report import ConvertReport, Memory, PortInfo

_ENGINES = ("AIcoreEngine", "VectorEngine", "AICPU", "GE_LOCAL", "DNN_HCCL", "HOST_CPU")
_ALWAYS_SHOWN = frozenset({"AIcoreEngine", "VectorEngine", "GE_LOCAL", "HOST_CPU"})
_PASSES_SHOWN = 6
_VALUES_SHOWN = 4


def convert_result(report: ConvertReport) -> dict[str, Any]:
    """The `result` of `convert --json`; warnings have their own place in the envelope."""
    result: dict[str, Any] = to_json(report)
    del result["warnings"]
    result["source"]["opsets"] = dict(report.source.opsets)
    return result


def convert_summary(report: ConvertReport, model: str, seconds: float, *, soc_is_default: bool) -> list[str]:
    """The block of lines: what came of which model, where it runs, what it needs, what was done."""
    return list(_lines(report, model, seconds, soc_is_default))


def _lines(report: ConvertReport, model: str, seconds: float, soc_is_default: bool) -> Iterator[str]:
    took = f"in {duration(seconds)}"
    yield f"{report.output}  {size(report.bytes)}  sha256 {report.sha256[:4]}…  {took}"
    tasks = planned(report.unknown_shapes, report.task_count, report.plans, len(report.gears), guards=report.guards)
    nodes = f"{count_of(report.nodes_before, 'node')} → {tasks}"
    yield f"  from       {Path(model).name} ({_origin(report.source)})  {nodes}"
    yield from _ports("inputs", report.inputs)
    yield from _ports("outputs", report.outputs)
    if report.unplanned:
        yield f"  open dims  {'in part ' if report.plans else ''}not planned ahead: {report.unplanned}"
    if report.states:
        yield f"  states     {states(report.states)}"
    if report.iterations is not None:
        yield f"  iterations {iterations(report.iterations)}"
    if report.gears:
        yield f"  gears      {' · '.join(str(gear) for gear in report.gears)}"
    shown = {name: report.engines.get(name, 0) for name in _ENGINES}
    shown = {name: count for name, count in shown.items() if count or name in _ALWAYS_SHOWN}
    yield f"  engines    {counts(shown)}"
    if report.host_cpu_ops:
        ops = counts({op.op: op.count for op in report.host_cpu_ops})
        yield f"  host_cpu   {ops}   (no kernel: numpy runs them, slowly)"
    if report.custom_ops:
        yield f"  needs      {', '.join(report.custom_ops)}   (your own operators: --custom-ops)"
    if report.allreduce is not None:
        yield f"  allreduce  {allreduce_line(to_json(report.allreduce))}"
    if report.streams.sections:
        yield f"  streams    {streams(report.streams.sections, report.streams.streams)}"
    if report.signed_by is not None:
        yield f"  signed by  {report.signed_by}"
    yield f"  precision  {_precision(report.precision)}"
    yield f"  memory     {_memory(report.memory)}"
    if not report.unknown_shapes:
        yield f"  arena      {_arena(report.memory)}"
        yield from _gap(report.memory)
    if report.weight_files.count:
        yield f"  weights    {weight_files(report.weight_files.count, report.weight_files.bytes)}"
    yield f"  passes     {_passes(report.passes)}   (all: atcpy inspect --passes)"
    yield f"  transdata  {report.transdata.inserted} inserted · {report.transdata.cancelled} cancelled"
    yield f"  stages     {' · '.join(f'{s.name} {duration(s.seconds)}' for s in report.stages)}"
    yield f"  soc        {report.soc}{' (default)' if soc_is_default else ''}"


def _origin(source: Source) -> str:
    opsets = dict(source.opsets)
    version = f" opset {opsets['ai.onnx']}" if "ai.onnx" in opsets else ""
    framework = {"onnx": "ONNX", "tensorflow": "TensorFlow"}.get(source.framework, source.framework)
    return framework + version + (f", {source.producer.strip()}" if source.producer.strip() else "")


def _ports(label: str, ports: Sequence[PortInfo]) -> Iterator[str]:
    for i, port in enumerate(ports):
        yield f"  {label if i == 0 else '':<10} {port.name} {port.dtype} {shape(port.shape)}"


def _precision(precision: Precision) -> str:
    count = len(precision.lowered)
    verb = "raised" if precision.mode == PrecisionMode.FP32.value else "lowered"
    return f"{precision.mode} ({f'{count} {verb}' if count else f'nothing {verb}'})"


def _memory(memory: Memory) -> str:
    if memory.arena is None or memory.unshared is None:
        return f"{largest_arena(memory.arena)} · weights {size(memory.weights)}"
    saved = 100 - round(100 * memory.arena / memory.unshared) if memory.unshared else 0
    scratch = f" · scratch {size(memory.scratch)} a thread" if memory.scratch else ""
    return f"arena {size(memory.arena)} (reuse saves {saved} %) · weights {size(memory.weights)}{scratch}"


def _arena(memory: Memory) -> str:
    ratio = f" ({memory.arena / memory.lower_bound:.2f}×)" if memory.arena and memory.lower_bound else ""
    return f"{memory.arena} bytes, lower bound {memory.lower_bound}{ratio}, without reuse {memory.unshared}"


def _gap(memory: Memory) -> Iterator[str]:
    """What lies above the lower bound, where the planner's search ended too far from it."""
    if memory.arena and memory.lower_bound and memory.arena > GOOD_ENOUGH * memory.lower_bound and memory.strategies:
        largest = sorted(memory.above_bound, key=lambda value: -value.nbytes)
        shown = " · ".join(f"{value.name} {size(value.nbytes)}" for value in largest[:_VALUES_SHOWN])
        more = f" · {len(largest) - _VALUES_SHOWN} more" if len(largest) > _VALUES_SHOWN else ""
        percent = round(100 * memory.arena / memory.lower_bound - 100)
        yield f"  gap        {percent} % above the bound where the search ended: {shown}{more}"


def _passes(passes: Sequence[PassCount]) -> str:
    """The fusions that did the most, without the `Pass` that ends their names."""
    fusions = [entry for entry in passes if "Fusion" in entry.name and not entry.name.startswith("TransOp")]
    applied = {entry.name.removesuffix("Pass"): entry.applied for entry in fusions if entry.applied}
    first = dict(sorted(applied.items(), key=lambda item: -item[1])[:_PASSES_SHOWN])
    more = len(applied) - len(first)
    return (counts(first) or "none applied") + (f" · {more} more" if more else "")
