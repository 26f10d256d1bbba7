"""External data: weights in files beside the model, mapped and never copied.

Only files inside the model's folder are opened, and never through a link (`map_inside`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import onnx

from atcpy.errors import AtcError, ModelInvalid, Where
from atcpy.ir import DType
from atcpy.parsers.files import map_inside
from atcpy.parsers.onnx.text import are_texts, not_text

_ORT_MEMORY_MARKER = "_ORT_MEM_ADDR_"


@dataclass(frozen=True, slots=True)
class _DataFile:
    """A mapped file; `view` is empty where it is empty or missing, and `fault` says why it cannot be used."""

    view: memoryview
    fault: str = ""


class ExternalData:
    """The data files of one model. `folder` is None for a model that was given in memory.

    `inline` holds the large `raw_data` of the model file itself, by the number of the main graph's initializer.
    """

    def __init__(
        self, folder: Path | None, *, allow_hardlinks: bool = False, inline: dict[int, memoryview] | None = None
    ) -> None:
        self.inline = inline or {}
        self._folder = folder
        self._allow_hardlinks = allow_hardlinks
        self._files: dict[str, _DataFile] = {}
        self._needed: dict[str, int] = {}

    @property
    def is_used(self) -> bool:
        """Does a tensor lie in a data file?"""
        return bool(self._needed)

    def locate(self, tensor: onnx.TensorProto, nbytes: int, where: Where) -> Callable[[], memoryview]:
        """A function that returns the bytes of `tensor`, which are `nbytes`; refuses what must not be opened.

        A missing or short file is reported by `problems`, once for all tensors that lie in it.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if not are_texts((tensor.name, *entries, *entries.values())):
            raise not_text("where external data lies", where)
        location = entries.get("location", "")
        what = f'external data "{location}" of "{tensor.name}"'
        parts = _components(location, what, where)
        offset = _decimal(entries.get("offset", "0"), f"{what}: offset", where)
        length = _decimal(entries.get("length", str(nbytes)), f"{what}: length", where)
        if length != nbytes:
            _refuse(f"{what} has {length} bytes, its type and shape need {nbytes}", where)
        if self._folder is None:
            _refuse(f"{what} cannot be read: the model was given in memory", where, "give the path of the model's file")
        name = "/".join(parts)
        if name not in self._files:
            self._files[name] = self._open(parts, what, where)
        file = self._files[name]
        self._needed[name] = max(self._needed.get(name, 0), offset + nbytes)
        return lambda: file.view[offset : offset + nbytes]

    def read(self, tensor: onnx.TensorProto) -> memoryview:
        """The bytes of a tensor that was located before."""
        nbytes = DType.from_onnx(tensor.data_type).nbytes(math.prod(tensor.dims))
        return self.locate(tensor, nbytes, Where(value=tensor.name))()

    def problems(self) -> list[AtcError]:
        """Files that are missing or too short, with the sizes."""
        found: list[AtcError] = []
        for name, needed in self._needed.items():
            file = self._files[name]
            if file.fault:
                what = f"the model needs {name} ({_size(needed)}) beside it: {file.fault}"
            elif len(file.view) < needed:
                what = (
                    f"the model needs {name} ({_size(needed)}) beside it; found only {_size(len(file.view))} of it: "
                    "the copy is incomplete"
                )
            else:
                continue
            found.append(ModelInvalid("E13015", what, hint=f"copy {name} beside the model, whole"))
        return found

    def _open(self, parts: list[str], what: str, where: Where) -> _DataFile:
        assert self._folder is not None
        try:
            found = map_inside(self._folder, parts, allow_hardlinks=self._allow_hardlinks)
        except FileNotFoundError:
            return _DataFile(memoryview(b""), "it is missing")
        except OSError as error:
            return _DataFile(memoryview(b""), (error.strerror or str(error)).lower())
        if isinstance(found, str):
            hint = "--allow-hardlinks" if "hard links" in found else _PLAIN_FILE
            _refuse(f"{what} is refused: {found}", where, hint)
        return _DataFile(found)


def _components(location: str, what: str, where: Where) -> list[str]:
    """The parts of a path that stays inside the folder."""
    why = ""
    if not location:
        why = "it names no file"
    elif _ORT_MEMORY_MARKER in location:
        why = "it is an address in the memory of the program that wrote it"
    elif "\0" in location or "\\" in location:
        why = "a name has no NUL and no backslash"
    elif "://" in location:
        why = "it is a web address"
    elif location.startswith("/") or (len(location) > 1 and location[1] == ":"):
        why = "it is not relative to the model's folder"
    parts: list[str] = []
    for part in location.split("/"):
        if part == "..":
            if not parts:
                why = why or "it leaves the model's folder"
                break
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if why or not parts or location.endswith("/"):
        _refuse(f"{what} is refused: {why or 'it names no file'}", where)
    return parts


def _decimal(text: str, what: str, where: Where) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        _refuse(f'{what} "{text}" is not a number of bytes', where)
    return int(text)


_PLAIN_FILE = "keep the data in one plain file beside the model"


def _refuse(what: str, where: Where, hint: str = _PLAIN_FILE) -> NoReturn:
    raise ModelInvalid("E13015", what, where=where, hint=hint)


def _size(count: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
