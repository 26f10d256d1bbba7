"""Tracing: a function is called once with arrays that record what is computed from them (ADR 0021).

The arrays are those of ndonnx, which implement the array API standard. What the function returns is a graph of ONNX.
"""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import atcpy
from atcpy.errors import AtcError, Unsupported, Where
from atcpy.ir.tensor import Array
from atcpy.jit.config import CALLED_CELLS
from atcpy.jit.structure import Structure, fixed_values, put_together, take_apart

if TYPE_CHECKING:
    import onnx

_NEEDS_VALUE = "no propagated value available"  # ndonnx: bool(x), int(x) or float(x) of what only a run computes
_HINT = "use functions of x.__array_namespace__(), as where() in place of if; or jit_syntax_level='LAX'"


@dataclass(frozen=True)
class Traced:
    """The graph of a function: its inputs have the names that `trace` was called with, and its outputs stand in
    `result` by their indices. `model` is None if there are none. `cells` are the Cells that were called.
    """

    model: onnx.ModelProto | None
    outputs: tuple[str, ...]
    result: Structure
    cells: tuple[object, ...]


def ndonnx() -> Any:
    """The library that traces. Raises Unsupported (E10055) where it is not installed."""
    try:
        import ndonnx
    except ImportError as error:
        what = f"atcpy.jit traces functions by the package ndonnx, which cannot be imported: {error}"
        raise Unsupported("E10055", what, hint="pip install 'atcpy[jit]'") from error
    return ndonnx


@lru_cache(maxsize=1)
def _argument_class(array_class: Hashable) -> type:
    """The class of arguments: arrays that refuse to be modified, for the caller would not see it."""

    def refuse(self: object, *_: object) -> None:
        raise TypeError("an argument is modified in place")

    operators = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
    assert isinstance(array_class, type)
    names = ["__setitem__", "__ilshift__", "__irshift__", *(f"__i{operator}__" for operator in operators)]
    return type("Argument", (array_class,), dict.fromkeys(names, refuse))


def trace(
    function: Callable[..., Any],
    call: Callable[[Any], Any],
    arguments: Structure,
    arrays: Sequence[Array],
    names: Sequence[str],
    shapes: Sequence[Sequence[int | str | None]],
) -> Traced:
    """Trace `function` for arrays of these element types and `shapes`, in which open sizes have names. `call` calls it
    with what `arguments` are put together to.

    Raises Unsupported (J0001) where it cannot be traced.
    """
    library = ndonnx()
    symbols: list[Any] = []
    for name, array, shape in zip(names, arrays, shapes, strict=True):
        try:
            dtype = library.from_numpy_dtype(array.dtype)
        except (KeyError, TypeError, ValueError) as error:
            raise untraceable(function, f'"{name}" has elements of type {array.dtype}') from error
        symbol = library.argument(shape=tuple(shape), dtype=dtype)
        symbol.__class__ = _argument_class(library.Array)
        symbols.append(symbol)
    cells: list[object] = []
    before = CALLED_CELLS.set(cells)
    try:
        returned = call(put_together(arguments, symbols))
        results: list[Any] = []
        result = take_apart(returned, lambda value: isinstance(value, library.Array), results)
        _check_result(function, result)
        if not results:
            return Traced(None, (), result, tuple(cells))
        # No argument has the name of a keyword.
        outputs = tuple(f"return.{index}" for index in range(len(results)))
        inputs = dict(zip(names, symbols, strict=True))
        model = library.build(inputs, dict(zip(outputs, results, strict=True)))
    except (AtcError, MemoryError):
        raise
    except Exception as error:
        raise _failed(function, error) from error
    finally:
        CALLED_CELLS.reset(before)
    return Traced(model, outputs, result, tuple(cells))


def _check_result(function: Callable[..., Any], result: Structure) -> None:
    """Refuse results that hide a recording array: numpy puts what it does not know into arrays of objects."""
    if any(isinstance(value, np.ndarray) and value.dtype == object for value in fixed_values(result)):
        raise untraceable(function, "a function of numpy was called with an argument, or what was computed of it")


def untraceable(function: Callable[..., Any], why: str, where: Where | None = None) -> Unsupported:
    """The error of a function that cannot be traced; `where` is the line of its definition unless it is given."""
    return Unsupported(
        "J0001", f"{name_of(function)} cannot be traced: {why}", where=where or definition_of(function), hint=_HINT
    )


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, as messages have it."""
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def definition_of(function: Callable[..., Any]) -> Where:
    """The file and the line in which a function is defined, as far as they are known."""
    code = getattr(function, "__code__", None)
    return Where(file=code.co_filename, line=code.co_firstlineno) if isinstance(code, types.CodeType) else Where()


def _failed(function: Callable[..., Any], error: Exception) -> Unsupported:
    text = str(error)
    why = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if _NEEDS_VALUE in text:
        why = "Python needs the value of an array here, which only a run computes"
    return untraceable(function, why, _line_of(error))


def _line_of(error: Exception) -> Where | None:
    """The innermost line of the user's own code in the traceback of an error."""
    libraries = _library_folders()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not any(folder in Path(frame.filename).parents for folder in libraries):
            return Where(file=frame.filename, line=frame.lineno)
    return None


@cache
def _library_folders() -> tuple[Path, ...]:
    names = ("ndonnx", "spox", "numpy", "onnx", "array_api_compat")
    modules = [atcpy, *(sys.modules[name] for name in names if name in sys.modules)]
    return tuple(Path(str(module.__file__)).parent for module in modules)
