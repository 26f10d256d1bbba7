"""The graph of objects in a checkpoint of TensorFlow 2: which full name the variable under a key had.

Keys of such a checkpoint are paths of objects, `model/layers/0/kernel/.ATTRIBUTES/VARIABLE_VALUE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from atcpy.errors import ModelInvalid, Where
from atcpy.ir import DType
from atcpy.parsers.tensorflow.bundle import Checkpoint
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TrackableObjectGraph

_KEY: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclass(frozen=True, slots=True)
class Objects:
    """The keys of each full name, and the full name of each key."""

    keys: Mapping[str, set[str]]
    full_names: Mapping[str, str]


def read_objects(checkpoint: Checkpoint) -> Objects | None:
    """Read the graph of objects; None if the checkpoint is one of names. Raises ModelInvalid if it cannot be read."""
    if _KEY not in checkpoint:
        return None
    tensor = checkpoint.tensor(_KEY)
    keys: dict[str, set[str]] = {}
    full_names: dict[str, str] = {}
    try:
        if tensor.dtype is not DType.STRING or tensor.array.size != 1:
            raise DecodeError("it is not one text")
        text: str = tensor.array.reshape(-1)[0]
        graph = TrackableObjectGraph.FromString(text.encode("utf-8", "surrogateescape"))
    except DecodeError as error:
        what = f"the graph of its objects, {_KEY}, cannot be read: {error}"
        hint = "copy the checkpoint again, whole"
        raise ModelInvalid("E13015", what, where=Where(file=checkpoint.file), hint=hint) from error
    for attribute in (item for node in graph.nodes for item in node.attributes if item.full_name):
        keys.setdefault(attribute.full_name, set()).add(attribute.checkpoint_key)
        full_names[attribute.checkpoint_key] = attribute.full_name
    return Objects(keys, full_names)
