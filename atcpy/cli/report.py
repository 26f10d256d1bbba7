"""`atcpy report`: a package as one page of HTML."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.inspect import shapes_of_plans
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.errors import UsageError, Where


def report(
    run: Invocation,
    package: Annotated[str, typer.Argument(metavar="M.om", help="The package.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="F.html", help="The page; default: M.html.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="J", help="Show the times of a trace of run --profile.")
    ] = None,
    bench: Annotated[
        str | None, typer.Option("--bench", metavar="J", help="Show the times of bench --layers --json.")
    ] = None,
    accuracy: Annotated[
        str | None, typer.Option("--accuracy", metavar="J", help="Show the errors of verify --layers --json.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,8,8", help="Sizes of an input's open dims, for the memory plan."),
    ] = None,
    gear: Annotated[
        int, typer.Option("--gear", metavar="N", min=0, help="Of a package with gears: which one, from 0.")
    ] = 0,
    require_signature: RequireSignature = None,
    **options: Any,
) -> Outcome:
    """Write what is in a package as one page that browsers open without a network."""
    from atcpy.om.atomic import atomic_write, require_writable
    from atcpy.om.signature import read_public_keys
    from atcpy.report.package import PackageView
    from atcpy.report.page.accuracy import read_accuracy
    from atcpy.report.page.measured import read_bench, read_profile
    from atcpy.report.page.page import report_page
    from atcpy.report.units import size

    path = Path(package)
    custom_ops.load(options["custom_ops"])
    if profile is not None and bench is not None:
        what = "--profile and --bench: a page shows the times of one"
        raise UsageError("E10056", what, where=Where(option="bench"), hint="give one of them")
    target = path.with_suffix(".html") if output is None else Path(output)
    require_writable(target)
    view = PackageView(path, gear, read_public_keys(require_signature))
    view.shapes = shapes_of_plans(view.package, shape or [], path, is_required=bool(shape))
    measured = read_profile(profile) if profile else read_bench(bench) if bench else None
    compared = None if accuracy is None else read_accuracy(accuracy)
    page = report_page(view, measured, compared).encode("utf-8", "replace")
    atomic_write(target, [page])
    result = {"output": str(target), "bytes": len(page), "nodes": len(view.nodes()), "tasks": len(view.tasks())}
    return Outcome(result, [f"{target}  {size(len(page))}"])
