"""`--require-signature`: whose signature a command asks for before it looks into a package."""

from typing import Annotated

import typer

RequireSignature = Annotated[
    list[str] | None,
    typer.Option(
        "--require_signature",
        metavar="PUB",
        help="Public key of Ed25519 (PEM) that must have signed the package; repeatable: one of several.",
    ),
]
