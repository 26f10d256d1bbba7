"""What a file is that is no ONNX model: one sentence each, with the way on."""

import re
from pathlib import Path

from atcpy.files import open_file

_CONVERT_TO_ONNX = "convert it to ONNX first"
_EXPORT_KERAS = 'export it in Keras, model.export("folder"), and give the folder'

# (where in the file, what stands there, what that is, what to do)
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"version https://git-lfs", "a git-lfs pointer: the model itself was not fetched", "git lfs pull"),
    (0, b"IMOD", "a compiled package (.om)", "it is converted already: atcpy run, inspect or bench take it"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes it", _EXPORT_KERAS),
    (4, b"TFL3", "a TensorFlow Lite model", "convert it with tf2onnx --tflite"),
    (0, b"GGUF", "a GGUF model", _CONVERT_TO_ONNX),
    (0, b"\x1f\x8b", "gzip-compressed", "unpack it: gunzip"),
    (0, b"\xfd7zXZ\x00", "xz-compressed", "unpack it: xz -d"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it: zstd -d"),
    (0, b"BZh", "bzip2-compressed", "unpack it: bunzip2"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (257, b"ustar", "a tar archive", "unpack it: tar xf"),
    (0, b"\x93NUMPY", "a numpy array", "it is an input, perhaps: atcpy run takes it"),
    (0, b"\x89PNG", "a picture", "it is an input, perhaps: atcpy run takes it"),
    (0, b"\xff\xd8\xff", "a picture", "it is an input, perhaps: atcpy run takes it"),
    (0, b"\x7fELF", "a program or a library", "look for the .onnx file"),
    (0, b"\x80\x02", "a Python pickle, as PyTorch writes it", "export it with torch.onnx.export"),
    (0, b"\x80\x04", "a Python pickle", "export the model to ONNX"),
    (8, b'{"', "a safetensors file: weights without a graph", "export the model to ONNX"),
)
_TENSORFLOW = "--framework=3"
TEXT = "text"
TENSORFLOW_TEXT = "a TensorFlow graph in text form (.pbtxt)"
_TENSORFLOW_TEXT = re.compile(
    rb"(\s|#[^\n]*\n)*"
    rb"(node|library|versions?|meta_info_def|graph_def|saved_model_schema_version|meta_graphs)\s*[:{]"
)


def begins_as_onnx(path: Path) -> bool:
    """Does a file begin with the version of ONNX's format, as nearly all models of ONNX do?"""
    try:
        with open_file(path) as file:
            head = file.read(16)
    except OSError:
        return False  # whose reader says why
    return head[:1] == b"\x08" and not is_saved_model(head)


def what_file(head: bytes, size: int) -> tuple[str, str] | None:
    """(what it is, what to do) by its first bytes, or None if it may be a protobuf."""
    if size == 0:
        return "empty", "copy or download it again"
    for offset, magic, what, hint in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return what, hint
    if head.startswith(b"PK\x03\x04"):
        if b"data.pkl" in head:
            return "a PyTorch checkpoint (a zip archive)", "export it with torch.onnx.export"
        if b"model.weights.h5" in head or b"metadata.json" in head:
            return "a model of Keras (a zip archive)", _EXPORT_KERAS
        return "a zip archive", "unpack it: the model may be inside"
    if not head.strip(b"\0"):
        return "full of zeros: an unfinished download or copy", "download it again"
    return _what_text(head)


def _what_text(head: bytes) -> tuple[str, str] | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    lower = text[:200].lower()
    if lower.startswith((b"<!doctype html", b"<html")) or b"<html" in lower:
        return "a web page: the address is that of a page about the file", "download the raw file"
    if lower.startswith(b"<?xml"):
        return "XML, as OpenVINO writes it", _CONVERT_TO_ONNX
    if lower.startswith((b"{", b"[")) and is_text(head):
        return "JSON", "look for the .onnx file"
    if lower.startswith(b"<") and b"ir_version" in lower:
        return "a model in ONNX text form", "write it as binary: onnx.save(onnx.parser.parse_model(text), file)"
    if is_tensorflow_text(head):
        return TENSORFLOW_TEXT, _TENSORFLOW
    if lower.startswith((b"ir_version:", b"graph {", b"graph{")):
        return (
            "a model in protobuf's text form",
            "write it as binary: onnx.save(onnx.load(file, format='textproto'), …)",
        )
    if is_text(head):
        return TEXT, "look for the .onnx file"
    return None


def is_tensorflow_text(head: bytes) -> bool:
    """Does a text begin as a GraphDef, a MetaGraphDef or a SavedModel in protobuf's text form?"""
    return is_text(head) and _TENSORFLOW_TEXT.match(head) is not None


def is_text(head: bytes) -> bool:
    """Is it text, by its first bytes?"""
    return all(byte >= 0x20 or byte in b"\t\n\r\f" for byte in head) and b"\x7f" not in head


def what_protobuf(data: memoryview) -> tuple[str, str]:
    """(what it is, what to do) for bytes that are no ModelProto, or one without a graph."""
    head = bytes(data[:512])
    if is_graphdef(head):
        return "a TensorFlow graph (GraphDef)", _TENSORFLOW
    if is_saved_model(head) or b"saved_model_main_op" in head:
        return "the saved_model.pb of a TensorFlow SavedModel", _TENSORFLOW
    if (missing := _truncated(data)) is not None:
        return f"a part of a model: it ends {missing} bytes too early", "copy or download it again"
    return "damaged, or no ONNX model at all", "copy or download it again; onnx.checker names the damage"


def is_graphdef(head: bytes) -> bool:
    """node { name: …, op: … } comes first: a message, whose first two fields are texts."""
    if len(head) < 6 or head[0] != 0x0A:
        return False
    data = memoryview(head)
    _, at = _varint(data, 1)
    if at + 1 >= len(head) or head[at] != 0x0A:
        return False
    length, at = _varint(data, at + 1)
    return head[at + length : at + length + 1] == b"\x12"


def is_saved_model(head: bytes) -> bool:
    """The version 1 and a message, whose first field is a message or a text, too. In ONNX's first format the same bytes
    lead to the name of the producer.
    """
    if head[:3] != b"\x08\x01\x12":
        return False
    length, at = _varint(memoryview(head), 3)
    return length > 0 and head[at : at + 1] in {b"\x0a", b"\x12"}


def _truncated(data: memoryview) -> int | None:
    """How many bytes are missing at the end of what begins as a ModelProto does, or None."""
    at, end = 0, len(data)
    fields = 0
    while at < end:
        key, at = _varint(data, at)
        if at > end or key >> 3 not in (1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26):
            return None
        kind = key & 7
        if kind == 2:
            size, at = _varint(data, at)
            at += size
        elif kind == 0:
            _, at = _varint(data, at)
        else:
            return None
        fields += 1
    return at - end if at > end and fields > 1 else None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, at + 1


def what_folder(path: Path) -> tuple[str, str]:
    """(what it is, what to do) for a folder."""
    if (path / "saved_model.pb").exists():
        return "the folder of a TensorFlow SavedModel", _TENSORFLOW
    models = sorted(entry.name for entry in path.iterdir() if entry.name.endswith(".onnx"))
    if models:
        return "a folder", f"give the file in it: {path / models[0]}"
    return "a folder", "give the model's file, or the folder that has saved_model.pb or checkpoint in it"
