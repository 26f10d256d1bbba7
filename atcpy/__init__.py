"""atcpy: compile ONNX graphs for CPUs the way Huawei's ATC and graph engine do.

Names load when they are first used: `import atcpy` costs nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# As `typing` has it, whose import takes milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from atcpy import backend, errors, ge
    from atcpy.api.commands import (
        bench,
        check,
        convert,
        diff,
        explain,
        freeze,
        inspect,
        optimize,
        passes,
        quantize,
        report,
        verify,
    )
    from atcpy.ir.specialization import Specialize
    from atcpy.jit.config import GRAPH_MODE, PYNATIVE_MODE, JitConfig, set_context
    from atcpy.jit.function import jit
    from atcpy.ops import custom as custom_op
    from atcpy.ops.custom import OpContext, TensorType, register_operator
    from atcpy.passes.prepare.recognise.fusion_optimizer import register_fusion_optimizer
    from atcpy.runtime import InferenceSession
    from atcpy.runtime.profile import Profile
    from atcpy.runtime.sandbox import enter_sandbox
    from atcpy.runtime.scoring import Scorer, ScoreShard
    from atcpy.verify.operator_check import check_operator
else:
    ModuleType = type(os)

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "InferenceSession",
    "JitConfig",
    "OpContext",
    "Profile",
    "ScoreShard",
    "Scorer",
    "TensorType",
    "__version__",
    "backend",
    "bench",
    "check",
    "check_operator",
    "convert",
    "custom_op",
    "diff",
    "enter_sandbox",
    "errors",
    "explain",
    "freeze",
    "ge",
    "include_dir",
    "inspect",
    "jit",
    "optimize",
    "passes",
    "quantize",
    "register_fusion_optimizer",
    "register_operator",
    "report",
    "set_context",
    "verify",
]

__version__ = "0.1.0"

# ONNX Runtime 1.31 on Linux writes a file that identifies the process to TMPDIR and sends events, unless this is set
# when it is loaded. Commands that compare with it promise to reach no network, and to write their output alone.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_LAZY = {
    "InferenceSession": ("atcpy.runtime", "InferenceSession"),
    "OpContext": ("atcpy.ops.custom", "OpContext"),
    "Profile": ("atcpy.runtime.profile", "Profile"),
    "ScoreShard": ("atcpy.runtime.scoring", "ScoreShard"),
    "Scorer": ("atcpy.runtime.scoring", "Scorer"),
    "TensorType": ("atcpy.ops.custom", "TensorType"),
    "backend": ("atcpy.backend", ""),
    "check_operator": ("atcpy.verify.operator_check", "check_operator"),
    "custom_op": ("atcpy.ops.custom", ""),
    "enter_sandbox": ("atcpy.runtime.sandbox", "enter_sandbox"),
    "errors": ("atcpy.errors", ""),
    "ge": ("atcpy.ge", ""),
    "register_fusion_optimizer": ("atcpy.passes.prepare.recognise.fusion_optimizer", "register_fusion_optimizer"),
    "register_operator": ("atcpy.ops.custom", "register_operator"),
}


# Subpackages that are called: `atcpy.verify(…)` calls the function of that name in the module that stands here.
_CALLABLE_MODULES = {
    "bench": "atcpy.api.commands",
    "jit": "atcpy.jit.function",
    "passes": "atcpy.api.commands",
    "report": "atcpy.api.commands",
    "verify": "atcpy.api.commands",
}
_COMMANDS = frozenset({"check", "convert", "diff", "explain", "freeze", "inspect", "optimize", "quantize"})
_LAZY |= {name: ("atcpy.api.commands", name) for name in _COMMANDS}
_LAZY |= {name: (f"atcpy.{name}", "") for name in _CALLABLE_MODULES}
_LAZY |= {name: ("atcpy.jit.config", name) for name in ("GRAPH_MODE", "JitConfig", "PYNATIVE_MODE", "set_context")}


class _CallableModule(ModuleType):
    """A subpackage that is called as the function of its name: `atcpy.passes` is both."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_CALLABLE_MODULES[name]), name)(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)


class _Package(ModuleType):
    """The package, which makes a subpackage of `_CALLABLE_MODULES` callable when it is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLABLE_MODULES and type(value) is ModuleType:
            value.__class__ = _CallableModule
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """A module is its name, where functions of notebooks are sent to workers with what they use."""
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # type checkers know the names, and refuse others

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


def include_dir() -> str:
    """The folder of `atcpy_custom.h`, for the compiler of a custom operator's kernel."""
    from pathlib import Path

    return str(Path(__file__).parent / "kernels" / "include")


def _compiler(cmdline: str) -> Specialize:
    """Return the function that compiles graphs at run time, with the options that a package records. Raises ImportError
    where only the runtime is installed.
    """
    from functools import partial

    from atcpy.options import recorded_options
    from atcpy.stages.specialize import specialize

    return partial(specialize, options=recorded_options(cmdline))
