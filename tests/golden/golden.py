"""Golden files: a model in ONNX text, then what each asked stage prints.

    # what the file shows
    convert: --skip_pass SomePass
    --- model
    <ir_version: 10, opset_import: ["" : 21]>
    name (float[1,32,8,8] x) => (float[1,16,8,8] y) <float[16,32,3,3] w> { … }
    --- prepare
    …
    --- optimize
    …
    --- placement
    EnginePlacerPass  matched 2 applied 2
      no-cube-producer y ()
    --- decisions
    ConvBatchnormFusionPass  matched 1 applied 0
      second-consumer c (r)
    --- tasks
    Concat y: strided_copy input 0 [0:64] -> arena [64:128]
    --- removed
    d  dead
    --- error
    what is said where the model is refused

Values that are declared without data are filled from a fixed seed. The numbers are always checked
too, against ONNX Runtime, or against the ONNX reference where a line `oracle: reference` says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from atcpy.errors import AtcError, render
from atcpy.ir import CompiledModel, Decisions, Graph, Region, Slot, Task
from atcpy.ir.dump import dump
from atcpy.ops.custom import CustomOps
from atcpy.options import ConvertOptions, Stage, convert_options
from atcpy.passes.pass_manager import PassManager
from atcpy.stages.parse import parse
from atcpy.stages.pipeline import Observer, compile_model
from atcpy.stages.prepare import prepare
from atcpy.stages.split import assign_engines

FILES = sorted(Path(__file__).parent.glob("*.golden"))
STAGES = {stage.value: stage for stage in Stage}


@dataclass(frozen=True)
class GoldenFile:
    """The parts of a golden file in order; `expected` maps a section to its text."""

    head: str
    options: dict[str, str]
    oracle: str
    model_text: str
    expected: dict[str, str]


def read_golden(path: Path) -> GoldenFile:
    """Splits a file into its sections."""
    head, *rest = re.split(r"\n--- (?!subgraph )", path.read_text(encoding="utf-8"))
    sections = {name.strip(): body for name, _, body in (section.partition("\n") for section in rest)}
    settings = {key: value for key, colon, value in (line.partition(": ") for line in head.splitlines()) if colon}
    arguments = shlex.split(settings.get("convert", ""))
    options = {arguments[i].removeprefix("--"): arguments[i + 1] for i in range(0, len(arguments), 2)}
    model_text = sections.pop("model")
    return GoldenFile(head, options, settings.get("oracle", "runtime"), model_text, sections)


def decision_lines(golden: GoldenFile) -> list[str]:
    """Return what the file says of each pass that applied or rejected something."""
    return [line for name in ("placement", "decisions") for line in golden.expected.get(name, "").splitlines()]


def write_golden(path: Path, golden: GoldenFile, actual: dict[str, str]) -> None:
    """Puts what was printed in the place of what was expected."""
    parts = [golden.head, f"model\n{golden.model_text}", *(f"{name}\n{actual[name]}" for name in golden.expected)]
    path.write_text("\n--- ".join(part.rstrip("\n") for part in parts) + "\n", encoding="utf-8")


def parse_text(text: str) -> onnx.ModelProto:
    """The model, with seeded constants for what is declared without data."""
    model = parser.parse_model(text)
    graph = model.graph
    defined = {value.name for value in graph.input} | {init.name for init in graph.initializer}
    defined |= {name for node in graph.node for name in node.output}
    rng = np.random.default_rng(7)
    declared = {info.name: info for info in graph.value_info}
    for node in graph.node:
        for name in _read(node):
            if name in declared and name not in defined:
                graph.initializer.append(numpy_helper.from_array(_fill(declared[name], rng), name))
                defined.add(name)
    kept = [info for info in graph.value_info if info.name not in {init.name for init in graph.initializer}]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return model


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, and those that are read in its bodies."""
    yield from node.input
    for attr in node.attribute:
        for inner in attr.g.node:
            yield from _read(inner)


def _fill(info: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    kind = info.type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if dtype.kind in "iu" and dtype.itemsize == 1:  # quantised weights: every value of the type
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
    # Variances must be positive: the name says which they are.
    noise = rng.uniform(0.5, 1.5, shape) if info.name.startswith("var") else rng.standard_normal(shape) * 0.3
    return noise.astype(dtype)


@dataclass
class Recorder(Observer):
    """An observer that keeps what each stage prints."""

    dumps: dict[str, str]

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        """Prints the graph, unless it is in pieces."""
        if len(graphs) == 1:
            self.dumps[stage.value] = dump(graphs[0])


def compile_text(golden: GoldenFile) -> tuple[onnx.ModelProto, CompiledModel | None, dict[str, str]]:
    """The model, what it compiled to, and the text of every section that a file may have. A model
    that is refused compiles to None.
    """
    model = parse_text(golden.model_text)
    recorder = Recorder({})
    options = convert_options({**golden.options, "debug": True})
    try:
        compiled, _ = compile_model(model, options, recorder)
    except AtcError as error:
        decisions = _decisions_until_placed(model, options)
        return model, None, {"error": render(error), **_decision_sections(decisions)}
    tasks = "".join(f"{_task(task)}\n" for task in compiled.tasks)
    return model, compiled, {**recorder.dumps, "tasks": tasks, **_decision_sections(compiled.graph.decisions)}


def _task(task: Task) -> str:
    """What runs, and the bytes that it reads and writes."""
    sides = (", ".join(_bytes(slot) for slot in slots if slot is not None) for slots in (task.src, task.dst))
    return f"{task.op_type} {task.node}: {task.kernel} {' -> '.join(sides)}{_sync(task)}"


def _sync(task: Task) -> str:
    """Which stream but the first it is on, and its events."""
    numbers = {"stream": task.stream, "waits": task.event_wait, "records": task.event_record}
    text = " ".join(f"{word} {number}" for word, number in numbers.items() if number)
    return f" ; {text}" if text else ""


def _bytes(slot: Slot) -> str:
    index = f" {slot.index}" if slot.region in {Region.INPUT, Region.OUTPUT} else ""
    return f"{slot.region.name.lower()}{index} [{slot.offset}:{slot.offset + slot.nbytes}]"


def _decisions_until_placed(model: onnx.ModelProto, options: ConvertOptions) -> Decisions:
    graph = parse(model, options.parse, CustomOps()).graph
    manager = PassManager(options)
    with suppress(AtcError):  # the same again; what led there is in the graph
        prepare(graph, manager)
        assign_engines(graph, manager)
    return graph.decisions


def _decision_sections(decisions: Decisions) -> dict[str, str]:
    sections = {"placement": "", "decisions": "", "removed": ""}
    for record in decisions.passes:
        if record.applied or record.rejects:
            why = "".join(f"\n  {reject.reason} {reject.where} ({reject.detail})" for reject in record.rejects)
            section = "placement" if record.stage == Stage.SPLIT.value else "decisions"
            sections[section] += f"{record.name}  matched {record.matched} applied {record.applied}{why}\n"
    sections["removed"] = "".join(f"{source}  {why}\n" for source, why in decisions.removed.items())
    return sections
