"""`repro/`: a small model, its inputs, the command that shows the fault, and a page that says what it is."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from atcpy import __version__
from atcpy.errors import raise_os_error
from atcpy.ir.tensor import Array
from atcpy.om.atomic import atomic_write

MODEL, INPUTS, COMMAND, PAGE = "model.onnx", "inputs.npz", "command.sh", "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repro:
    """All that is written."""

    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    command: str
    cause: str
    fault: str
    without: str
    origin: str


def write_repro(directory: Path, repro: Repro) -> None:
    """Writes the four files."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise_os_error(error, str(directory), writing=True)
    arrays = io.BytesIO()
    np.savez(arrays, **dict(repro.inputs))  # type: ignore[arg-type]
    atomic_write(directory / MODEL, [repro.model.SerializeToString(deterministic=True)])
    atomic_write(directory / INPUTS, [arrays.getvalue()])
    atomic_write(directory / COMMAND, [f'#!/bin/sh\ncd "$(dirname "$0")" && exec {repro.command}\n'.encode()])
    atomic_write(directory / PAGE, [_page(repro).encode("utf-8", "backslashreplace")])


def _page(repro: Repro) -> str:
    ops = " → ".join(node.op_type for node in repro.model.graph.node)
    return f"""# {repro.cause}

    {repro.command}

- fault: {repro.fault}
- {repro.without}
- `{MODEL}`: {len(repro.model.graph.node)} of the nodes of {repro.origin}: {ops}
- `{INPUTS}`: what the whole model computes there
- atcpy {__version__}
"""
