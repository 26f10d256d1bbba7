"""Arrays from files and descriptions, and back into files: what `run`, `verify` and `bench` take and give."""

import hashlib
import io
import json
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from atcpy.aipp.config import AIPP, DYNAMIC, Picture
from atcpy.errors import AtcWarning, UsageError, Where, did_you_mean, raise_os_error
from atcpy.files import open_file, parse_json, read_file
from atcpy.ir import DType
from atcpy.om.atomic import atomic_write_together
from atcpy.options import MAX_DIM, read_int
from atcpy.runtime.array_files import write_array
from atcpy.verify.inputs import Array, Feeds, Fill, Port, make_array

if TYPE_CHECKING:
    from PIL.Image import Image

    from atcpy import InferenceSession

# What numpy, which parses headers as Python, zipfile and zlib raise for files that are damaged, encrypted or none of
# theirs; RecursionError is a RuntimeError.
_DAMAGE = (
    ValueError, OSError, EOFError, RuntimeError, OverflowError, SyntaxError, TypeError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_NAME_BYTES = 120
_FILL = re.compile(r"(ones|zeros|random)(:\d+)?")


def load_npy(path: str) -> Array:
    """A `.npy` file; pickled objects are refused."""
    array = _load(path)
    if not isinstance(array, np.ndarray):
        raise UsageError("E13005", f"{path} holds several arrays", where=Where(file=path), hint=f"--npz {path}")
    return array


def load_npz(path: str) -> Feeds:
    """All arrays of an `.npz` file, by name."""
    arrays = _load(path)
    if isinstance(arrays, np.ndarray):
        raise UsageError("E13005", f"{path} is one array", where=Where(file=path), hint=f"--input NAME={path}")
    return arrays


def _load(path: str) -> Array | Feeds:
    """The array, or the arrays by name, that a file holds."""
    try:
        with open_file(path) as file:
            return _read_arrays(path, file)
    except FileNotFoundError:
        folder = Path(path).parent
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        hint = did_you_mean(Path(path).name, names)
        raise UsageError("E10410", f"{path} does not exist", where=Where(file=path), hint=hint) from None
    except OSError as error:
        raise_os_error(error, path)


def _read_arrays(path: str, file: BinaryIO) -> Array | Feeds:
    try:
        loaded = np.load(file, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> UsageError:
    words = "it holds pickled objects" if "pickle" in str(error).lower() else str(error) or type(error).__name__
    return UsageError("E13005", f"{path} is not an array file of numpy: {words}", where=Where(file=path))


def split_assignment(option: str, text: str, ports: Sequence[Port]) -> tuple[Port, str]:
    """`name=value`, or the value alone where the model has one input."""
    for port in sorted(ports, key=lambda p: -len(p.name)):  # a name may contain `=`
        if text.startswith(port.name + "="):
            return port, text[len(port.name) + 1 :]
    name, equals, _ = text.partition("=")
    if not equals and len(ports) == 1:
        return ports[0], text
    if not equals:
        names = ", ".join(port.name for port in ports)
        what = f'--{option}: "{text}" does not say for which input'
        raise UsageError("E10001", what, where=Where(option=option), hint=f"NAME={text}; the inputs are {names}")
    known = [port.name for port in ports]
    hint = did_you_mean(name, known) or "the inputs are " + ", ".join(known)
    raise UsageError("E10404", f'--{option}: no input "{name}"', where=Where(option=option), hint=hint)


def read_shapes(texts: Iterable[str], ports: Sequence[Port]) -> dict[str, tuple[int, ...]]:
    """`--shape x=1,3,8,8`, once an input."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        port, sizes = split_assignment("shape", text, ports)
        shapes[port.name] = tuple(read_int("shape", part, 0, MAX_DIM) for part in sizes.split(",") if part.strip())
    return shapes


def read_input(port: Port, text: str) -> Array:
    """An array from `a.npy`, `a.npz` (its array of that name, or its only one), `a.bin` (elements without a header,
    as ATC has them), `ones`, `zeros` or `random:SEED`.
    """
    if _FILL.fullmatch(text):
        return make_array(port, Fill.read(text))
    if text.endswith(".npz"):
        arrays = load_npz(text)
        if port.name in arrays or len(arrays) == 1:
            return arrays.get(port.name, next(iter(arrays.values())))
        hint = "it holds " + ", ".join(arrays)
        raise UsageError("E10404", f'{text} has no array "{port.name}"', where=Where(file=text), hint=hint)
    return _load_bin(port, text) if text.endswith(".bin") else load_npy(text)


def _load_bin(port: Port, path: str) -> Array:
    """The elements of an input in their order, in the bytes of its type."""
    where = Where(file=path, value=port.name)
    if port.dtype is DType.STRING or port.dtype.bits < 8:
        what = f"{path}: elements of {port.dtype.long} have no bytes of their own"
        raise UsageError("E13005", what, where=where, hint="an array of numpy: .npy")
    shape = [dim for dim in port.shape if isinstance(dim, int) and dim >= 0]
    if len(shape) < len(port.shape):
        sizes = ",".join(str(dim) if isinstance(dim, int) else "1" for dim in port.shape)
        what = f'{path} does not say the shape of input "{port.name}"'
        raise UsageError("E10405", what, where=where, hint=f'--shape "{port.name}={sizes}"')
    try:
        raw = read_file(path)
    except OSError as error:
        raise_os_error(error, path)
    dtype = np.dtype(port.dtype.numpy)
    needed = math.prod(shape) * dtype.itemsize
    if len(raw) != needed:
        what = f'{path} has {len(raw)} bytes, input "{port.name}" {shape} {port.dtype.long} needs {needed}'
        raise UsageError("E10405", what, where=where, hint="--shape, if its dims are open")
    if port.dtype is DType.BOOL:
        truths: Array = np.frombuffer(raw, np.uint8) != 0
        return truths.reshape(shape)
    array: Array = np.frombuffer(raw, dtype)
    return array.reshape(shape)


# --------------------------------------------------------------------------------------------------------------------
# Pictures


_SQUASHED = 1.02  # how much more one side may shrink than the other: sizes are whole pixels


def read_image(
    port: Port,
    path: str,
    *,
    mean: str | None,
    std: str | None,
    layout: str,
    warn: Callable[[AtcWarning], object] = lambda warning: None,
) -> Array:
    """A picture as the input wants it: channels, size and layout fitted, (level - mean) / std. `warn` is called for
    what a picture loses by that (W0071), and where its levels are not scaled (W0072).
    """
    if layout not in ("NCHW", "NHWC"):
        raise UsageError("E10001", f'--layout: "{layout}" is not NCHW or NHWC', where=Where(option="layout"))
    channels, height, width = _picture_size(port, layout)
    fitted = _open_image(path, channels, (width, height), warn)
    if mean is None and std is None and port.dtype.is_float:
        what = f'{path}: input "{port.name}" gets levels of 0 to 255, without --mean and --std'
        warn(AtcWarning("W0072", what, Where(file=path, value=port.name)))
    levels = np.asarray(fitted, np.float32).reshape(height, width, channels)
    shift, scale = (_per_channel(name, text, channels, d) for name, text, d in (("mean", mean, 0.0), ("std", std, 1.0)))
    if not scale.all():
        raise UsageError("E10013", "--std: 0 is outside its range", where=Where(option="std"))
    picture = (levels - shift) / scale
    if not port.dtype.is_float:
        picture = np.rint(picture)
    picture = picture.astype(port.dtype.numpy)
    return np.ascontiguousarray((picture.transpose(2, 0, 1) if layout == "NCHW" else picture)[np.newaxis])


def aipp_settings(session: "InferenceSession", name: str) -> dict[str, Any] | None:
    """The settings of AIPP that the package records of an input; None where it has none."""
    for data in session.model.graph.inputs:
        if data.output.name == name and AIPP in data.attrs:
            settings: dict[str, Any] = parse_json(data.str_attr(AIPP, ""))
            return settings
    return None


def read_bytes_of_image(
    port: Port,
    path: str,
    settings: Mapping[str, Any],
    *,
    mean: str | None,
    std: str | None,
    warn: Callable[[AtcWarning], object] = lambda warning: None,
) -> Array:
    """A picture for an input with AIPP: its bytes as they are, in the order of channels that the input has. `warn` is
    called for what it loses by that (W0071).
    """
    where = Where(option="image")
    if mean is not None or std is not None:
        what = f'--mean and --std are not for the input "{port.name}": the package has its own, of AIPP'
        raise UsageError("E10001", what, where=where, hint="drop them")
    if settings.get("aipp_mode") == DYNAMIC:
        what = f'--image: input "{port.name}" gets its settings of AIPP with each run'
        raise UsageError("E10001", what, where=where, hint=f"--aipp {port.name}=settings.json")
    if settings["input_format"] == Picture.YUV420SP.value:
        what = f'--image: input "{port.name}" takes YUV420SP, which no file of a picture holds'
        raise UsageError("E10405", what, where=where, hint="--input with an array of its bytes")
    channels, height, width = _picture_size(port, "NHWC")
    fitted = _open_image(path, channels, (width, height), warn)
    picture = np.asarray(fitted, np.uint8).reshape(height, width, channels)
    order = list(range(channels))
    if settings.get("rbuv_swap_switch"):
        order[:3] = order[2::-1]
    if settings.get("ax_swap_switch"):
        order = order[3:] + order[:3]
    return np.ascontiguousarray(picture[np.newaxis, :, :, order])


def _picture_size(port: Port, layout: str) -> tuple[int, int, int]:
    dims = port.shape
    if len(dims) == 4 and dims[0] in (1, -1, None) and all(isinstance(dim, int) and dim > 0 for dim in dims[1:]):
        a, b, c = (dim for dim in dims[1:] if isinstance(dim, int))
        channels, height, width = (a, b, c) if layout == "NCHW" else (c, a, b)
        if channels in (1, 3, 4):
            return channels, height, width
    what = f'--image: input "{port.name}" {list(dims)} is no picture in {layout}'
    raise UsageError("E10405", what, where=Where(option="image"), hint="--layout NHWC, or --input with an array")


def _losses(image: "Image", channels: int, size: tuple[int, int]) -> Iterator[str]:
    """What a picture loses when it is fitted."""
    (from_width, from_height), (width, height) = image.size, size
    ratio = (width * from_height) / (height * from_width)
    if max(ratio, 1 / ratio) > _SQUASHED:
        yield f"is squashed from {from_width}x{from_height} to {width}x{height}"
    if channels == 1 and image.mode not in ("1", "L", "LA", "I", "I;16", "F"):
        red, green, blue = image.convert("RGB").split()
        if not red.tobytes() == green.tobytes() == blue.tobytes():
            yield "loses its colours: the input has one channel"


def _open_image(path: str, channels: int, size: tuple[int, int], warn: Callable[[AtcWarning], object]) -> "Image":
    from PIL import Image, UnidentifiedImageError

    try:
        with open_file(path) as file, Image.open(file) as image:
            for loss in _losses(image, channels, size):
                warn(AtcWarning("W0071", f"{path} {loss}", Where(file=path)))
            picture = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    except UnidentifiedImageError as error:
        raise UsageError("E13005", f"{path} is not a picture that can be read", where=Where(file=path)) from error
    except (Image.DecompressionBombError, SyntaxError, ValueError, EOFError) as error:
        raise UsageError("E13005", f"{path} cannot be read: {error}", where=Where(file=path)) from error
    except OSError as error:
        if error.errno is None:  # Pillow's own: a truncated file
            raise UsageError("E13005", f"{path} cannot be read: {error}", where=Where(file=path)) from error
        raise_os_error(error, path)
    return picture if picture.size == size else picture.resize(size, Image.Resampling.BILINEAR)


def _per_channel(option: str, text: str | None, channels: int, default: float) -> Array:
    if text is None:
        return np.full(channels, default, np.float32)
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        what = f'--{option}: "{text}" is not a list of numbers'
        raise UsageError("E10014", what, where=Where(option=option)) from None
    if len(numbers) not in (1, channels):
        what = f"--{option}: {len(numbers)} numbers for {channels} channels"
        raise UsageError("E10001", what, where=Where(option=option))
    return np.broadcast_to(np.array(numbers, np.float32), (channels,))


# --------------------------------------------------------------------------------------------------------------------
# Outputs


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """A file stem for each output: harmless on every disk, and no two alike even where case does not count."""
    taken: set[str] = set()
    stems = {}
    for name in names:
        raw = name.encode("utf-8", "backslashreplace")
        stem = "".join(chr(b) if re.fullmatch(rb"[A-Za-z0-9._-]", bytes([b])) else f"%{b:02X}" for b in raw)
        stem = "%2E" + stem[1:] if stem.startswith(".") else stem or "output"
        if len(stem) > _NAME_BYTES:
            stem = stem[:_NAME_BYTES] + "-" + hashlib.sha256(raw).hexdigest()[:16]
        unique, number = stem, 1
        while unique.lower() in taken:
            number += 1
            unique = f"{stem}.{number}"
        taken.add(unique.lower())
        stems[name] = unique
    return stems


def save_folder(folder: Path, arrays: Mapping[str, Array]) -> dict[str, str]:
    """Each array as `.npy`, and `outputs.json` that tells which is which; the paths by name."""
    files = {name: stem + ".npy" for name, stem in safe_names(arrays).items()}
    contents = {folder / files[name]: _npy(array) for name, array in arrays.items()}
    index = [json.dumps(files, indent=1).encode() + b"\n"]
    atomic_write_together({**contents, folder / "outputs.json": index})
    return {name: str(folder / file) for name, file in files.items()}


def _npy(array: Array) -> Iterator[memoryview]:
    """The content of a file, made when it is written: not all of them are in memory at once."""
    buffer = io.BytesIO()
    write_array(buffer, array)
    yield buffer.getbuffer()
