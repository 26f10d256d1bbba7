"""atcpy: compile ONNX graphs for CPUs the way Huawei's ATC and graph engine do.

Names load when they are first used: `import atcpy` costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# As `typing` has it, whose import takes milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    import onnx

    from atcpy import backend, errors, ge
    from atcpy.ir.specialization import Specialize
    from atcpy.ops.custom import OpContext, TensorType, register_operator
    from atcpy.rewrite.report import OptimizeReport
    from atcpy.runtime import InferenceSession
    from atcpy.runtime.profile import Profile
    from atcpy.runtime.sandbox import enter_sandbox
    from atcpy.stages.freeze import FreezeReport
    from atcpy.stages.report import ConvertReport
    from atcpy.verify.operator_check import check_operator

__all__ = [
    "InferenceSession",
    "OpContext",
    "Profile",
    "TensorType",
    "__version__",
    "backend",
    "check_operator",
    "convert",
    "enter_sandbox",
    "errors",
    "freeze",
    "ge",
    "include_dir",
    "optimize",
    "register_operator",
]

__version__ = "0.1.0"

# ONNX Runtime 1.31 on Linux writes a file that identifies the process to TMPDIR and sends events, unless this is set
# when it is loaded. Commands that compare with it promise to reach no network, and to write their output alone.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_LAZY = {
    "InferenceSession": ("atcpy.runtime", "InferenceSession"),
    "OpContext": ("atcpy.ops.custom", "OpContext"),
    "Profile": ("atcpy.runtime.profile", "Profile"),
    "TensorType": ("atcpy.ops.custom", "TensorType"),
    "backend": ("atcpy.backend", ""),
    "check_operator": ("atcpy.verify.operator_check", "check_operator"),
    "enter_sandbox": ("atcpy.runtime.sandbox", "enter_sandbox"),
    "errors": ("atcpy.errors", ""),
    "ge": ("atcpy.ge", ""),
    "register_operator": ("atcpy.ops.custom", "register_operator"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'atcpy' has no attribute '{name}'")
    module, attribute = _LAZY[name]
    with _part_of_atcpy(name):
        loaded = import_module(module)
    if name == "InferenceSession":
        loaded.InferenceSession.compiler = _compiler
    globals()[name] = getattr(loaded, attribute) if attribute else loaded
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@contextmanager
def _part_of_atcpy(name: str) -> Iterator[None]:
    """Imports what `name` needs. Raises Unsupported (E10055) where only the runtime is installed, which lacks it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("atcpy."):
            raise
        from atcpy.errors import Unsupported

        what = f"atcpy.{name} needs the compiler, which is not installed: {error}"
        raise Unsupported("E10055", what, hint="install atcpy in place of atcpy-runtime") from error


def convert(
    model: str | os.PathLike[str] | onnx.ModelProto,
    output: str | os.PathLike[str],
    **options: Any,
) -> ConvertReport:
    """Compile `model`, a path or a ModelProto, into the package `output`; `.om` is appended unless the name has it.

    The options are those of `atcpy convert`, each as its text there or as the natural value:

        atcpy.convert("m.onnx", "m.om", soc="Ascend910", input_shape={"x": [1, 3, 224, 224]})
    """
    with _part_of_atcpy("convert"):
        from atcpy.options import convert_options
        from atcpy.report.compile_stat import CompileStatistics
        from atcpy.report.graph_dump import Dumper
        from atcpy.stages import pipeline

    read = convert_options(options)
    statistics = CompileStatistics(read.export_compile_stat)
    report = pipeline.convert(_model(model), _om_path(output), read, Dumper(read.dump))
    statistics.compiled(report)
    statistics.at_end(report)
    return report


def freeze(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> FreezeReport:
    """Write a TensorFlow model, a SavedModel or a checkpoint, to `output` as one graph whose variables are constants.
    With `checkpoint` they are those of a checkpoint that was saved without the graph.

    The options are those of `atcpy freeze`:

        atcpy.freeze("saved_model", "frozen.pb", signature="serving_default")
        atcpy.freeze("model.ckpt", "frozen.pb", out_nodes=["prob:0"])
        atcpy.freeze("saved_model", "frozen.pb", checkpoint="training/ckpt-12")
    """
    from pathlib import Path

    with _part_of_atcpy("freeze"):
        from atcpy.options import convert_options
        from atcpy.stages.freeze import freeze

    separate = None if checkpoint is None else Path(checkpoint)
    return freeze(Path(model), Path(output), convert_options(options).parse, separate)


def include_dir() -> str:
    """The folder of `atcpy_custom.h`, for the compiler of a custom operator's kernel."""
    from pathlib import Path

    return str(Path(__file__).parent / "kernels" / "include")


def optimize(
    model: str | os.PathLike[str] | onnx.ModelProto,
    output: str | os.PathLike[str],
    **options: Any,
) -> OptimizeReport:
    """Write `model`, a path or a ModelProto, to `output` as a smaller model of the same meaning, for any runtime.

    The options are those of `atcpy optimize`, each as its text there or as the natural value:

        atcpy.optimize("m.onnx", "small.onnx", keep=["/head/Conv"], verify=False)
    """
    from pathlib import Path

    with _part_of_atcpy("optimize"):
        from atcpy.rewrite.optimize import optimize_model
        from atcpy.rewrite.options import rewrite_options
        from atcpy.verify.rewritten import check_rewritten

    return optimize_model(_model(model), Path(output), rewrite_options(options), check_rewritten)


def _compiler(cmdline: str) -> Specialize:
    """Return the function that compiles graphs at run time, with the options that a package records. Raises ImportError
    where only the runtime is installed.
    """
    from functools import partial

    from atcpy.options import recorded_options
    from atcpy.stages.specialize import specialize

    return partial(specialize, options=recorded_options(cmdline))


def _model(model: str | os.PathLike[str] | onnx.ModelProto) -> Path | onnx.ModelProto:
    from pathlib import Path

    return Path(model) if isinstance(model, str | os.PathLike) else model


def _om_path(output: str | os.PathLike[str]) -> Path:
    from pathlib import Path

    text = os.fspath(output)
    return Path(text if text.endswith(".om") else text + ".om")
