"""`atcpy inspect`: what is in a package, and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation, require_with
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.cli.standard_streams import File
from atcpy.errors import UsageError, Where, group, raise_os_error
from atcpy.files import open_file

if TYPE_CHECKING:
    from atcpy.om.package import Package
    from atcpy.report.arena_plans import Shapes
    from atcpy.report.package import PackageView

_MAGIC = b"IMOD"


def inspect(
    run: Invocation,
    file: Annotated[str, typer.Argument(metavar="F", help="A package, or a model."), File.READ],
    io: Annotated[bool, typer.Option("--io", help="Inputs and outputs.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="The optimised graph.")] = False,
    tasks: Annotated[bool, typer.Option("--tasks", help="Kernel launches.")] = False,
    plans: Annotated[bool, typer.Option("--plans", help="Plans for open dims, and the sizes that they serve.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="Constants.")] = False,
    passes: Annotated[bool, typer.Option("--passes", help="What each pass did, and why not more.")] = False,
    precision: Annotated[bool, typer.Option("--precision", help="What was lowered.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="The arena, its lower bound, and the values that bound its peak.")
    ] = False,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="F.svg", help="With --memory: draw the arena, offset by time.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape", metavar="NAME=1,3,8,8", help="With --memory: sizes of an input's open dims; repeatable."
        ),
    ] = None,
    provenance: Annotated[bool, typer.Option("--provenance", help="Where it came from.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="All tables.")] = False,
    model_info: Annotated[bool, typer.Option("--model_info", help="ATC's block of model information first.")] = False,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="One node, by its or the model's name.")
    ] = None,
    gear: Annotated[
        int, typer.Option("--gear", metavar="N", min=0, help="Of a package with gears: which one, from 0.")
    ] = 0,
    require_signature: RequireSignature = None,
    **options: Any,
) -> Outcome:
    """Show what is in a package."""
    requested = {
        "io": io, "nodes": nodes, "tasks": tasks, "plans": plans, "weights": weights, "passes": passes,
        "precision": precision, "memory": memory, "provenance": provenance,
    }  # fmt: skip
    custom_ops.load(options["custom_ops"])
    chosen = [name for name, is_requested in requested.items() if is_requested or all_]
    path = Path(file)
    for name, value in (("svg", svg), ("shape", shape)):
        require_with(name, "memory", is_given=bool(value), is_used="memory" in chosen)
    if not is_package(path):
        if require_signature is not None:
            what = f"--require_signature: {path} is a model, and only a package is signed"
            raise UsageError("E10057", what, where=Where(option="require_signature"), hint="drop it")
        return _model(run, path, chosen, node)
    return _package(path, chosen, node, gear, require_signature, shape or [], svg, model_info=model_info)


def is_package(path: Path) -> bool:
    """Does the file begin as packages do, or is it named like one?"""
    if path.suffix == ".om":
        return True
    try:
        with open_file(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except IsADirectoryError:
        return False
    except OSError as error:
        raise_os_error(error, str(path))


def _package(
    path: Path,
    chosen: list[str],
    node: str | None,
    gear: int,
    require_signature: list[str] | None,
    shapes: list[str],
    svg: str | None,
    *,
    model_info: bool,
) -> Outcome:
    from atcpy.om.signature import read_public_keys
    from atcpy.report.package import NOT_FOR_CANN, PackageView, node_lines, summary_lines, table_lines
    from atcpy.runtime.loader import missing_custom_ops

    view = PackageView(path, gear, read_public_keys(require_signature))
    if "memory" in chosen:
        view.shapes = shapes_of_plans(view.package, shapes, path, is_required=bool(shapes) or svg is not None)
    error = group(missing) if (missing := missing_custom_ops(view.package)) else None
    if node is not None:
        record = view.find_node(node)
        return Outcome({"node": record}, node_lines(record), error)
    summary = view.summary()
    tables: dict[str, Any] = {name: getattr(view, name)() for name in chosen}
    lines = [*(view.info_block() if model_info else ()), NOT_FOR_CANN, *summary_lines(summary)]
    for name, content in tables.items():
        lines += table_lines(name, content)
    if svg is not None:
        lines += ["", f"drawn   {_draw(Path(svg), view)}"]
    result = summary | {key: value for key, value in tables.items() if key not in summary} | _both(tables)
    return Outcome(result | ({} if svg is None else {"svg": svg}), lines, error)


def shapes_of_plans(package: "Package", texts: list[str], path: Path, *, is_required: bool) -> "Shapes | None":
    """The shapes of the inputs for which the plan of open dims is shown; None where all plans are of fixed sizes, or
    some are not known.
    """
    from atcpy.cli.arrays import read_shapes
    from atcpy.sizes import misfit
    from atcpy.verify.inputs import Port
    from atcpy.verify.sizes import is_open, with_sizes

    if not package.has_unknown_shapes:
        if not texts:
            return None
        hint = "--gear N chooses one of its gears" if package.gears else "drop it"
        what = f"--shape: the sizes of {path} are fixed"
        raise UsageError("E10057", what, where=Where(option="shape"), hint=hint)
    ports = [Port(port.name, port.dtype, tuple(port.shape or ())) for port in package.open_inputs]
    sized = with_sizes(ports, read_shapes(texts, ports))
    if unknown := next(filter(is_open, sized), None):
        if not is_required:
            return None
        dims = ",".join(map(str, unknown.shape))
        what = f"the memory plan depends on the sizes of the run: {unknown.name} is [{dims}]"
        raise UsageError("E10054", what, where=Where(option="shape"), hint=f"--shape {unknown.name}={dims}, in numbers")
    found = {port.name: tuple(dim for dim in port.shape if isinstance(dim, int)) for port in sized}
    sizes: dict[str, int] = {}
    for port in package.open_inputs:
        problem = misfit(port.shape, port.ranges, found[port.name], sizes)
        if problem:
            dims = ",".join(map(str, port.shape or ()))
            what = f"--shape: {port.name} is [{dims}], not {list(found[port.name])}{problem.rstrip()}"
            raise UsageError("E10405", what, where=Where(option="shape", value=port.name))
    return found


def _draw(path: Path, view: "PackageView") -> str:
    """Draw the largest of the memory plans; return the path, and which plan it is if there are several."""
    from atcpy.om.atomic import atomic_write
    from atcpy.report.memory_svg import draw_arena

    plan = max(view.arena_plans, key=lambda plan: plan.arena_bytes)
    title = f"{view.path.name}, plan {plan.plan}" if plan.plan else view.path.name
    atomic_write(path, [draw_arena(plan, title).encode("utf-8", "replace")])
    return f"{path}   (plan {plan.plan})" if plan.plan else str(path)


def _both(tables: dict[str, Any]) -> dict[str, Any]:
    """Tables whose name the summary has, too, replace its shorter form."""
    return {key: tables[key] for key in ("plans", "passes", "precision", "memory") if key in tables}


def _model(run: Invocation, path: Path, chosen: list[str], node: str | None) -> Outcome:
    from atcpy.report.model import model_lines, model_record

    packaged = sorted({*chosen} - {"io", "nodes", "provenance"})
    if node is not None or packaged:
        option = "node" if node is not None else packaged[0]
        what = f"--{option}: {path} is a model, and only a package has that"
        hint = f"atcpy convert --model {path}, and inspect the package"
        raise UsageError("E10057", what, where=Where(option=option), hint=hint)
    record = model_record(path, allow_hardlinks=run.option("allow_hardlinks"))
    return Outcome(record, model_lines(record, nodes="nodes" in chosen))
