"""Write the generated pages of docs/: `make docs`.  A test checks that they are current."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from atcpy.atc_flags import FLAGS, FlagGroup, FlagKind, Support
from atcpy.cli.app import app
from atcpy.errors import CODES
from atcpy.parsers.tensorflow import importer as _registers_the_mappings  # noqa: F401
from atcpy.parsers.tensorflow.op import MAPPINGS
from tests.operators.page import operators_page

HERE = Path(__file__).parent

GROUPS = {
    "E": "ATC's codes",
    "P": "Packages",
    "D": "Running",
    "V": "Verifying",
    "R": "Limits",
    "G": "The API of GE",
    "C": "Custom operators",
    "J": "Functions that are compiled",
    "W": "Warnings",
    "X": "Ours",
}

HEAD = """# Error codes

Generated from `atcpy/errors/codes.py` by `make docs`; do not edit. `atcpy explain CODE` prints a row.

The exit code is the process's; Python raises the class of that row (`atcpy.errors`). A warning ends with 0,
with `--werror` as the second number says.

| exit | class |
| --- | --- |
| 1 | `InternalError` |
| 2 | `UsageError` |
| 3 | `ModelInvalid` |
| 4 | `Unsupported` |
| 5 | `VerifyFailed` |
| 6 | `ResourceLimit` |
| 7 | `PackageCorrupt` |
| 130 | interrupted |
"""


def errors_page() -> str:
    """The text of docs/errors.md."""
    lines = [HEAD]
    for letter, title in GROUPS.items():
        lines += [f"## {title}", "", "| code | when | way out | exit |", "| --- | --- | --- | --- |"]
        for row in CODES.values():
            if row.code[0] == letter:
                exits = " or ".join(str(number) for number in row.exits)
                lines.append(f"| {row.code} | {row.when} | {row.help} | {exits} |")
        lines.append("")
    return "\n".join(lines)


OPTIONS_HEAD = """# Options

Generated from the commands by `make docs`; do not edit. What they do, with examples: [cli.md](cli.md).
Every `_` in an option may be written `-`.
"""


def options_page() -> str:
    """The text of docs/options.md: what all commands share, then a table a command."""
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    del commands["atc"]  # it has a page of its own
    every = set.intersection(*({_row(p) for p in command.params} for command in commands.values()))
    shared = [row for row in map(_row, commands["convert"].params) if row in every]
    lines = [OPTIONS_HEAD, *_table("All commands", shared)]
    for name, command in commands.items():
        own = [row for row in map(_row, command.params) if row not in every]
        lines += [*_table(f"atcpy {name}", own, str(command.help).split("\n")[0])]
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    is_option = names[0].startswith("-")
    value = f" {parameter.metavar}" if parameter.metavar and is_option else ""
    shown = ", ".join(f"`{name}`" for name in names) + (f" `{value.strip()}`" if value else "")
    text = str(parameter.help or "").replace("|", "\\|")
    return f"| {shown if is_option else f'`{parameter.metavar}`'} | {text} |".replace("[PASS]`", "PASS`")


def _table(title: str, rows: list[str], summary: str = "") -> list[str]:
    return [f"## {title}", "", *([summary, ""] if summary else []), "| option | |", "| --- | --- |", *rows, ""]


TENSORFLOW_HEAD = """# Operators of TensorFlow

Generated from `atcpy/parsers/tensorflow/ops` by `make docs`; do not edit. Each node becomes ops of ONNX while the graph
is read ([tensorflow.md](tensorflow.md)); where those run says [operators.md](operators.md).
"""


def tensorflow_page() -> str:
    """The text of docs/operators-tensorflow.md."""
    lines = [TENSORFLOW_HEAD, "| op | becomes |", "| --- | --- |"]
    lines += [f"| {op} | {MAPPINGS[op].note} |" for op in sorted(MAPPINGS, key=str.lower)]
    return "\n".join([*lines, ""])


ATC_HEAD = """# ATC's options

Generated from `atcpy/atc_flags.py` by `make docs`; do not edit. How to use them: [atc.md](atc.md).

An option that could change numbers, shapes or files has an effect, or is refused (E10055, exit 4). The others are
*recorded*: their values are checked as ATC does, and the package names them.
"""


def atc_page() -> str:
    """The text of docs/atc-options.md."""
    lines = [ATC_HEAD]
    for group in FlagGroup:
        lines += [f"## {group.value}", "", "| option | values | default | | |", "| --- | --- | --- | --- | --- |"]
        for flag in FLAGS:
            if flag.group is group:
                values = ", ".join(flag.choices) or ("true, false" if flag.kind is FlagKind.BOOL else "")
                support = "" if flag.support is Support.APPLIED else flag.support.value
                lines.append(f"| `--{flag.name}` | {values} | {flag.default} | {support} | {flag.note} |")
        lines.append("")
    return "\n".join(lines)


# Each generated page and what makes its text.
PAGES: dict[Path, Callable[[], str]] = {
    HERE / "atc-options.md": atc_page,
    HERE / "errors.md": errors_page,
    HERE / "options.md": options_page,
    HERE / "operators.md": operators_page,
    HERE / "operators-tensorflow.md": tensorflow_page,
}


if __name__ == "__main__":
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8")
