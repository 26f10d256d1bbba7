"""`atcpy run`: inputs through a package."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import ARGUMENTS, Invocation, Outcome, command
from atcpy.errors import AtcError, AtcWarning, UsageError, VerifyFailed, Where, group, raise_os_error
from atcpy.report.units import duration
from atcpy.report.units import shape as shape_text

if TYPE_CHECKING:
    from atcpy.runtime.collectives import World
    from atcpy.verify.inputs import Array, Feeds, Port

_FIRST_VALUES = 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, table=custom_ops.TABLE)(run_)


def run_(
    run: Invocation,
    package: Annotated[str, typer.Argument(metavar="F.om", help="The package.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="[NAME=]V", help="a.npy, a.npz, ones, zeros or random:SEED; repeatable."),
    ] = None,
    npz: Annotated[str | None, typer.Option("--npz", metavar="F", help="Inputs by name, in one file.")] = None,
    fill: Annotated[
        str | None, typer.Option("--fill", metavar="F", help="For the other inputs: ones, zeros or random:SEED.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,8,8", help="Sizes of an input's open dims; repeatable."),
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option("--image", metavar="[NAME=]P", help="A picture, PNG or JPEG; repeatable.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option("--mean", help="Of a picture's levels 0..255: one, or one a channel.")
    ] = None,
    std: Annotated[str | None, typer.Option("--std", help="A picture is (level - mean) / std.")] = None,
    layout: Annotated[
        str, typer.Option("--layout", help="Of the input that takes the picture: NCHW or NHWC.")
    ] = "NCHW",
    labels: Annotated[str | None, typer.Option("--labels", metavar="F", help="A class a line.")] = None,
    top_k: Annotated[int, typer.Option("--top_k", min=1, help="How many classes to show.")] = 5,
    outputs: Annotated[str | None, typer.Option("--outputs", metavar="A,B", help="Only these outputs.")] = None,
    output_dir: Annotated[
        str | None, typer.Option("--output_dir", metavar="D", help="Write each output as .npy, and outputs.json.")
    ] = None,
    npz_out: Annotated[
        str | None, typer.Option("--npz_out", metavar="F", help="Write all outputs to one file.")
    ] = None,
    ranks: Annotated[
        int, typer.Option("--ranks", min=1, metavar="N", help="Run on so many ranks, processes of MPI.")
    ] = 1,
    simulate_ranks: Annotated[
        int, typer.Option("--simulate_ranks", min=1, max=10_000, metavar="N", help="The same as threads of this one.")
    ] = 1,
    groups: Annotated[
        str | None, typer.Option("--groups", metavar="F", help="JSON: the ranks of each group of collectives.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0.1, metavar="S", help="Most seconds that a rank waits for others.")
    ] = 60.0,
    check_finite: Annotated[bool, typer.Option("--check_finite", help="Fail on NaN or infinity.")] = False,
    **options: Any,
) -> Outcome:
    """Run a package on arrays or pictures."""
    from atcpy import InferenceSession
    from atcpy.cli import ranks as several
    from atcpy.cli.arrays import read_shapes
    from atcpy.runtime.agreement import read_groups
    from atcpy.runtime.collectives import Alone, World
    from atcpy.verify.sizes import with_sizes
    from atcpy.verify.verification import session_ports

    custom_ops.load(options["custom_ops"])
    classes = None if labels is None else read_labels(labels)

    def work(world: World) -> Outcome:
        threads = run.option("threads") or max(1, run.threads // world.ranks)
        session = InferenceSession(package, threads=threads, world=world)
        ports = session_ports(session)
        ports = with_sizes(ports, read_shapes(shape or [], ports))
        given = several.for_rank(inputs or [], [port.name for port in ports], world.rank, world.ranks)
        feeds = gather_feeds(ports, given, npz, fill)
        feeds |= _pictures(ports, image or [], mean, std, layout)
        names = [o.strip() for o in outputs.split(",")] if outputs else [arg.name for arg in session.get_outputs()]
        started = time.perf_counter()
        arrays = dict(zip(names, session.run(names, feeds), strict=True))
        seconds = time.perf_counter() - started
        paths = _save(arrays, output_dir, npz_out, world)
        records = [describe(name, array, paths.get(name)) for name, array in arrays.items()]
        if classes is not None:
            for record, array in zip(records, arrays.values(), strict=True):
                if array.ndim and array.shape[-1] == len(classes):
                    record["top"] = best_classes(array, classes, top_k)
        on = f" on {world.ranks} ranks" if world.ranks > 1 else ""
        lines = [*_lines(records, arrays), f"ran in {duration(seconds)}{on}"]
        error = _not_finite(records) if check_finite else None
        return Outcome({"outputs": records, "seconds": seconds}, lines, error)

    count = _count_ranks(ranks, simulate_ranks)
    if count == 1:
        return work(Alone())
    members = {} if groups is None else read_groups(groups, count)
    if several.launched_ranks() > 1:
        return several.join(run, work, members, wait)
    session = InferenceSession(package, threads=1, verify="header")
    if not session.has_collectives:
        outcome = work(Alone())
        name = "--ranks" if ranks > 1 else "--simulate_ranks"
        unused = AtcWarning("W0012", f"{name} has no effect: the package has no collectives")
        return replace(outcome, warnings=[*outcome.warnings, unused])
    if simulate_ranks > several.MOST_SIMULATED:
        return several.predict(session, simulate_ranks)
    if simulate_ranks > 1:
        return several.simulate(work, count, members, wait)
    outcome = several.start(run, ARGUMENTS.get(), count)
    return replace(outcome, warnings=[*outcome.warnings, *several.crowd(count)])


def _count_ranks(ranks: int, simulated: int) -> int:
    from atcpy.cli.ranks import launched_ranks

    launched = launched_ranks()
    if ranks > 1 and simulated > 1:
        raise UsageError("E10056", "--ranks and --simulate_ranks exclude each other")
    if launched > 1 and ranks not in (1, launched):
        raise UsageError("E10013", f"--ranks {ranks}: mpiexec started {launched}", where=Where(option="ranks"))
    return launched if launched > 1 else max(ranks, simulated)


def _save(arrays: "dict[str, Array]", folder: str | None, npz: str | None, world: "World") -> dict[str, str]:
    """Writes the outputs; the paths in the folder by name. Each rank has a folder in it; rank 0 writes the one file."""
    from atcpy.cli.arrays import save_folder, save_npz

    if npz and (world.rank == 0 or "{rank}" in npz):
        save_npz(Path(npz.replace("{rank}", str(world.rank)) if world.ranks > 1 else npz), arrays)
    if not folder:
        return {}
    return save_folder(Path(folder) / f"rank{world.rank}" if world.ranks > 1 else Path(folder), arrays)


def gather_feeds(ports: "Sequence[Port]", inputs: Sequence[str], npz: str | None, fill: str | None) -> "Feeds":
    """The arrays for a package's inputs, from all that the command line gives."""
    from atcpy.cli.arrays import load_npz, read_input, split_assignment
    from atcpy.verify.inputs import Fill, make_feeds

    feeds = {} if npz is None else load_npz(npz)
    for text in inputs:
        port, value = split_assignment("input", text, ports)
        feeds[port.name] = read_input(port, value)
    if fill is not None:
        feeds = make_feeds(ports, Fill.read(fill)) | feeds
    return feeds


def _pictures(
    ports: "Sequence[Port]", images: Sequence[str], mean: str | None, std: str | None, layout: str
) -> "Feeds":
    from atcpy.cli.arrays import read_image, split_assignment

    feeds = {}
    for text in images:
        port, path = split_assignment("image", text, ports)
        feeds[port.name] = read_image(port, path, mean=mean, std=std, layout=layout)
    return feeds


def read_labels(path: str) -> list[str]:
    """The lines of a file; line i is the name of class i."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError("E13005", f"{path} is not UTF-8 text", where=Where(file=path)) from error
    except OSError as error:
        raise_os_error(error, path)


def describe(name: str, array: "Array", path: str | None) -> dict[str, Any]:
    """An output in figures."""
    import numpy as np

    from atcpy.ir import DType

    dtype = DType.from_numpy(array.dtype)
    record: dict[str, Any] = {"name": name, "dtype": dtype.long, "shape": list(array.shape)}
    record |= {"min": None, "max": None, "mean": None, "nan": 0, "inf": 0, "path": path}
    if dtype is DType.STRING or dtype in (DType.COMPLEX64, DType.COMPLEX128):
        return record
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        record |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return record | {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}


def best_classes(array: "Array", classes: Sequence[str], count: int) -> list[dict[str, Any]]:
    """The classes with the highest scores, of the first row."""
    import numpy as np

    scores = array.reshape(-1, len(classes))[0]
    order = np.argsort(-scores.astype(np.float64), kind="stable")[:count]
    return [{"label": classes[i], "index": int(i), "score": float(scores[i])} for i in order]


def _lines(records: Sequence[dict[str, Any]], arrays: "dict[str, Array]") -> Iterator[str]:
    for record, array in zip(records, arrays.values(), strict=True):
        figures = "  ".join(f"{key} {record[key]:.6g}" for key in ("min", "max", "mean") if record[key] is not None)
        odd = "".join(f"  {key} {record[key]}" for key in ("nan", "inf") if record[key])
        head = f"{record['name']}  {record['dtype']} {shape_text(record['shape'])}"
        yield f"{head}  {figures}{odd}   {_first(array)}".rstrip()
        for place, best in enumerate(record.get("top", ()), 1):
            yield f"  {place}  {best['label']}  {best['score']:.6g}"
        if record["path"]:
            yield f"  written to {record['path']}"


def _first(array: "Array") -> str:
    values = array.reshape(-1)[: _FIRST_VALUES + 1].tolist()
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values[:_FIRST_VALUES])
    return f"[{shown}{', …' if len(values) > _FIRST_VALUES else ''}]"


def _not_finite(records: Sequence[dict[str, Any]]) -> AtcError | None:
    problems = [
        VerifyFailed("V0002", f'output "{r["name"]}" has {r["nan"]} NaN and {r["inf"]} infinities')
        for r in records
        if r["nan"] or r["inf"]
    ]
    return group(problems) if problems else None
