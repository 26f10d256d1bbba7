"""The command line: `atcpy COMMAND …`."""

import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from atcpy import __version__
from atcpy.cli import (
    bench,
    check,
    convert,
    diff,
    doctor,
    explain,
    freeze,
    inspect,
    optimize,
    passes,
    quantize,
    report,
    run,
    verify,
)
from atcpy.cli.config import Setting, default_map, in_effect, read_settings
from atcpy.cli.invocation import BROKEN_PIPE, Invocation, add_command, envelope, fail, print_json, usage_error
from atcpy.cli.signals import announce_interrupt, handle_signals, restore_signals
from atcpy.errors import INTERRUPTED, TERMINATED, AtcError, Terminated, UsageError, as_known_error, did_you_mean

# The base of all errors of typer's parser; click's own class, which some releases of typer carry inside.
_ParserError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="atcpy",
    help="Compile ONNX graphs for CPUs, run them, and prove them equal to the model.",
    add_completion=True,
    no_args_is_help=False,  # the callback shows it
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # One declaration stands for both spellings: --input_shape and --input-shape.
    context_settings={
        "help_option_names": ["--help", "-h"],
        "token_normalize_func": lambda name: name.replace("-", "_"),
    },
)


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="With --version: as JSON.")] = False,
) -> None:
    """Compile ONNX graphs for CPUs, run them, and prove them equal to the model."""
    if show:
        if json:
            print_json(envelope("version", result={"version": __version__}))
        else:
            sys.stdout.write(f"atcpy {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


for function, table in (
    (convert.convert, convert.TABLE),
    (check.check, check.TABLE),
    (inspect.inspect, ("custom_ops",)),
    (run.run_, ("custom_ops",)),
    (verify.verify, ("custom_ops",)),
    (bench.bench, ("custom_ops",)),
    (optimize.optimize, optimize.TABLE),
    (freeze.freeze, freeze.TABLE),
    (quantize.quantize, ()),
    (passes.passes, passes.TABLE),
    (explain.explain, explain.TABLE),
    (diff.diff, ("custom_ops",)),
    (report.report, ("custom_ops",)),
    (doctor.doctor, ()),
):
    add_command(app, function, table)


@app.command("atc", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def atc_() -> None:
    """Compile a model by ATC's command line (atcpy atc --help)."""
    raise AssertionError("`execute` reads its arguments, which are no arguments of typer's")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line in a process of its own; the exit code."""
    try:
        arguments = list(sys.argv[1:] if argv is None else argv)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # `→` on a terminal without it
        handle_signals()
        if arguments and arguments[0] in _ONE_MODEL:
            _collect_no_more()
        code = execute(arguments)
        if code == INTERRUPTED:  # typer turns an interrupt outside a command into this code, without a word
            announce_interrupt()
        sys.stdout.flush()
        restore_signals()
        return code
    except KeyboardInterrupt:
        announce_interrupt()
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except BrokenPipeError:
        # Nothing may be flushed into the closed pipe when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except MemoryError as error:  # outside a command
        return fail(Invocation("atcpy"), as_known_error(error), None, 0.0)
    except OSError as error:  # stdout itself: a full disk behind a redirection
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        known = as_known_error(error)
        return fail(Invocation("atcpy"), known, None, 0.0)


# Commands whose models live until the process ends.
_ONE_MODEL = frozenset({"atc", "convert", "optimize", "freeze", "explain", "diff", "inspect", "report"})


def _collect_no_more() -> None:
    """Looking for garbage in the graph of a large model, and once more at the end, takes a sixth of the time."""
    import atexit
    import gc

    gc.disable()
    atexit.register(gc.freeze)


@cache
def _parser() -> Any:
    """Return the parser of all commands, which takes longer to build than a small model to convert."""
    return typer.main.get_command(app)


def execute(arguments: list[str]) -> int:
    """Parse the arguments and run the command; the exit code."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if arguments[:1] == ["atc"]:  # its arguments are read as ATC does
        from atcpy.cli.atc.command import atc

        return atc(arguments[1:])
    try:
        settings = _settings(arguments)
        defaults = default_map(settings, _parser()) if settings else {}
    except AtcError as error:
        return fail(_invocation(arguments), error, None, time.perf_counter())
    try:
        with in_effect(settings):
            code = _parser()(args=arguments, prog_name="atcpy", standalone_mode=False, default_map=defaults)
        return code if isinstance(code, int) else 0
    except _ParserError as error:
        return _refuse(arguments, error)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # typer has its own way to leave, with code 1
            raise leaving.__context__ from None
        raise


def _settings(arguments: list[str]) -> Sequence[Setting]:
    """What environment and files set for a command; nothing for help, which a file must not keep from users."""
    if not arguments or arguments[0].startswith("-") or not {"--help", "-h"}.isdisjoint(arguments):
        return ()
    return read_settings(_parser(), arguments)


def _invocation(arguments: list[str]) -> Invocation:
    """That of a command which did not begin."""
    commands = [info.name for info in app.registered_commands if info.name]
    name = next((word for word in arguments if not word.startswith("-")), "")
    return Invocation(name if name in commands else "atcpy", json="--json" in arguments)


def _refuse(arguments: list[str], error: Any) -> int:
    commands = [info.name for info in app.registered_commands if info.name]
    name = next((word for word in arguments if not word.startswith("-")), "")
    if name not in commands and name:
        refused = UsageError("E10001", f'there is no command "{name}"', hint=_commands_hint(name, commands))
    else:
        context = getattr(error, "ctx", None)
        parameters = context.command.params if context is not None else []
        refused = usage_error(error, arguments, [option for parameter in parameters for option in parameter.opts])
    return fail(_invocation(arguments), refused, None, time.perf_counter())


def _commands_hint(name: str, commands: list[str]) -> str:
    return did_you_mean(name, commands) or "one of " + ", ".join(commands)
