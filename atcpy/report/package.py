"""A package as `inspect` shows it: records for JSON, and tables made from those same records."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from atcpy.errors import PackageCorrupt, UsageError, Where, count_of, did_you_mean, raise_os_error
from atcpy.files import open_file
from atcpy.ir import (
    Graph,
    Node,
    SymbolicPlan,
    TensorDesc,
    nodes_with_bodies,
    plans_of,
    states_by_name,
    task_counts,
    with_bodies,
)
from atcpy.ir.gears import branches
from atcpy.kernels import _kernels
from atcpy.kernels.guard_text import guard_texts
from atcpy.kernels.record import HOST_FAMILY, read_order, read_slots
from atcpy.kernels.symbolic_program import largest_arena_bytes, planned_arena_bytes
from atcpy.kernels.table import kernel_table
from atcpy.om.container import Partition, Verify
from atcpy.om.package import Package, read_package
from atcpy.om.reader import PackagedModel, read_model
from atcpy.om.signature import PublicKey
from atcpy.om.task_record import TaskRecord, TaskRecords
from atcpy.report.allreduce import allreduce_line
from atcpy.report.arena_plans import Shapes, fixed_arena_plan, open_arena_plans
from atcpy.report.arena_text import arena_lines, arena_record
from atcpy.report.columns import table
from atcpy.report.memory_plan import ArenaPlan
from atcpy.report.record import to_json
from atcpy.report.units import counts, largest_arena, planned, shape, size, states, streams, weight_files
from atcpy.stages.report import Memory, count_engines, count_files, count_host_ops, count_streams

TABLES = ("io", "nodes", "tasks", "plans", "weights", "passes", "precision", "memory", "provenance")
_FULL_CACHES = "all rows of the caches are in use"  # the one condition that plans have
NOT_FOR_CANN = "CANN's own runtime cannot load this package: the container is ATC's, the kernels are atcpy's"

Record = dict[str, Any]
DecodedT = TypeVar("DecodedT")


class PackageView:
    """A package opened for people; MODEL_DEF is parsed once. Of a package with gears it shows the graph and the tasks
    of one, the first by default.
    """

    def __init__(self, path: Path, gear: int = 0, signers: Sequence[PublicKey] = ()) -> None:
        self.path, self.gear = path, gear
        self.shapes: Shapes | None = None  # of the inputs whose dims are open, for which the memory plan is shown
        self.package: Package = read_package(path, verify=Verify.FULL, signers=signers)
        self.signature_checked = bool(signers)
        self.package.check_sha256()
        self.model: PackagedModel = read_model(self.package)
        graphs = branches(self.model.graph)
        if gear and gear >= len(graphs):
            what = f"--gear: {path} has no gear {gear}"
            hint = f"its gears are 0 to {len(graphs) - 1}" if graphs else "it has no gears"
            raise UsageError("E10013", what, where=Where(option="gear"), hint=hint)
        self.graph: Graph = graphs[gear] if graphs else self.model.graph
        self.graph.decisions = self.model.graph.decisions
        self.task_records = self.package.tasks_of(gear) if graphs else self.package.tasks

    def summary(self) -> Record:
        """The same keys as `convert --json` has, as far as the package knows them."""
        model, graph = self.model, self.graph
        whole = model.graph
        signer = self.package.container.signer
        return {
            "output": str(self.path),
            "bytes": len(self.package.container.buffer),
            "sha256": _digest(self.path),
            "signed_by": None if signer is None else signer.fingerprint,
            "signature_checked": self.signature_checked,
            "source": {**to_json(model.source), "opsets": dict(model.source.opsets)},
            "soc": model.soc,
            "atc_cmdline": model.cmdline,
            "atcpy_version": model.version,
            "inputs": [_port(node.output.desc, node.output.name) for node in whole.nodes if node.op_type == "Data"],
            "outputs": [_port(v.desc, name) for v, name in zip(_results(whole), self._output_names(), strict=True)],
            "nodes_before": whole.node_count_before,
            "task_count": len(self.package.tasks),
            "unknown_shapes": self.package.has_unknown_shapes,
            "plans": task_counts(self.package.clusters),
            "guards": sum(
                len(self._guards(plan))
                for cluster in self.package.clusters
                if not cluster.states
                for variant in cluster.variants[:1]
                for plan in variant.plans
            ),
            "states": states_by_name(
                self.package.clusters, [info.name for info in self.package.inputs], self._output_names()
            ),
            "engines": count_engines(graph),
            "host_cpu_ops": to_json(count_host_ops(graph)),
            "custom_ops": ["::".join(name) for name in self.package.custom_ops],
            "passes": [
                {"name": name, "matched": matched, "applied": applied}
                for name, matched, applied in graph.decisions.counts()
            ],
            "allreduce": to_json(graph.decisions.allreduce),
            "streams": to_json(count_streams((task.kernel, read_order(task.record)[0]) for task in self.package.tasks)),
            "precision": self.precision(),
            "memory": self._memory(),
            "gears": [gear.text for gear in self.package.gears],
            "weight_files": to_json(count_files(self.package.weight_files)),
        }

    def _memory(self) -> Record:
        weights, plan = self.package.weight_bytes, self.model.memory
        if self.package.has_unknown_shapes:
            programs = (plan.program for plan in plans_of(self.package.clusters))
            memory = Memory(self._decode(lambda: largest_arena_bytes(programs)), None, None, weights, None)
        else:
            scratch = self._scratch_bytes()
            memory = Memory(self.package.arena_bytes, plan.lower_bound, plan.unshared_bytes, weights, scratch)
        record: Record = to_json(memory)
        return {key: value for key, value in record.items() if key not in ("strategies", "above_bound")}

    @cached_property
    def arena_plans(self) -> list[ArenaPlan]:
        """The memory plans, in the order in which a run takes them; none of open dims without the shapes of a run.
        Raises PackageCorrupt (P0005) for a package that the loader refuses, UsageError for shapes that no plan serves.
        """
        if not self.package.has_unknown_shapes:
            return [fixed_arena_plan(self.package, self.model.graph, self.graph, self.gear)]
        if self.shapes is None:
            return []
        plans = ((name, nodes, plan) for name, nodes, plan, _ in self._symbolic_plans())
        return open_arena_plans(self.package, plans, self.shapes)

    def _scratch_bytes(self) -> int | None:
        """What kernels need of each thread on this CPU; None for gears, and for a plan that would not run."""
        return None if self._plan is None else self._plan.scratch_bytes()

    @cached_property
    def _plan(self) -> _kernels.Plan | None:
        """The tasks as this CPU binds them; None for gears, and for a plan that would not run."""
        package = self.package
        if package.gears:
            return None
        sizes = [port.nbytes for port in package.inputs], [port.nbytes for port in package.outputs]
        try:
            return _kernels.Plan(package.tasks.records, package.weights, package.arena_bytes, *sizes, 1)
        except _kernels.Refused:
            return None

    def _output_names(self) -> list[str]:
        return [info.name for info in self.package.outputs]

    # ---- the tables, each a list of records

    def io(self) -> Record:
        """Inputs and outputs with their bytes."""
        summary = self.summary()
        infos = (("inputs", self.package.inputs), ("outputs", self.package.outputs))
        ports = {
            kind: [port | {"bytes": info.nbytes} for port, info in zip(summary[kind], ports, strict=True)]
            for kind, ports in infos
        }
        return {**ports, "gears": [to_json(gear) for gear in self.package.gears]}

    def nodes(self) -> list[Record]:
        """Every node but constants, in order of execution."""
        return [self.node_record(node) for node in self.graph.nodes if node.op_type != "Const"]

    def node_record(self, node: Node) -> Record:
        """One node: what it reads and makes, who runs it, where it came from."""
        return {
            "name": node.name,
            "op": node.op_type,
            "engine": node.engine.value if node.engine else None,
            "inputs": ["" if value is None else value.name for value in node.inputs],
            "outputs": [{"name": value.name, **_desc(value.desc)} for value in node.outputs],
            "sources": list(node.sources),
            "passes": list(node.passes),
        }

    def tasks(self) -> list[Record]:
        """Every kernel launch; views run nothing and are no task. Those of plans for open dims have no offsets, and say
        of which plan they are: the numbers of its graph, step, variant and place among the plans of the variant.
        """
        nodes = list(self.graph.nodes)
        rows = {key: names[-1] for key, names in rows_of_this_cpu().items()}
        records = [_task(number, task, nodes[task.op_index], rows) for number, task in enumerate(self.task_records)]
        if self._plan is not None:
            bound = zip(records, self._plan.rows(), strict=True)
            records = [record if row is None else record | {"kernel": row} for record, row in bound]
        for name, graph, plan, _ in self._symbolic_plans():
            for task in plan.tasks:
                if task.op_index >= len(graph):
                    raise PackageCorrupt("P0005", f"a task names node {task.op_index} of {len(graph)}")
                record = _task(len(records), task, graph[task.op_index], rows)
                outputs = [output | {"offset": None, "bytes": None} for output in record["outputs"]]
                records.append(record | {"outputs": outputs, "plan": name})
        return records

    def _symbolic_plans(self) -> Iterator[tuple[str, Sequence[Node], SymbolicPlan[TaskRecords], bool]]:
        """The plans for open dims: the name of each, the nodes that its tasks name, and whether it has a condition."""
        nodes = [nodes_with_bodies(graph) for graph in with_bodies(self.graph)] if self.package.clusters else []
        for cluster in self.package.clusters:
            if cluster.graph >= len(nodes):
                raise PackageCorrupt("P0005", f"it has plans of graph {cluster.graph} of {len(nodes)}")
            for number, variant in enumerate(cluster.variants):
                for index, plan in enumerate(variant.plans):
                    name = f"{cluster.graph}.{cluster.step}.{number}.{index}"
                    has_condition = variant.condition is not None
                    yield name + (".states" if cluster.states else ""), nodes[cluster.graph], plan, has_condition

    def plans(self) -> list[Record]:
        """The plans for open dims: their tasks, the bytes of the arena if it is the same for all sizes, and the guards
        that sizes keep which they serve. What no plan serves is compiled when it is met.
        """
        return [
            {
                "plan": name,
                "tasks": len(plan.tasks),
                "arena": self._decode(partial(planned_arena_bytes, plan.program)),
                "guards": [*self._guards(plan), *[_FULL_CACHES] * has_condition],
            }
            for name, _, plan, has_condition in self._symbolic_plans()
        ]

    def _guards(self, plan: SymbolicPlan[TaskRecords]) -> list[str]:
        return self._decode(lambda: guard_texts(plan.program, [symbol.name for symbol in plan.symbols]))

    def _decode(self, read: Callable[[], DecodedT]) -> DecodedT:
        """What is read out of a program. Raises PackageCorrupt (P0005) for one that is malformed."""
        try:
            return read()
        except ValueError as error:
            raise PackageCorrupt("P0005", str(error), where=Where(file=str(self.path))) from error

    def weights(self) -> list[Record]:
        """Every constant."""
        return [
            {"name": node.output.name, **_desc(node.output.desc), "bytes": node.output.desc.nbytes}
            for node in self.graph.nodes
            if node.op_type == "Const"
        ]

    def passes(self) -> list[Record]:
        """Every run of every pass, and why matches were left alone."""
        return [
            {
                "name": record.name,
                "stage": record.stage,
                "matched": record.matched,
                "applied": record.applied,
                "rejects": [to_json(reject) for reject in record.rejects],
            }
            for record in self.graph.decisions.passes
        ]

    def precision(self) -> Record:
        """The mode, what was lowered by it, and what was kept."""
        record: Record = to_json(self.graph.decisions.precision)
        return record

    def memory(self) -> Record:
        """The plan: its buffers, those that are in use at its peak, and those above the lower bound; and the largest
        values.
        """
        values = [value for node in self.graph.nodes if not node.is_structural for value in node.outputs]
        known = [value for value in values if value.desc.is_static]
        largest = sorted(known, key=lambda value: -value.desc.nbytes)[:10]
        summary: Record = self.summary()["memory"]
        listed = [{"name": v.name, **_desc(v.desc), "bytes": v.desc.nbytes} for v in largest]
        return {**summary, "plans": list(map(arena_record, self.arena_plans)), "largest": listed}

    def provenance(self) -> Record:
        """Where the package came from, and what became of the model's nodes that have no task."""
        container = self.package.container
        return {
            "source": {**to_json(self.model.source), "opsets": dict(self.model.source.opsets)},
            "atc_cmdline": self.model.cmdline,
            "atcpy_version": self.model.version,
            "soc": self.model.soc,
            "sealed_sha256": container.sha256.hex(),
            "removed": dict(self.graph.decisions.removed),
        }

    def find_node(self, name: str) -> Record:
        """The node of that name, or the one that stands for the model's node of that name."""
        nodes = list(self.graph.nodes)
        exact = [node for node in nodes if node.name == name] or [node for node in nodes if name in node.sources]
        if exact:
            tasks = [task for task in self.tasks() if task["name"] == exact[0].name]
            return self.node_record(exact[0]) | {"tasks": tasks}
        if name in self.graph.decisions.removed:
            return {"name": name, "removed": self.graph.decisions.removed[name]}
        names = [name for node in nodes for name in (node.name, *node.sources)]
        hint = did_you_mean(name, [*names, *self.graph.decisions.removed])
        raise UsageError("E10016", f'--node: no node "{name}" in {self.path}', where=Where(option="node"), hint=hint)

    # ---- text

    def info_block(self) -> list[str]:
        """ATC's block of model information."""
        model, container = self.model, self.package.container
        parts = {extent.partition: extent.size for extent in container.extents}
        return [
            "============ Display Model Info start ============",
            f"Original Atc command line: {model.cmdline}",
            f"system   info: atc_version[{model.version}], soc_version[{model.soc}], "
            f"framework_type[{model.source.framework}].",
            f"resource info: memory_size[{self.package.arena_bytes} B], weight_size[{self.package.weight_bytes} B], "
            f"stream_num[{self.package.stream_count}], event_num[{self.package.event_count}].",
            f"om       info: modeldef_size[{parts[Partition.MODEL_DEF]} B], "
            f"weight_data_size[{parts[Partition.WEIGHTS_DATA]} B], tbe_kernels_size[0 B], "
            f"cust_aicpu_kernel_store_size[0 B], task_info_size[{parts[Partition.TASK_INFO]} B], so_store_size[0 B].",
            "============ Display Model Info end   ============",
        ]


def rows_of_this_cpu() -> Mapping[tuple[str, int], list[str]]:
    """The rows of each family and element type, 0 being any, that this CPU would bind: those for some launches, and
    behind them the first one for all others.
    """
    isa = _kernels.cpu()[0]
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    complete: set[tuple[str, int]] = set()
    for row in kernel_table():
        key = (row.family, row.dtype.onnx)
        if _kernels.isa_runs(isa, row.isa) and key not in complete:
            found[key].append(row.name)
            if not row.is_conditional:
                complete.add(key)
    return found


def _task(number: int, task: TaskRecord, node: Node, rows: Mapping[tuple[str, int], str]) -> Record:
    _, results = read_slots(task.record)
    stream, event_wait, event_record = read_order(task.record)
    dtype = next((value.desc.dtype.onnx for value in node.operands), 0)
    outputs = [
        {"name": value.name, **_desc(value.desc), "region": slot[0].name.lower(), "offset": slot[2], "bytes": slot[3]}
        for value, slot in zip(node.outputs, results, strict=False)
    ]
    family = task.kernel
    return {
        "task": number,
        "name": node.name,
        "op": node.op_type,
        "kernel": "host" if family == HOST_FAMILY else rows.get((family, dtype)) or rows.get((family, 0), family),
        "engine": node.engine.value if node.engine else None,
        "stream": stream,
        "event_wait": event_wait or None,
        "event_record": event_record or None,
        "sources": list(node.sources),
        "passes": list(node.passes),
        "outputs": outputs,
    }


def _desc(desc: TensorDesc) -> Record:
    dims = None if desc.shape is None else [dim if isinstance(dim, int) else dim.name for dim in desc.shape]
    stored = list(desc.memory_shape) if desc.is_static else dims
    return {"dtype": desc.dtype.long, "format": str(desc.format), "shape": dims, "storage_shape": stored}


def _port(desc: TensorDesc, name: str) -> Record:
    record = _desc(desc)
    return {"name": name, "dtype": record["dtype"], "shape": record["shape"], "format": record["format"]}


def _results(graph: Graph) -> list[Any]:
    return [value for node in graph.nodes if node.op_type == "NetOutput" for value in node.operands]


def _digest(path: Path) -> str:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise_os_error(error, str(path))


# --------------------------------------------------------------------------------------------------------------------
# Tables as text


def summary_lines(summary: Record) -> Iterator[str]:
    """The package in a few lines, as `convert` prints it."""
    yield f"{summary['output']}  {size(summary['bytes'])}  sha256 {summary['sha256'][:16]}…"
    source = summary["source"]
    opsets = " ".join(f"{domain} {version}" for domain, version in source["opsets"].items())
    lines = planned(
        summary["unknown_shapes"],
        summary["task_count"],
        summary["plans"],
        len(summary["gears"]),
        guards=summary["guards"],
    )
    tasks = f"{count_of(summary['nodes_before'], 'node')} → {lines}"
    producer = f", {source['producer']}" if source["producer"] else ""
    yield f"  from       {source['framework']} ({opsets}{producer})  {tasks}"
    yield f"  command    {summary['atc_cmdline']}"
    if summary["signed_by"] is not None:
        note = "required, and checked" if summary["signature_checked"] else "not checked: --require_signature PUB"
        yield f"  signed by  {summary['signed_by']}   ({note})"
    for kind in ("inputs", "outputs"):
        for i, port in enumerate(summary[kind]):
            yield f"  {kind if i == 0 else '':<10} {port['name']} {port['dtype']} {shape(port['shape'])}"
    if summary["states"]:
        yield f"  states     {states(summary['states'])}"
    if summary["gears"]:
        yield f"  gears      {' · '.join(summary['gears'])}"
    yield f"  engines    {counts(summary['engines'])}"
    if summary["host_cpu_ops"]:
        ops = counts({op["op"]: op["count"] for op in summary["host_cpu_ops"]})
        yield f"  host_cpu   {ops}   (no kernel: numpy runs them, slowly)"
    if summary["custom_ops"]:
        yield f"  needs      {', '.join(summary['custom_ops'])}   (your own operators: --custom-ops)"
    if summary["allreduce"]:
        yield f"  allreduce  {allreduce_line(summary['allreduce'])}"
    if summary["streams"]["sections"]:
        yield f"  streams    {streams(**summary['streams'])}"
    if (files := summary["weight_files"])["count"]:
        yield f"  weights    {weight_files(**files)}"
    memory = summary["memory"]
    arena = largest_arena(memory["arena"]) if summary["unknown_shapes"] else f"arena {size(memory['arena'])}"
    yield f"  memory     {arena} · weights {size(memory['weights'])}"


def table_lines(name: str, content: Any) -> list[str]:
    """One of `TABLES` as text."""
    return ["", f"{name}", *_TEXT[name](content)]


def _io_lines(content: Record) -> list[str]:
    rows = [
        (kind.removesuffix("s"), p["name"], p["dtype"], shape(p["shape"]), p["format"], p["bytes"])
        for kind in ("inputs", "outputs")
        for p in content[kind]
    ]
    lines = table(("", "name", "dtype", "shape", "format", "bytes"), rows, right=(5,))
    gears = [
        (
            number,
            *(" ".join(map(shape, gear[kind])) for kind in ("inputs", "outputs")),
            gear["task_count"],
            gear["arena_bytes"],
        )
        for number, gear in enumerate(content["gears"])
    ]
    return lines + (
        ["", *table(("gear", "inputs", "outputs", "tasks", "arena"), gears, right=(0, 3, 4))] if gears else []
    )


def _tensor(record: Record) -> str:
    return f"{record['dtype']} {shape(record['storage_shape'])} {record['format']}"


def _node_lines(content: Sequence[Record]) -> list[str]:
    rows = [
        (n["name"], n["op"], n["engine"] or "", " ".join(map(_tensor, n["outputs"])), " ".join(n["passes"]))
        for n in content
    ]
    return table(("node", "op", "engine", "outputs", "passes"), rows)


def _task_lines(content: Sequence[Record]) -> list[str]:
    streams = any(t["stream"] for t in content)
    plans = any("plan" in t for t in content)
    rows = [
        (
            t["task"],
            *([t["plan"]] if plans else []),
            t["op"],
            t["kernel"],
            t["engine"] or "",
            *([_stream(t)] if streams else []),
            " ".join(map(_tensor, t["outputs"])),
            ", ".join(t["sources"]),
        )
        for t in content
    ]
    head = (
        "task",
        *(["plan"] if plans else []),
        "op",
        "kernel",
        "engine",
        *(["stream"] if streams else []),
        "outputs",
        "from",
    )
    return table(head, rows, right=(0,))


def _plan_lines(content: Sequence[Record]) -> list[str]:
    rows = [
        (
            plan["plan"],
            plan["tasks"],
            "by size" if plan["arena"] is None else plan["arena"],
            ", ".join(plan["guards"]) or "all sizes",
        )
        for plan in content
    ]
    return table(("plan", "tasks", "arena", "serves"), rows, right=(1, 2))


def _stream(task: Record) -> str:
    wait = f" waits {task['event_wait']}" if task["event_wait"] else ""
    record = f" records {task['event_record']}" if task["event_record"] else ""
    return f"{task['stream']}{wait}{record}"


def _weight_lines(content: Sequence[Record]) -> list[str]:
    rows = [
        (w["name"], w["dtype"], shape(w["shape"]), w["format"], shape(w["storage_shape"]), w["bytes"]) for w in content
    ]
    return table(("weight", "dtype", "shape", "format", "stored", "bytes"), rows, right=(5,))


def _pass_lines(content: Sequence[Record]) -> list[str]:
    lines = table(
        ("pass", "stage", "matched", "applied"),
        [(p["name"], p["stage"], p["matched"], p["applied"]) for p in content],
        right=(2, 3),
    )
    rejected = [(p["name"], r["reason"], r["where"], r["detail"]) for p in content for r in p["rejects"]]
    return lines + (["", *table(("pass", "left alone because", "node", ""), rejected)] if rejected else [])


def _precision_lines(content: Record) -> list[str]:
    lowered, kept = content["lowered"], content["kept"]
    return [
        f"{content['mode']}: {count_of(len(lowered), 'node')} lowered",
        *(f"  {name}" for name in lowered),
        *([f"{count_of(len(kept), 'node')} kept"] if kept else []),
        *(f"  {name}" for name in kept),
    ]


def _memory_lines(content: Record) -> list[str]:
    rows = [(v["name"], v["dtype"], shape(v["storage_shape"]), v["format"], v["bytes"]) for v in content["largest"]]
    arena = f"arena {content['arena']} bytes, lower bound {content['lower_bound']}, without reuse {content['unshared']}"
    plans = [line for plan in content["plans"] for line in ("", *arena_lines(plan))]
    hint = [] if plans else ["for the plan of a run: --shape NAME=1,3,8,8"]
    return [
        arena if content["lower_bound"] is not None else largest_arena(content["arena"]),
        f"weights {content['weights']} bytes",
        *([] if content["scratch"] is None else [f"scratch {content['scratch']} bytes a thread, on this CPU"]),
        *(plans or hint),
        "",
        *table(("largest values", "dtype", "stored", "format", "bytes"), rows, right=(4,)),
    ]


def _provenance_lines(content: Record) -> list[str]:
    source = content["source"]
    rows = [
        ("model sha256", source["sha256"]),
        ("producer", source["producer"]),
        ("opsets", " ".join(f"{domain} {version}" for domain, version in source["opsets"].items())),
        ("command", content["atc_cmdline"]),
        ("atcpy", content["atcpy_version"]),
        ("sealed sha256", content["sealed_sha256"]),
    ]
    removed = list(content["removed"].items())
    return table(("", ""), rows)[1:] + (["", *table(("node that has no task", "why"), removed)] if removed else [])


_TEXT: Mapping[str, Callable[[Any], list[str]]] = {
    "io": _io_lines,
    "nodes": _node_lines,
    "tasks": _task_lines,
    "plans": _plan_lines,
    "weights": _weight_lines,
    "passes": _pass_lines,
    "precision": _precision_lines,
    "memory": _memory_lines,
    "provenance": _provenance_lines,
}


def node_lines(record: Record) -> list[str]:
    """What `inspect --node` prints."""
    if "removed" in record:
        return [f"{record['name']}: has no task ({record['removed']})"]
    lines = [f"{record['name']}  {record['op']}  {record['engine'] or 'nothing to run'}"]
    lines += [f"  reads   {name}" for name in record["inputs"]]
    lines += [f"  makes   {value['name']}  {_tensor(value)}" for value in record["outputs"]]
    lines += [f"  kernel  {task['kernel']} (task {task['task']})" for task in record["tasks"]]
    lines += [f"  from    {', '.join(record['sources'])}"] if record["sources"] else []
    return lines + ([f"  passes  {', '.join(record['passes'])}"] if record["passes"] else [])
