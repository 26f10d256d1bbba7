"""The sections of the page that need no script: facts, counts by stage, passes and their reasons, memory, times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from atcpy.errors import count_of
from atcpy.ir import PassRecord, Reject
from atcpy.ir.decisions import Matched
from atcpy.report.allreduce import allreduce_line
from atcpy.report.memory_svg import draw_arena
from atcpy.report.package import PackageView, Record
from atcpy.report.page.accuracy import ComparedValue, worst_first
from atcpy.report.page.graph import shown_nodes
from atcpy.report.page.markup import Content, Html, details, element, join, scrolling, table
from atcpy.report.page.measured import Measured, MeasuredTask
from atcpy.report.page.roofline import draw_roofline
from atcpy.report.profile import roofline_line
from atcpy.report.units import counts, duration, largest_arena, planned, shape, size, states, streams, weight_files

_MAX_TASKS = 200  # rows of a table of tasks that is there without a script
_MAX_EXAMPLES = 5  # of a reason, or of what a pass rewrote
_MAX_REASONS = 30  # of a pass
_MAX_OPS = 60
_MAX_TIMES = 100


def section(name: str, title: str, *children: Content) -> Html:
    """A section that others link to."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def facts(rows: Iterable[tuple[str, Content]]) -> Html:
    """Names and what they are."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in rows))


# --------------------------------------------------------------------------------------------------------------------
# The package


def overview(view: PackageView, summary: Record) -> Html:
    """What it is, and what it came from."""
    return section("overview", "Package", facts(_facts(view, summary)))


def _facts(view: PackageView, summary: Record) -> Iterator[tuple[str, Content]]:
    source, memory = summary["source"], summary["memory"]
    opsets = " ".join(f"{domain} {version}" for domain, version in source["opsets"].items())
    yield "file", f"{view.path.name}, {size(summary['bytes'])}"
    yield "sha256", summary["sha256"]
    yield "from", f"{source['framework']} ({opsets}{', ' + source['producer'] if source['producer'] else ''})"
    yield "model's sha256", source["sha256"]
    yield "command", summary["atc_cmdline"]
    yield "chip", summary["soc"]
    yield "atcpy", summary["atcpy_version"]
    if summary["signed_by"] is not None:
        yield "signed by", f"{summary['signed_by']} ({'checked' if summary['signature_checked'] else 'not checked'})"
    for kind in ("inputs", "outputs"):
        ports = [f"{port['name']} {port['dtype']} {shape(port['shape'])}" for port in summary[kind]]
        yield kind, element("ul", *(element("li", port) for port in ports))
    if summary["gears"]:
        shown = f"gear {view.gear}: {summary['gears'][view.gear]}"
        yield "gears", f"{' · '.join(summary['gears'])}. This page shows {shown}"
    if summary["states"]:
        yield "states", states(summary["states"])
    if summary["weight_files"]["count"]:
        yield "weights", weight_files(**summary["weight_files"])
    arena = largest_arena(memory["arena"]) if summary["unknown_shapes"] else f"arena {size(memory['arena'])}"
    yield "memory", f"{arena} · weights {size(memory['weights'])}"


def notes(view: PackageView, summary: Record) -> Html:
    """What is worth a look: what runs slowly, needs more than the package, or takes more memory than it must."""
    found = list(_notes(view, summary))
    items = element("ul", *(element("li", note) for note in found)) if found else element("p", "Nothing.")
    return section("notes", "Worth a look", items)


def _notes(view: PackageView, summary: Record) -> Iterator[str]:
    if summary["host_cpu_ops"]:
        ops = counts({op["op"]: op["count"] for op in summary["host_cpu_ops"]})
        yield f"No kernel runs {ops}: numpy does, slowly."
    if summary["custom_ops"]:
        yield f"It needs operators of your own: {', '.join(summary['custom_ops'])}."
    if summary["unknown_shapes"] and not summary["plans"]:
        yield "It has no plans: it is compiled for the shapes that it meets."
    memory = summary["memory"]
    if memory["lower_bound"] and memory["arena"] > 1.05 * memory["lower_bound"]:
        yield f"The arena is {memory['arena'] / memory['lower_bound']:.2f} times its lower bound."
    if view.model.graph.decisions.allreduce is not None:
        yield allreduce_line(summary["allreduce"])


# --------------------------------------------------------------------------------------------------------------------
# Stages and passes


def stages(view: PackageView, summary: Record) -> Html:
    """What each stage did, in numbers."""
    records = view.graph.decisions.passes
    names = list(dict.fromkeys(record.stage for record in records))
    rows: list[tuple[str | int, ...]] = []
    for name in names:
        own = [record for record in records if record.stage == name]
        applied = [record for record in own if record.applied]
        sums = (sum(record.matched for record in own), sum(record.applied for record in own))
        rows.append((name, len(own), len(applied), *sums, sum(len(record.rejects) for record in own)))
    rows.append(("all", *(sum(int(row[column]) for row in rows) for column in range(1, 6))))
    nodes = [node for node in shown_nodes(view.graph) if not node.is_structural]
    became = planned(
        summary["unknown_shapes"], summary["task_count"], summary["plans"], len(summary["gears"]),
        guards=summary["guards"],
    )  # fmt: skip
    lines: list[tuple[str, Content]] = [
        ("nodes of the model", summary["nodes_before"]),
        (
            "nodes of the graph",
            f"{len(nodes)}, and {count_of(len(view.graph) - len(shown_nodes(view.graph)), 'constant')}",
        ),
        ("plan", became),
        ("engines", counts(summary["engines"])),
    ]
    if summary["streams"]["sections"]:
        lines.append(("streams", streams(**summary["streams"])))
    head = ("stage", "passes that ran", "that applied", "matches", "applied", "reasons against")
    why = Counter(view.graph.decisions.removed.values())
    gone = table("Nodes of the model that have no task, by cause", ("cause", "nodes"), why.most_common(), right=(1,))
    return section(
        "stages", "Stages", facts(lines), table("Passes by stage", head, rows, right=range(1, 6)), gone if why else ""
    )


def passes(view: PackageView) -> Html:
    """What each pass rewrote, and why not more."""
    records = view.graph.decisions.passes
    shown = [_pass(record) for record in records if record.matched or record.rejects]
    idle = [record.name for record in records if not (record.matched or record.rejects)]
    rest = details(f"{count_of(len(idle), 'pass', 'passes')} found nothing", element("p", ", ".join(idle)))
    intro = element(
        "p", "Passes that matched anything, in the order in which they ran. A reason is explained in add-a-pass.md."
    )
    return section("passes", "Fusions and other passes", intro, *shown, rest if idle else "")


def _pass(record: PassRecord) -> Html:
    left = sum(1 for _ in _matches(record.rejects))
    title = join(
        [element("b", record.name), f" {record.stage}: matched {record.matched}, applied {record.applied}"]
        + ([f", left alone {left}"] if left else [])
    )
    content: list[Content] = []
    if record.fired:
        examples = [element("li", _names(nodes)) for nodes in record.fired[:_MAX_EXAMPLES]]
        more = len(record.fired) - len(examples)
        content += [element("p", "Applied to"), element("ul", *examples, *_more(more))]
    if record.rejects:
        groups: dict[str, list[Reject]] = defaultdict(list)
        for reject in record.rejects:
            groups[reject.reason].append(reject)
        rows = sorted(groups.items(), key=lambda group: -len(group[1]))
        cells = [(reason, len(rejects), _examples(rejects)) for reason, rejects in rows[:_MAX_REASONS]]
        content.append(table(f"Why {record.name} left matches alone", ("reason", "times", "where"), cells, right=(1,)))
    return details(title, *content)


def _matches(rejects: Iterable[Reject]) -> Iterator[tuple[str, ...]]:
    """The matches that were left alone, each of which may have several reasons."""
    yield from dict.fromkeys(tuple(_name(node) for node in reject.nodes) or (reject.where,) for reject in rejects)


def _examples(rejects: Sequence[Reject]) -> Html:
    lines = []
    for reject in rejects[:_MAX_EXAMPLES]:
        pair = f"{_names(reject.nodes)}: " if len(reject.nodes) > 1 else ""
        lines.append(f"{pair}{reject.where}{f' ({reject.detail})' if reject.detail else ''}")
    return element("ul", *(element("li", line) for line in lines), *_more(len(rejects) - len(lines)))


def _more(count: int) -> list[Html]:
    return [element("li", f"and {count} more")] if count > 0 else []


def _names(nodes: Matched) -> str:
    """The nodes of a match in the order in which they run."""
    return " + ".join(f"{node[0]} {_name(node)}" for node in reversed(nodes))


def _name(node: tuple[str, ...]) -> str:
    return node[-1] if len(node) == 2 else f"{node[1]} … {node[-1]}" if len(node) > 2 else node[0]


# --------------------------------------------------------------------------------------------------------------------
# Tasks and memory


def operators(tasks: Sequence[Record]) -> Html:
    """How often each op runs, where, and by which kernel."""
    found = Counter((task["op"], task["engine"] or "", task["kernel"]) for task in tasks)
    rows = [(*key, count) for key, count in found.most_common(_MAX_OPS)]
    rest = element("p", f"and {len(found) - len(rows)} more") if len(found) > len(rows) else ""
    head = ("op", "engine", "kernel on this CPU", "tasks")
    return section("operators", "Tasks by op", table("Tasks by op, engine and kernel", head, rows, right=(3,)), rest)


def task_table(tasks: Sequence[Record]) -> Html:
    """The first tasks, for who has no scripts."""
    rows = [
        (
            task["task"], task["op"], task["name"], task["kernel"], task["engine"] or "",
            " ".join(f"{v['dtype']} {shape(v['storage_shape'])} {v['format']}" for v in task["outputs"]),
            ", ".join(task["sources"][:_MAX_EXAMPLES]),
        )
        for task in tasks[:_MAX_TASKS]
    ]  # fmt: skip
    rest = f" The first {_MAX_TASKS} of {len(tasks)}." if len(tasks) > _MAX_TASKS else ""
    head = ("task", "op", "node", "kernel", "engine", "outputs", "from")
    note = element("p", "The graph needs scripts, which are off. These are its tasks." + rest)
    return element("noscript", note, table("Tasks", head, rows, right=(0,)))


def memory(view: PackageView, summary: Record) -> Html:
    """The arena by time, for each of its plans."""
    plans = view.arena_plans
    if not plans:
        hint = "The memory plan depends on the sizes of a run: atcpy report --shape NAME=1,3,8,8 draws it."
        return section("memory", "Memory by time", element("p", hint))
    record = summary["memory"]
    lines: list[tuple[str, Content]] = [("weights", f"{record['weights']} bytes")]
    if record["unshared"] is not None:
        lines.append(("without reuse", f"{record['unshared']} bytes"))
    if record["scratch"] is not None:
        lines.append(("scratch of a thread", f"{record['scratch']} bytes, on this CPU"))
    plan = max(plans, key=lambda plan: plan.arena_bytes)
    others = element("p", f"The largest of {len(plans)} plans.") if len(plans) > 1 else ""
    title = f"{view.path.name}, plan {plan.plan}" if plan.plan else view.path.name
    picture = scrolling("The arena by time", Html(draw_arena(plan, title)))
    return section("memory", "Memory by time", facts(lines), others, picture)


# --------------------------------------------------------------------------------------------------------------------
# Times


def times(measured: Measured) -> Html:
    """Tasks by time, against the roofline if it was measured."""
    tasks = sorted(measured.tasks, key=lambda task: -task.seconds)
    total = sum(task.seconds for task in tasks)
    content: list[Content] = [
        element("p", f"{count_of(len(tasks), 'task')}, {duration(total)} a run, from {measured.origin}.")
    ]
    if measured.roofline is not None:
        content.append(element("p", roofline_line(measured.roofline)))
        picture = draw_roofline(tasks, measured.roofline)
        if picture is not None:
            left_out = sum(1 for task in tasks if not task.flops)
            note = f" {count_of(left_out, 'task')} that sum no products are not in it." if left_out else ""
            circles = "A circle is a task, larger the more time it takes, in the colour of its kernel's family"
            explained = f"{circles}; lines are the peaks; those that lose most are named.{note}"
            content += [scrolling("Tasks against the roofline", picture), element("p", explained)]
    head = ("op", "node", "kernel", "time", "share", "GFLOP/s", "GB/s", "roofline")
    rows = [_time_row(task, total) for task in tasks[:_MAX_TIMES]]
    content.append(table("Tasks by time", head, rows, right=range(3, 8)))
    if len(tasks) > _MAX_TIMES:
        content.append(element("p", f"and {len(tasks) - _MAX_TIMES} tasks of less time"))
    return section("times", "Layers against the roofline", *content)


def _time_row(task: MeasuredTask, total: float) -> tuple[Content, ...]:
    def rate(amount: float | None) -> str:
        return "-" if not amount or not task.seconds else f"{amount * 1e-9 / task.seconds:.3g}"

    return (
        task.op,
        task.node or ", ".join(task.sources[:_MAX_EXAMPLES]),
        task.kernel,
        duration(task.seconds),
        f"{task.seconds / total:.1%}" if total else "-",
        rate(task.flops),
        rate(task.nbytes),
        "-" if task.floor is None or not task.seconds else f"{task.floor / task.seconds:.0%}",
    )


# --------------------------------------------------------------------------------------------------------------------
# Accuracy


def accuracy(compared: Sequence[ComparedValue]) -> Html:
    """Values of the package against those of the model, the worst first."""
    worst = worst_first(compared)
    differing = sum(not value.passed for value in compared)
    verdict = (
        f"{differing} of them differ by more than is allowed" if differing else "none differs by more than is allowed"
    )
    head = ("op", "node", "value", "max error", "allowed", "share of that", "")
    rows = [
        (
            value.op,
            value.node,
            value.value,
            f"{value.max_abs:.3g}",
            f"{value.allowed:.3g}",
            f"{value.share:.2g}",
            "" if value.passed else "differs",
        )
        for value in worst[:_MAX_TIMES]
    ]
    more = element("p", f"and {len(worst) - len(rows)} values that are nearer") if len(worst) > len(rows) else ""
    intro = element("p", f"{count_of(len(compared), 'value')} compared with the model; {verdict}.")
    return section("accuracy", "Accuracy by layer", intro, table("Values by error", head, rows, right=(3, 4, 5)), more)
