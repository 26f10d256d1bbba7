"""The configuration of AIPP as records. One record is one `aipp_op` block: what it does to one input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from atcpy.errors import AtcWarning, UsageError, Where

Triple: TypeAlias = tuple[int, int, int]
Setting: TypeAlias = int | float | str | Sequence[int]
AIPP = "aipp"  # the attribute of an input that records its settings, as JSON
CHANNELS = 4
MAX_SIDE = 4096
DYNAMIC = "dynamic"  # an `aipp_mode`


class Picture(Enum):
    """How the bytes of an input lie in memory, by ATC's `input_format`."""

    YUV420SP = "YUV420SP_U8"  # NV12: a plane of Y, and one of U and V in turn at half the height and width
    XRGB8888 = "XRGB8888_U8"
    RGB888 = "RGB888_U8"
    YUV400 = "YUV400_U8"  # gray

    @property
    def channels(self) -> int:
        """Bytes of a pixel as the input's last dim has them; the planes of YUV420SP are one channel."""
        return {Picture.XRGB8888: 4, Picture.RGB888: 3}.get(self, 1)

    @property
    def colours(self) -> int:
        """Channels that are left without X."""
        return 1 if self is Picture.YUV400 else 3


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the fields of a block stand."""

    file: str = ""
    line: int | None = None  # of the block
    lines: Mapping[str, int] = field(default_factory=dict)
    value: str = ""  # the input, where the caller of a run sets the fields

    def where(self, *names: str) -> Where:
        """The first of these fields that is set, else the block."""
        line = next((self.lines[name] for name in names if name in self.lines), self.line)
        return Where(file=self.file, line=line, value=self.value)

    def error(self, what: str, *names: str, hint: str = "") -> UsageError:
        """E10052 at the first of these fields that is set."""
        return UsageError("E10052", f"AIPP: {what}", where=self.where(*names), hint=hint)

    def no_effect(self, names: Sequence[str], why: str) -> list[AtcWarning]:
        """One W0031 for those of the fields that are set."""
        found = [name for name in names if name in self.lines]
        if not found:
            return []
        listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if found[3:] else "")
        verb = "has" if len(found) == 1 else "have"
        return [AtcWarning("W0031", f"AIPP: {listed} {verb} no effect: {why}", self.where(*found))]


@dataclass(frozen=True, slots=True)
class Crop:
    """A rectangle of the source; a size of 0 is the model's."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Padding:
    """Rows and columns around the picture, and the value of their elements."""

    top: int
    bottom: int
    left: int
    right: int
    value: float


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion between colour spaces: ((rows · (channels - input_bias)) >> 8) + output_bias, clamped to 0..255."""

    rows: tuple[Triple, Triple, Triple]
    input_bias: Triple = (0, 0, 0)
    output_bias: Triple = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block. `settings` are the fields that have an effect, with their defaults, by ATC's names."""

    rank: int
    name: str
    consumers: tuple[int, ...]
    settings: Mapping[str, Setting]
    fields: Fields = field(compare=False)
    warnings: tuple[AtcWarning, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """The settings in canonical spelling, as the package records them."""
        return json.dumps(dict(sorted(self.settings.items())), separators=(",", ":"))

    def problems_with_image_gears(self) -> Iterator[UsageError]:
        """The fields that set a size, which --dynamic_image_size leaves open."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicAipp(Block):
    """A block whose settings come with each run, for pictures of at most so many bytes together."""

    max_source_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aipp(Block):
    """A static block; the sizes of the source are 0 where the model's count."""

    picture: Picture
    source_height: int
    source_width: int
    swap_rb: bool
    swap_ax: bool
    crop: Crop | None
    conversion: Conversion | None
    mean: tuple[int, ...]  # mean_chn of each channel
    low: tuple[float, ...]  # min_chn
    factor: tuple[float, ...]
    padding: Padding | None

    def problems_with_image_gears(self) -> Iterator[UsageError]:
        """The fields that set a size, which --dynamic_image_size leaves open."""
        sizes = (("src_image_size_h", self.source_height), ("src_image_size_w", self.source_width))
        switches = (("crop", self.crop is not None), ("padding", self.padding is not None))
        yield from (
            self.fields.error(f"{name}: {size} cannot be used with --dynamic_image_size: it must be 0", name)
            for name, size in sizes
            if size
        )
        yield from (
            self.fields.error(f"{name} cannot be used with --dynamic_image_size", name)
            for name, is_on in switches
            if is_on
        )


@dataclass(frozen=True, slots=True)
class AippConfig:
    """A configuration file."""

    blocks: tuple[Aipp | DynamicAipp, ...]

    @property
    def sha256(self) -> str:
        """The digest of what the file says: comments, spelling and the order of blocks do not count."""
        return hashlib.sha256("\n".join(sorted(block.text for block in self.blocks)).encode()).hexdigest()
