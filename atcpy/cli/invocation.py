"""What all commands share: the common options, the envelope of `--json`, errors and their exit codes.

A command is a function `(run, …) -> Outcome`.  `add_command` gives it the common options, prints what it returns, and
ends the process with its exit code; commands that take options of the conversion get them from the table in
`atcpy/options.py`, which is their one description.
"""

import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import typer

from atcpy import __version__
from atcpy.cli.console import Progress, wants_color, write_blocks, write_lines, write_result
from atcpy.cli.help import COMMON, GROUP_OF, GroupedCommand, help_of
from atcpy.cli.limits import Limits
from atcpy.cli.outcome import Outcome
from atcpy.cli.signals import announce_interrupt
from atcpy.cli.standard_streams import File, StandardStreams, file_parameters
from atcpy.errors import (
    INTERRUPTED,
    TERMINATED,
    AtcError,
    AtcWarning,
    InternalError,
    Terminated,
    UsageError,
    Where,
    as_known_error,
    render,
)
from atcpy.files import require_unchanged_files
from atcpy.options import OPTIONS, SOCS, Option, read_bool, read_choice, read_int
from atcpy.threads import cpu_quota

BROKEN_PIPE = 141
NEEDS_QUOTES = 'a value with ";" or a space needs quotes'


@dataclass
class Invocation:
    """The common options of one run of one command."""

    name: str
    json: bool = False
    quiet: bool = False
    verbosity: int = 0
    debug: bool = False
    werror: bool = False
    color: str = "auto"
    common: dict[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=lambda: Progress(verbosity=0, quiet=True))
    streams: StandardStreams = field(default_factory=StandardStreams)

    def option(self, name: str) -> Any:
        """The value of a common option of the table, read and checked."""
        value = self.common.get(name)
        return OPTIONS[name].default if value is None else OPTIONS[name].read(name, value)

    @property
    def threads(self) -> int:
        """The number of threads to use."""
        from atcpy.options import default_threads

        threads: int | None = self.option("threads")
        return default_threads() if threads is None else threads

    @property
    def thread_counts(self) -> list[int]:
        """The numbers of threads that `--threads` names: `bench` takes several, by commas."""
        text = self.common.get("threads")
        return [] if text is None else [read_int("threads", part, 1, 1024) for part in str(text).split(",")]

    def say(self, line: str, level: int = 1) -> None:
        """A line to stderr from `-v` (1) or `-vv` (2) on."""
        if self.verbosity >= level and not self.quiet:
            write_lines([line], sys.stderr)


def envelope(
    name: str,
    *,
    result: object = None,
    seconds: float = 0.0,
    exit_code: int = 0,
    errors: Iterable[dict[str, Any]] = (),
    warnings: Iterable[AtcWarning] = (),
) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "schema": f"atcpy.{name}/1",
        "version": __version__,
        "ok": exit_code == 0,
        "exit_code": exit_code,
        "seconds": round(seconds, 6),
        "result": result,
        "warnings": [warning.as_dict() for warning in warnings],
        "errors": list(errors),
    }


# --------------------------------------------------------------------------------------------------------------------
# Failures


def internal_as_dict(error: InternalError) -> dict[str, Any]:
    """A bug of ours as a member of `errors`."""
    return {
        "code": error.code,
        "kind": error.kind,
        "message": error.what,
        "where": error.where.as_dict(),
        "hint": error.hint,
        "more": 0,
    }


def render_internal(error: InternalError) -> str:
    """The text for a bug of ours: what to send, no traceback."""
    return (
        f"error[{error.code}] {error}\n"
        f"  this is a bug of atcpy {__version__}, not of your model\n"
        f"  help: please report it with the command, its output with --debug, and `atcpy doctor --bundle F.zip`"
    )


def fail(run: Invocation, error: AtcError | InternalError, outcome: Outcome | None, started: float) -> int:
    """Print a failure; its exit code."""
    run.progress.end()
    if run.json:
        errors = error.as_dicts() if isinstance(error, AtcError) else [internal_as_dict(error)]
        print_json(
            envelope(
                run.name,
                result=outcome.result if outcome else None,
                seconds=time.perf_counter() - started,
                exit_code=error.exit_code,
                errors=errors,
                warnings=outcome.warnings if outcome else (),
            ),
            run.streams.shown,
        )
    text = render(error) if isinstance(error, AtcError) else render_internal(error)
    if outcome is not None and outcome.verdict and not run.json and not run.quiet:
        text = outcome.verdict
    write_blocks(run.streams.shown(text), color=wants_color(run.color, sys.stderr))
    return error.exit_code


def print_json(value: object, shown: Callable[[str], str] = str) -> None:
    """Exactly one object, in one line, on stdout; `shown` is its text as users see it."""
    from atcpy.report.record import dumps

    write_lines([shown(dumps(value))], sys.stdout)


# --------------------------------------------------------------------------------------------------------------------
# The decorator


_option = partial(typer.Option, rich_help_panel=COMMON)
_COMMON: dict[str, Any] = {
    "json": Annotated[bool, _option("--json", help="Print one JSON object on stdout.")],
    "quiet": Annotated[bool, _option("--quiet", "-q", help="Print errors only.")],
    "verbose": Annotated[int, _option("--verbose", "-v", count=True, help="Say more; -vv still more.")],
    "debug": Annotated[bool, _option("--debug", help="Tracebacks; verify the graph after each pass.")],
    "werror": Annotated[bool, _option("--werror", help="Warnings are errors.")],
    "color": Annotated[str, _option("--color", metavar="WHEN", help="auto, always or never.")],
    "config": Annotated[
        str | None, _option("--config", metavar="F", help="Take settings from this file, as of atcpy.toml.")
    ],
    "threads": Annotated[str | None, _option("--threads", metavar="N", help="Threads; default: physical cores.")],
    "memory_limit": Annotated[str | None, _option("--memory_limit", metavar="SIZE", help="Most memory, as 8G.")],
    "timeout": Annotated[str | None, _option("--timeout", metavar="S", help="Most seconds to work.")],
    "allow_hardlinks": Annotated[
        bool, _option("--allow_hardlinks", help="Take external data with several names.")
    ],
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "color": "auto", "verbose": 0, "config": None, "threads": None, "memory_limit": None, "timeout": None,
}  # fmt: skip
_COMMON_PANEL = ("threads", "memory_limit", "timeout", "allow_hardlinks")


def _common_parameters(but: Container[str]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name, False), annotation=kind)
        for name, kind in _COMMON.items()
        if name not in but
    ]


def _complete_chip(incomplete: str) -> list[str]:
    return [soc for soc in SOCS if soc.startswith(incomplete)]


def _complete_pass(incomplete: str) -> list[str]:
    """Complete the last of several names with commas between them."""
    from atcpy.passes.pass_set import built_in_passes
    from atcpy.stages import pipeline

    assert pipeline  # it imports the stages, which register their passes
    before, comma, start = incomplete.rpartition(",")
    names = [entry.name for entry in built_in_passes() if not entry.required]
    return [before + comma + name for name in names if name.startswith(start)]


_COMPLETIONS = {"soc": _complete_chip, "skip_pass": _complete_pass}


def _table_parameter(option: Option) -> inspect.Parameter:
    """The command line's option for a row of the table; a `--flag` for what is true or false, with a `--no_flag` if
    it is not false by default.
    """
    names = [f"--{name}" for name in (option.name, *option.aliases)]
    is_flag = option.read is read_bool and option.default is False
    kind: Any = bool if is_flag else list[str] | None if option.repeatable else str | None
    if option.read is read_bool and not is_flag:
        names, kind = [f"--{option.name}/--no_{option.name}"], bool | None
    metavar = "FILE" if option.repeatable else None
    info = typer.Option(
        *names,
        metavar=metavar,
        help=help_of(option),
        show_default=False,
        rich_help_panel=GROUP_OF.get(option.name),
        autocompletion=_COMPLETIONS.get(option.name),
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if is_flag else None,
        annotation=Annotated[kind, info],
    )


def add_command(app: typer.Typer, function: Callable[..., Outcome], table: Sequence[str]) -> None:
    """Add a function `(run, …) -> Outcome` as the command of its name. The options named in `table` reach it as keyword
    arguments, the common ones in `run`.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    own = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters if p.kind is not p.VAR_KEYWORD]
    name = function.__name__.removesuffix("_")
    own_names = {p.name for p in own}
    files = file_parameters({p.name: p.annotation for p in own})

    def invoke(**values: Any) -> None:
        shared = {key: values.pop(key) for key in _COMMON if key not in own_names}
        code = _run(name, shared, function, values, files)
        if code:
            raise typer.Exit(code)

    shown = [*own, *map(_table_parameter, (OPTIONS[option] for option in table)), *_common_parameters(own_names)]
    invoke.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    app.command(name, help=function.__doc__, cls=GroupedCommand)(invoke)


def require_with(option: str, other: str, *, is_given: bool, is_used: bool) -> None:
    """Raise UsageError (E10057) if an option is given without the one with which it means something."""
    if is_given and not is_used:
        what = f"--{option} is used only with --{other}"
        raise UsageError("E10057", what, where=Where(option=option), hint=f"add --{other}")


def _run(
    name: str,
    shared: dict[str, Any],
    function: Callable[..., Outcome],
    values: dict[str, Any],
    files: dict[str, File],
) -> int:
    """Run a command on the values of its own parameters, of which `files` name files; print what it found or how it
    failed; the exit code.
    """
    started = time.perf_counter()
    run = Invocation(name, json=shared["json"], quiet=shared["quiet"], verbosity=shared["verbose"])
    run.debug, run.werror, run.color = shared["debug"], shared["werror"], shared["color"]
    run.common = {key: shared[key] for key in _COMMON_PANEL} | {"debug": run.debug}
    run.progress = Progress(verbosity=run.verbosity, quiet=run.quiet or run.json)
    outcome: Outcome | None = None
    try:
        if run.quiet and run.verbosity:
            raise UsageError("E10056", "--quiet excludes --verbose", where=Where(option="quiet"), hint="give one")
        read_choice("color", run.color, dict.fromkeys(("auto", "always", "never")))
        values = run.streams.replace(values, files)
        if run.streams.writes and run.json:
            raise UsageError("E10047", "--json and a result go to stdout", where=Where(option="json"), hint="drop one")
        # Commands return what they found: whatever prints meanwhile is not the result.
        with (
            Limits(run.option("timeout"), run.option("memory_limit")),
            redirect_stdout(sys.stderr),
            require_unchanged_files(),
        ):
            outcome = function(run, **values)
        run.progress.end()
        outcome = replace(outcome, warnings=[*outcome.warnings, *_crowded(run)])
        _report_warnings(run, outcome)
        if outcome.error is not None:
            if not run.json and not run.quiet:
                _write_outcome(run, outcome)
            return fail(run, outcome.error, outcome, started)
        if run.json:
            seconds = time.perf_counter() - started
            whole = envelope(name, result=outcome.result, seconds=seconds, warnings=outcome.warnings)
            print_json(whole, run.streams.shown)
        elif not run.quiet:
            _write_outcome(run, outcome)
        if run.streams.writes:
            run.streams.write_output()
        return 0
    except KeyboardInterrupt:
        run.progress.end()
        announce_interrupt()
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001  outermost handler: a traceback only with --debug
        if run.debug:
            traceback.print_exc()
        return fail(run, as_known_error(error), outcome, started)
    finally:
        run.progress.end()
        run.streams.close()


def _write_outcome(run: Invocation, outcome: Outcome) -> None:
    stream = sys.stderr if run.streams.writes else sys.stdout
    write_result(map(run.streams.shown, outcome.lines), stream, color=wants_color(run.color, stream))


def _crowded(run: Invocation) -> list[AtcWarning]:
    """W0051 if more threads were asked for than this process may use cores."""
    threads, cores = max(run.thread_counts, default=0), len(os.sched_getaffinity(0))
    if (quota := cpu_quota()) is not None:
        cores = min(cores, quota)
    if threads <= cores:
        return []
    return [AtcWarning("W0051", f"{threads} threads on {cores} cores wait for each other", Where(option="threads"))]


def _report_warnings(run: Invocation, outcome: Outcome) -> None:
    from atcpy.errors import raise_all

    if run.werror and outcome.warnings:
        raise_all([warning.as_error() for warning in outcome.warnings])
    if not run.quiet and not run.json:
        for warning in outcome.warnings:
            write_blocks(run.streams.shown(str(warning)), color=wants_color(run.color, sys.stderr))


def usage_error(error: Any, arguments: Sequence[str], known_options: Iterable[str]) -> UsageError:
    """What the parser of the command line refused, in our words."""
    from atcpy.errors import nearest

    option = str(getattr(error, "option_name", "") or "")
    parameter = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        normalized = option.lstrip("-").replace("-", "_")
        near = nearest(normalized, [name.lstrip("-") for name in known_options])
        hint = f"did you mean {' or '.join('--' + name for name in near)}?" if near else ""
        if normalized in near:
            hint = "other commands have it; --help lists the options of this one"
        written = (word.partition("=")[0] for word in arguments)
        option = next((word for word in written if word.replace("-", "_") == option.replace("-", "_")), option)
        return UsageError("E10001", f"there is no option {option}", hint=hint)
    if kind == "MissingParameter" and parameter is not None:
        name = max(parameter.opts, key=len)
        return UsageError("E10054", f"{name if name.startswith('-') else parameter.metavar or name} is required")
    if kind == "BadOptionUsage" and "argument" in error.format_message():
        return UsageError("E10004", f"{option} needs a value", where=Where(option=option))
    message = error.format_message()
    hint = NEEDS_QUOTES if "unexpected extra argument" in message else ""
    return UsageError("E10001", message[:1].lower() + message[1:].rstrip("."), hint=hint)
