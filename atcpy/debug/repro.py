"""`repro/`: a small model, its inputs, the command that shows the fault, and a page that says what it is."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from atcpy import __version__
from atcpy.ir.tensor import Array
from atcpy.om.atomic import atomic_write_together

MODEL, INPUTS, COMMAND, PAGE = "model.onnx", "inputs.npz", "command.sh", "README.md"


def write_repro(
    folder: Path,
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    *,
    command: str,
    cause: str,
    fault: str,
    without: str,
    origin: str,
) -> None:
    """Write the four files. `cause` is the title of the page, `without` says what happens without the culprit, and
    `origin` names the whole model.
    """
    arrays = io.BytesIO()
    np.savez(arrays, **dict(inputs))  # type: ignore[arg-type]
    ops = " → ".join(node.op_type for node in model.graph.node)
    page = f"""# {cause}

    {command}

- fault: {fault}
- {without}
- `{MODEL}`: {len(model.graph.node)} of the nodes of {origin}: {ops}
- `{INPUTS}`: what the whole model computes there
- atcpy {__version__}
"""
    atomic_write_together(
        {
            folder / MODEL: [model.SerializeToString(deterministic=True)],
            folder / INPUTS: [arrays.getvalue()],
            folder / COMMAND: [f'#!/bin/sh\ncd "$(dirname "$0")" && exec {command}\n'.encode()],
            folder / PAGE: [page.encode("utf-8", "backslashreplace")],
        }
    )
