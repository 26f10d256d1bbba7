"""Random corruption of graphs and files; conversion must give a package or a clear error."""

from __future__ import annotations

import random
from pathlib import Path

import atcpy
from atcpy.errors import AtcError, InternalError
from atcpy.parsers.tensorflow.op import MAPPINGS
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import AttrValue, GraphDef, NodeDef, TensorProto
from tests.fuzz.changes import change_bytes

_NUMBERS = (-1, 0, 1, 2, 3, 7, 2**31, -(2**63), 2**63 - 1)
_TEXTS = (b"", b"NHWC", b"NCHW", b"SAME", b"EXPLICIT", b"\xff\xfe", b"x" * 1000)
_TYPES = (0, 1, 2, 3, 4, 7, 8, 9, 10, 14, 19, 20, 21, 101)
_SIZES = (-9, -1, 0, 1, 2, 3, 5, 2**35)
_OUTPUT_INDICES = (":1", ":99", ":-1", ":x", ":", ":0:0", ":²", ":" + "9" * 30)


def _attr(chance: random.Random) -> AttrValue:
    attr = AttrValue()
    match chance.randrange(8):
        case 0:
            attr.i = chance.choice(_NUMBERS)
        case 1:
            attr.s = chance.choice(_TEXTS)
        case 2:
            attr.f = chance.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])
        case 3:
            attr.type = chance.choice(_TYPES)  # type: ignore[assignment]
        case 4:
            attr.list.i.extend(chance.choice([[], [1], [-1, 2], [1, 2, 2, 1], [2**62] * 4]))
        case 5:
            attr.func.name = chance.choice(["", "nothing"])
        case 6:
            _shape(attr, chance)
        case _:
            attr.tensor.CopyFrom(TensorProto(dtype=chance.choice([1, 3, 9, 10])))  # type: ignore[arg-type]
    return attr


def _shape(attr: AttrValue, chance: random.Random) -> None:
    attr.shape.unknown_rank = chance.random() < 0.2
    for _ in range(chance.randrange(6)):
        attr.shape.dim.add(size=chance.choice(_SIZES))


def _damage_constant(tensor: TensorProto, chance: random.Random) -> None:
    content = bytearray(tensor.tensor_content)
    match chance.randrange(4):
        case 0 if content:
            content[chance.randrange(len(content))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            tensor.tensor_content = bytes(content)
        case 1:
            tensor.dtype = chance.choice(_TYPES)  # type: ignore[assignment]
        case 2 if tensor.tensor_shape.dim:
            chance.choice(tensor.tensor_shape.dim).size = chance.choice(_SIZES)
        case _:
            tensor.tensor_shape.dim.add(size=chance.choice(_SIZES))


def _damage_node(node: NodeDef, others: list[NodeDef], chance: random.Random) -> None:
    other, keys = chance.choice(others), sorted(node.attr)
    match chance.randrange(9):
        case 0 | 1 if keys:
            node.attr[chance.choice(keys)].CopyFrom(_attr(chance))
        case 2 if keys:
            del node.attr[chance.choice(keys)]
        case 3 if node.input:
            node.input[chance.randrange(len(node.input))] = other.name
        case 4 if node.input:
            del node.input[chance.randrange(len(node.input))]
        case 5 if node.input:
            node.input[chance.randrange(len(node.input))] += chance.choice(_OUTPUT_INDICES)
        case 6:
            node.input.append(other.name)
        case 7:
            node.op = chance.choice([other.op, *sorted(MAPPINGS)])
        case _:
            node.name = chance.choice(["", other.name, "a b", "ü/\u2028", "^x", "x:0", "a" * 5000])


def mutant(graph: GraphDef, chance: random.Random) -> GraphDef:
    """A randomly corrupted copy of a graph."""
    result = GraphDef.FromString(graph.SerializeToString())
    nodes = [*result.node, *(node for function in result.library.function for node in function.node_def)]
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        node = chance.choice(nodes)
        if node.op == "Const" and chance.random() < 0.7:
            _damage_constant(node.attr["value"].tensor, chance)
        elif node.op == "Placeholder" and chance.random() < 0.7:
            _shape(node.attr["shape"], chance)
        else:
            _damage_node(node, nodes, chance)
    return result


def damage_file(path: Path, chance: random.Random) -> None:
    """Change, truncate, repeat or delete bytes of a file, or delete the file."""
    if chance.randrange(6) == 0:
        path.unlink()
    else:
        path.write_bytes(change_bytes(path.read_bytes(), chance))


def problem(path: Path, folder: Path, what: str, **options: object) -> str:
    """Convert a model and describe an unexpected exception; "" if it gives a package or an AtcError."""
    try:
        atcpy.convert(str(path), str(folder / "mutant.om"), **options)
    except InternalError as error:
        return f"{what}: {error}"
    except AtcError:
        return ""
    except Exception as error:  # noqa: BLE001 any other exception is a bug
        return f"{what}: {type(error).__name__} {error}"
    return ""
