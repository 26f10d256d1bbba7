"""Whether a package needs other ranks: asked before anything is loaded that runs it."""

from google.protobuf.message import DecodeError

from atcpy.om.container import Container, Partition
from atcpy.om.schema.ge_ir_pb2 import ModelDef

_PREFIX = "Hcom"  # of GE's names of collectives


def has_collectives(package: Container) -> bool:
    """Is there a collective in its graphs? Of a model that cannot be read: perhaps; who loads it says what is wrong."""
    model = ModelDef()
    try:
        model.ParseFromString(bytes(package.partition(Partition.MODEL_DEF)))
    except DecodeError:
        return True
    return any(op.type.startswith(_PREFIX) for graph in model.graph for op in graph.op)
