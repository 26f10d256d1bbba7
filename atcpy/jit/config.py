"""How functions are compiled and run: the configuration of one function, and the context of the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from atcpy.errors import UsageError, did_you_mean
from atcpy.options import convert_options

JitLevel = Literal["O0", "O1", "O2"]
ExecMode = Literal["auto", "sink", "op"]
SyntaxLevel = Literal["STRICT", "LAX"]
Mode = Literal[0, 1]
# MindSpore's numbers.
GRAPH_MODE: Literal[0] = 0
PYNATIVE_MODE: Literal[1] = 1

# While a function is traced: the Cells that it has called so far. What a traced function calls is traced with it.
CALLED_CELLS: ContextVar[list[object] | None] = ContextVar("CALLED_CELLS", default=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class JitConfig:
    """How a function is compiled and run.

    jit_level: O0 optimises nothing that correctness does not need, O1 fuses nothing, O2 does everything.
    exec_mode: with `sink` one call runs the whole graph, with `op` each node is compiled and run alone; `auto` is
    `sink`.
    jit_syntax_level: what cannot be traced is an error with STRICT, and runs as Python with LAX.
    options: further options of `atcpy.convert`.
    """

    jit_level: JitLevel = "O2"
    exec_mode: ExecMode = "auto"
    jit_syntax_level: SyntaxLevel = "LAX"
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_choice("jit_level", self.jit_level, get_args(JitLevel))
        _check_choice("exec_mode", self.exec_mode, get_args(ExecMode))
        _check_choice("jit_syntax_level", self.jit_syntax_level, get_args(SyntaxLevel))
        if taken := _SET_BY_JIT.intersection(self.options):
            name = min(taken)
            raise UsageError("E10047", f'JitConfig: the option "{name}" is not free', hint=_SET_BY_JIT_HINT)
        convert_options(self.compile_options)

    @property
    def compile_options(self) -> dict[str, object]:
        """The options of the conversion."""
        return {**self.options, "oo_level": self.jit_level}

    @property
    def is_strict(self) -> bool:
        """Whether what cannot be traced is an error."""
        return self.jit_syntax_level == "STRICT"


_SET_BY_JIT = frozenset({"oo_level", "input_shape"})
_SET_BY_JIT_HINT = "jit_level is oo_level, and the argument input_shape of atcpy.jit names open sizes"


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        hint = did_you_mean(str(value), choices) or "one of " + ", ".join(choices)
        raise UsageError("E10001", f"{name}: {value!r} is not possible", hint=hint)


@dataclass(frozen=True, kw_only=True)
class Context:
    """What holds for the process: whether Cells are compiled, and how functions are that have no configuration."""

    mode: Mode = PYNATIVE_MODE
    jit_config: JitConfig = field(default_factory=JitConfig)


_contexts = [Context()]


def current_context() -> Context:
    """The context of the process."""
    return _contexts[-1]


def set_context(*, mode: Mode | None = None, jit_config: JitConfig | None = None) -> None:
    """Change the context of the process; None leaves a value as it is.

    mode: with GRAPH_MODE calling a `Cell` compiles it as a whole; with PYNATIVE_MODE, the default, it runs as Python,
    apart from the functions that `atcpy.jit` compiles. jit_config: for functions and Cells without one of their own.
    """
    if mode is not None and mode not in (GRAPH_MODE, PYNATIVE_MODE):
        raise UsageError("E10001", f"mode: {mode!r} is not possible", hint="atcpy.GRAPH_MODE or atcpy.PYNATIVE_MODE")
    changes: dict[str, Any] = {"mode": mode, "jit_config": jit_config}
    _contexts[-1] = replace(current_context(), **{name: value for name, value in changes.items() if value is not None})
