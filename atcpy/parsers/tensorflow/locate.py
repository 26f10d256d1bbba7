"""A path → what model of TensorFlow it leads to, and in which files that lies. Told by content, not by names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PureWindowsPath
from typing import Final

from atcpy.errors import AtcError, ModelInvalid, Where
from atcpy.files import NotOrdinaryError, open_file
from atcpy.parsers.files import map_file
from atcpy.parsers.sniff import is_graphdef, is_saved_model, is_tensorflow_text, is_text
from atcpy.parsers.tensorflow.bundle import INDEX
from atcpy.parsers.tensorflow.messages import parse_text
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import CheckpointState

META: Final = ".meta"
TEXT_SUFFIX: Final = ".pbtxt"
_SUFFIXES: Final = frozenset({".pb", TEXT_SUFFIX})
STATE: Final = "checkpoint"  # the file of a folder that says which of its checkpoints is the newest
_SAVED_MODEL: Final = "saved_model"
_FILES_OF_PREFIX: Final = re.compile(r"(\.index|\.meta|\.data-\d{5}-of-\d{5})$")
_HEAD: Final = 4096  # bytes by which a file is known
_TEXT_SAVED_MODEL: Final = re.compile(rb"(\s|#[^\n]*\n)*(saved_model_schema_version|meta_graphs)\s*[:{]")


class Kind(Enum):
    """What a path leads to."""

    GRAPH = "frozen graph"
    SAVED_MODEL = "SavedModel"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a model lies: the file of its graph, and the prefix of the files of its variables."""

    kind: Kind
    file: Path
    prefix: Path | None = None

    @property
    def root(self) -> Path:
        """The folder that all of it lies in."""
        return self.file.parent


def is_tensorflow(path: Path) -> bool:
    """Is this a TensorFlow graph, by what it holds? A file that is nothing, or something else, is one to its user if
    its name says so.
    """
    try:
        return find_location(path) is not None or path.suffix in _SUFFIXES
    except (OSError, AtcError):
        return is_state(path)  # whose reader says why it cannot be read


def is_state(path: Path) -> bool:
    """Is it a folder of checkpoints?"""
    return (path / STATE).is_file()


def find_location(path: Path) -> Location | None:
    """Where the model lies that a path leads to; None if it is none of TensorFlow's."""
    if path.is_dir():
        return _find_in_folder(path)
    name = _FILES_OF_PREFIX.sub("", path.name)
    prefix = path.with_name(name) if name else path
    if name != path.name or not path.exists():
        is_there = any(Path(f"{prefix}{end}").is_file() for end in (INDEX, META))
        return _checkpoint(prefix) if is_there else None
    try:
        with open_file(path) as file:
            head = file.read(_HEAD)
    except NotOrdinaryError:
        return None  # whose reader says so
    if is_text(head):
        if _TEXT_SAVED_MODEL.match(head):
            return _saved_model(path)
        return Location(Kind.GRAPH, path) if is_tensorflow_text(head) or path.suffix == TEXT_SUFFIX else None
    if is_graphdef(head):
        return Location(Kind.GRAPH, path)
    return _saved_model(path) if is_saved_model(head) else None


def _find_in_folder(path: Path) -> Location | None:
    for name in (f"{_SAVED_MODEL}.pb", f"{_SAVED_MODEL}.pbtxt"):
        if (path / name).is_file():
            return _saved_model(path / name)
    return _checkpoint(_newest(path)) if is_state(path) else None


def find_checkpoint(path: Path) -> Path:
    """The prefix of the checkpoint that a path leads to: its folder, any of its files, or the prefix itself. Raises
    ModelInvalid if its index is not there.
    """
    name = _FILES_OF_PREFIX.sub("", path.name)
    prefix = _newest(path) if is_state(path) else path.with_name(name) if name else path
    if not Path(f"{prefix}{INDEX}").is_file():
        what = f"{prefix.name}{INDEX} is missing: there is no checkpoint"
        raise ModelInvalid(
            "E13015", what, where=Where(file=str(path)), hint="name its folder, or the prefix of its files"
        )
    return prefix


def _newest(path: Path) -> Path:
    """The prefix of the newest checkpoint of a folder."""
    state = path / STATE
    said = parse_text(state, bytes(map_file(state, "the state of a training")), CheckpointState()).model_checkpoint_path
    prefix = _in_folder(path, said)
    if prefix is None:
        what = f'the newest checkpoint of the folder is "{said}", of which it has no file'
        hint = "name one that is there by its prefix, or copy it into the folder"
        raise ModelInvalid("E13015", what, where=Where(file=str(state)), hint=hint)
    return prefix


def _in_folder(folder: Path, said: str) -> Path | None:
    """The prefix in a folder that its state names; the folder may have been moved, also from Windows. Files elsewhere
    are not looked at: they would not be those that the user names.
    """
    parts = PureWindowsPath(said).parts  # which knows both slashes
    for few in (parts, parts[-1:]):
        prefix = folder.joinpath(*few)
        is_inside = few and ".." not in few and prefix.is_relative_to(folder)
        if is_inside and any(prefix.with_name(prefix.name + end).is_file() for end in (INDEX, META)):
            return prefix
    return None


def _checkpoint(prefix: Path) -> Location:
    return Location(Kind.CHECKPOINT, prefix.with_name(prefix.name + META), prefix)


def _saved_model(file: Path) -> Location:
    return Location(Kind.SAVED_MODEL, file, file.parent / "variables" / "variables")
