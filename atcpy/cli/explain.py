"""`atcpy explain CODE`: a row of the table of errors."""

import re
from typing import Annotated

import typer

from atcpy.cli.invocation import Invocation, Outcome, command
from atcpy.errors import CODES, UsageError, did_you_mean


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app)(explain)


def explain(
    run: Invocation,
    code: Annotated[str, typer.Argument(metavar="CODE", help="As in error[E10016].")],
) -> Outcome:
    """Say what an error code means and what to do."""
    asked = re.sub(r"^(error|warning)?\[?|\]?:?$", "", code.strip()).upper()
    row = CODES.get(asked)
    if row is None:
        hint = did_you_mean(asked, CODES) or "the codes are in docs/errors.md"
        raise UsageError("E10001", f'there is no error code "{code}"', hint=hint)
    exits = " or ".join(str(number) for number in row.exits)
    result = {"code": row.code, "when": row.when, "help": row.help, "exits": row.exits}
    return Outcome(result, [f"{row.code}  {row.when}", f"  help  {row.help}", f"  exit  {exits}"])
