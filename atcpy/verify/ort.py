"""ONNX Runtime, which is an extra, set up as an oracle: its numbers must not depend on the CPU."""

from __future__ import annotations

from typing import Any

from atcpy.errors import Unsupported


def load_onnxruntime(without: str = "") -> Any:
    """The package `onnxruntime`. Raises Unsupported (E10055) where it is not installed, and names `without`, the
    arguments of the command that need none, as the other way out.
    """
    try:
        import onnxruntime
    except ImportError as error:
        hint = "pip install 'atcpy[verify]'" + (f", or {without}" if without else "")
        raise Unsupported("E10055", f"this needs ONNX Runtime, which cannot be imported: {error}", hint=hint) from error
    return onnxruntime


def oracle_options(level: Any = None, threads: int = 1, *, exact_sums: bool = True) -> Any:
    """Return `onnxruntime.SessionOptions` for exact results; `level` is a `GraphOptimizationLevel`, by default none.

    On x86 CPUs without VNNI, ONNX Runtime multiplies uint8 by int8 with instructions that saturate the sums of two
    products at 16 bits, unless `session.x64quantprecision` asks for exact sums, which its optimizer then chooses. At
    the level "none" they still saturate: there `verify` asks its arbiter. `exact_sums` asks for them.
    """
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL if level is None else level
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False  # which takes up to twice the memory that is in use
    options.add_session_config_entry("session.x64quantprecision", str(int(exact_sums)))
    return options
