"""`atcpy inspect`: what is in a package, and why."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.errors import UsageError, Where, group, raise_os_error
from atcpy.files import open_file

_MAGIC = b"IMOD"


def inspect(
    run: Invocation,
    file: Annotated[str, typer.Argument(metavar="F", help="A package, or a model.")],
    io: Annotated[bool, typer.Option("--io", help="Inputs and outputs.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="The optimised graph.")] = False,
    tasks: Annotated[bool, typer.Option("--tasks", help="Kernel launches.")] = False,
    plans: Annotated[bool, typer.Option("--plans", help="Plans for open dims, and the sizes that they serve.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="Constants.")] = False,
    passes: Annotated[bool, typer.Option("--passes", help="What each pass did, and why not more.")] = False,
    precision: Annotated[bool, typer.Option("--precision", help="What was lowered.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="The plan.")] = False,
    provenance: Annotated[bool, typer.Option("--provenance", help="Where it came from.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="All tables.")] = False,
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
    if not is_package(path):
        if require_signature is not None:
            what = f"--require_signature: {path} is a model, and only a package is signed"
            raise UsageError("E10057", what, where=Where(option="require_signature"), hint="drop it")
        return _model(run, path, chosen, node)
    return _package(path, chosen, node, gear, require_signature)


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
    path: Path, chosen: list[str], node: str | None, gear: int, require_signature: list[str] | None
) -> Outcome:
    from atcpy.om.signature import read_public_keys
    from atcpy.report.package import PackageView, node_lines, summary_lines, table_lines
    from atcpy.runtime.loader import missing_custom_ops

    view = PackageView(path, gear, read_public_keys(require_signature))
    error = group(missing) if (missing := missing_custom_ops(view.package)) else None
    if node is not None:
        record = view.find_node(node)
        return Outcome({"node": record}, node_lines(record), error)
    summary = view.summary()
    tables: dict[str, Any] = {name: getattr(view, name)() for name in chosen}
    lines = [*view.info_block(), *summary_lines(summary)]
    for name, content in tables.items():
        lines += table_lines(name, content)
    result = summary | {key: value for key, value in tables.items() if key not in summary} | _both(tables)
    return Outcome(result, lines, error)


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
