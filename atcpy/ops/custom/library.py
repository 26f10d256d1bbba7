"""Kernels in a user's own shared library, called through `atcpy/kernels/include/atcpy_custom.h`.

A library is opened when the module that names it is loaded, which happens when the user names that module. This is the
one place where code that is not ours gets pointers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atcpy.errors import UsageError, Where
from atcpy.ir import DType
from atcpy.ir.tensor import Array

ABI = 1
_MESSAGE_BYTES = 512
_INTS, _FLOATS, _TEXT = 1, 2, 3


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    )


class _Attr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("ints", ctypes.POINTER(ctypes.c_int64)),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("text", ctypes.c_char_p),
        ("count", ctypes.c_int32),
        ("kind", ctypes.c_int32),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_int32),
        ("n_inputs", ctypes.c_int32),
        ("n_outputs", ctypes.c_int32),
        ("n_attrs", ctypes.c_int32),
        ("inputs", ctypes.POINTER(_Tensor)),
        ("outputs", ctypes.POINTER(_Tensor)),
        ("attrs", ctypes.POINTER(_Attr)),
        ("message", ctypes.c_char_p),
        ("message_bytes", ctypes.c_int64),
    )


@dataclass(frozen=True)
class CKernel:
    """One function of a library."""

    library: Path
    symbol: str
    _function: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.library.name}:{self.symbol}"

    @staticmethod
    def load(text: str, folder: Path) -> CKernel:
        """The kernel `library.so:symbol`; the library is looked for in the module's folder. UsageError (E13029)."""
        name, _, symbol = text.rpartition(":")
        if not name or not symbol.isidentifier():
            raise _cannot_load(text, 'it is not written "library.so:symbol"')
        path = (folder / name).resolve()
        if not path.is_file():
            raise _cannot_load(text, f"there is no file {path}")
        try:
            library = ctypes.CDLL(str(path))
            function = library[symbol]
            abi = ctypes.c_int32.in_dll(library, "atcpy_custom_abi").value
        except OSError as error:
            raise _cannot_load(text, str(error)) from error
        except (AttributeError, ValueError) as error:  # no such symbol
            raise _cannot_load(text, str(error)) from error
        if abi != ABI:
            raise _cannot_load(text, f"it was compiled for version {abi} of atcpy_custom.h, this atcpy has {ABI}")
        function.argtypes = (ctypes.POINTER(_Call),)
        function.restype = ctypes.c_int
        return CKernel(path, symbol, function)

    def run(self, inputs: Sequence[Array | None], outputs: Sequence[Array], attrs: Mapping[str, Any]) -> str:
        """Calls the kernel, without Python's lock; why it failed, or nothing. Arrays are contiguous and aligned."""
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        c_attrs = [attr for name, value in attrs.items() if (attr := _attr(name, value)) is not None]
        call = _Call(
            abi=ABI,
            n_inputs=len(inputs),
            n_outputs=len(outputs),
            n_attrs=len(c_attrs),
            inputs=(_Tensor * len(inputs))(*map(_tensor, inputs)),
            outputs=(_Tensor * len(outputs))(*map(_tensor, outputs)),
            attrs=(_Attr * len(c_attrs))(*c_attrs),
            message=ctypes.cast(message, ctypes.c_char_p),
            message_bytes=_MESSAGE_BYTES,
        )
        status = self._function(ctypes.byref(call))
        return "" if status == 0 else message.raw.partition(b"\0")[0].decode("utf-8", "replace") or f"it gave {status}"


def _tensor(array: Array | None) -> _Tensor:
    if array is None:
        return _Tensor()
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return _Tensor(array.ctypes.data, shape, array.nbytes, array.ndim, DType.from_numpy(array.dtype).onnx)


def _attr(name: str, value: Any) -> _Attr | None:
    """An attribute as C sees it; arrays and lists of texts are left out."""
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(value, str):
        text = value.encode()
        return _Attr(name=name.encode(), text=text, count=len(text), kind=_TEXT)
    if all(isinstance(item, int) for item in values):
        return _Attr(name=name.encode(), ints=(ctypes.c_int64 * len(values))(*values), count=len(values), kind=_INTS)
    if all(isinstance(item, int | float) for item in values):
        floats = (ctypes.c_double * len(values))(*values)
        return _Attr(name=name.encode(), floats=floats, count=len(values), kind=_FLOATS)
    return None


def _cannot_load(text: str, why: str) -> UsageError:
    hint = "compile it with -shared -fPIC against atcpy_custom.h, beside the module that names it"
    return UsageError("E13029", f'the kernel "{text}" cannot be loaded: {why}', where=Where(file=text), hint=hint)
