"""`atcpy run`: inputs through a package."""

from typing import Annotated, Any

import typer

from atcpy.cli.invocation import Invocation, require_with
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.cli.standard_streams import File

DEFAULT_TOP_K = 5


def run_(
    run: Invocation,
    package: Annotated[str, typer.Argument(metavar="F.om", help="The package."), File.READ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", metavar="[NAME=]V", help="a.npy, a.npz, a.bin, ones, zeros or random:SEED; repeatable."
        ),
    ] = None,
    npz: Annotated[
        list[str] | None,
        typer.Option(
            "--npz", metavar="F", help="Inputs by name, in one file, or in{rank}.npz; with --state several, one a run."
        ),
        File.READ,
    ] = None,
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
    aipp: Annotated[
        list[str] | None,
        typer.Option("--aipp", metavar="[NAME=]F.json", help="Settings of dynamic AIPP, for pictures; repeatable."),
    ] = None,
    labels: Annotated[str | None, typer.Option("--labels", metavar="F", help="A class a line."), File.READ] = None,
    top_k: Annotated[int, typer.Option("--top_k", min=1, help="How many classes to show.")] = DEFAULT_TOP_K,
    outputs: Annotated[str | None, typer.Option("--outputs", metavar="A,B", help="Only these outputs.")] = None,
    output_dir: Annotated[
        str | None, typer.Option("--output_dir", metavar="D", help="Write each output as .npy, and outputs.json.")
    ] = None,
    npz_out: Annotated[
        str | None, typer.Option("--npz_out", metavar="F", help="Write all outputs to one file."), File.WRITTEN
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
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="OUT=IN",
            help="The output is the input of the next run: a cache that grows, or with --iterations a state that keeps "
            "its shape; `*` is any text; repeatable.",
        ),
    ] = None,
    capacity: Annotated[
        int | None, typer.Option("--capacity", min=1, metavar="N", help="Rows that caches have room for: 2048.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            min=1,
            max=2**31 - 1,
            metavar="N",
            help="Run it N times in one call; an input with an axis of size N more, in front, has a value for each.",
        ),
    ] = None,
    collect: Annotated[
        str | None,
        typer.Option("--collect", metavar="A,B", help="With --iterations: all results of these outputs, not the last."),
    ] = None,
    check_finite: Annotated[bool, typer.Option("--check_finite", help="Fail on NaN or infinity.")] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="F.json",
            help="Run once more and write when each task ran, for Perfetto; {rank} is the number of a rank.",
        ),
    ] = None,
    require_signature: RequireSignature = None,
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Run it in a process that can open no file or connection and start no program."),
    ] = False,
    **options: Any,
) -> Outcome:
    """Run a package on arrays or pictures."""
    from atcpy.cli.job import DEFAULT_CAPACITY, InputSources, Job, OutputRequest, check_iterations
    from atcpy.runtime.distributed.launch import RankSetup, find_launch

    check_iterations(iterations, collect, capacity, len(npz or []))
    for option, other, is_given, is_used in (
        ("mean", "image", mean is not None, image),
        ("std", "image", std is not None, image),
        ("layout", "image", layout != "NCHW", image),
        ("top_k", "labels", top_k != DEFAULT_TOP_K, labels is not None),
        ("capacity", "state", capacity is not None, state),
    ):
        require_with(option, other, is_given=is_given, is_used=bool(is_used))

    sources = InputSources(inputs or [], npz or [], fill, shape or [], image or [], mean, std, layout, aipp or [])
    request = OutputRequest(outputs, output_dir, npz_out, labels, top_k, check_finite)
    collected = [name.strip() for name in collect.split(",")] if collect else []
    job = Job(
        package,
        sources,
        request,
        state or [],
        capacity or DEFAULT_CAPACITY,
        iterations,
        collected,
        options["custom_ops"],
        run.option("threads"),
        run.option("memory_limit"),
        require_signature,
        profile,
    )
    launch = find_launch()
    if profile is not None:
        from atcpy.cli.profile import check_profile

        all_ranks = max(ranks, simulate_ranks, launch.ranks)
        check_profile(profile, ranks=all_ranks, sandbox=sandbox, iterations=iterations)
    if sandbox:
        from atcpy.cli.sandbox import run_sandboxed

        return run_sandboxed(job, ranks=max(ranks, simulate_ranks, launch.ranks))
    if max(ranks, simulate_ranks, launch.ranks) == 1:
        require_with("groups", "ranks", is_given=groups is not None, is_used=False)
        job.prepare()
        return job.on_single_rank()
    from atcpy.cli.ranks import run_on_ranks

    return run_on_ranks(run, job, RankSetup(launch, ranks, simulate_ranks, groups, wait))
