"""The parameters of dynamic AIPP: the bytes of the input `ascend_dynamic_aipp_data`, laid out as Ascend has them.

A header, then a record for each picture, little endian. The kernel checks every byte of them that counts, whoever
wrote them; what is checked here is what a caller of the methods says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atcpy.aipp.config import MAX_SIDE, Aipp, Fields, Picture
from atcpy.errors import AtcError, Unsupported, raise_all

PARAMETERS_NAME = "ascend_dynamic_aipp_data"
MAX_PICTURES = 127  # Ascend counts them in a signed byte
FORMATS = (Picture.YUV420SP, Picture.XRGB8888, Picture.RGB888, Picture.YUV400)  # numbered from 1

# Fields are called as in Ascend's structs kAippDynamicPara and kAippDynamicBatchPara.
HEADER = np.dtype(
    {
        "names": [
            "inputFormat", "cscSwitch", "rbuvSwapSwitch", "axSwapSwitch", "batchNum", "srcImageSizeW", "srcImageSizeH",
            "cscMatrix", "cscOutputBias", "cscInputBias",
        ],
        "formats": ["u1", "i1", "i1", "i1", "i1", "<i4", "<i4", ("<i2", 9), ("u1", 3), ("u1", 3)],
        "offsets": [0, 1, 2, 3, 4, 8, 12, 16, 40, 43],
        "itemsize": 64,
    }
)  # fmt: skip
RECORD = np.dtype(
    {
        "names": [
            "cropSwitch", "scfSwitch", "paddingSwitch", "rotateSwitch", "cropStartPosW", "cropStartPosH", "cropSizeW",
            "cropSizeH", "scfInputSizeW", "scfInputSizeH", "scfOutputSizeW", "scfOutputSizeH", "paddingSizeTop",
            "paddingSizeBottom", "paddingSizeLeft", "paddingSizeRight", "dtcPixelMean", "dtcPixelMin",
            "dtcPixelVarReci",
        ],
        "formats": [*["i1"] * 4, *["<i4"] * 12, ("<i2", 4), ("<f2", 4), ("<f2", 4)],
        "offsets": [*range(4), *range(8, 56, 4), 56, 64, 72],
        "itemsize": 96,
    }
)  # fmt: skip


def block_bytes(pictures: int) -> int:
    """Return the size of the parameters of so many pictures."""
    return HEADER.itemsize + pictures * RECORD.itemsize


def field_at(offset: int) -> str:
    """Return the field that begins at a byte of the parameters, for people."""
    of, at, kind = "", offset, HEADER
    if offset >= HEADER.itemsize:
        number, at = divmod(offset - HEADER.itemsize, RECORD.itemsize)
        of, kind = f" of picture {number}", RECORD
    for name, (field, start) in reversed(list((kind.fields or {}).items())):
        if at >= start:
            index = "" if field.subdtype is None else f"[{(at - start) // field.base.itemsize}]"
            return f"{name}{index}{of}"
    return f"byte {offset}"


class AippParameters:
    """The parameters of a run with so many pictures. Its methods are those of ACL's `aclmdlAIPP`, in its order of
    arguments; `picture` is its batchIndex. In the beginning every switch is off, and each factor is 1.

    Raises UsageError (E10052) for values outside their ranges.
    """

    def __init__(self, pictures: int = 1) -> None:
        self._fields = Fields()
        self._require("pictures", pictures, 1, MAX_PICTURES)
        self.pictures = pictures
        self._bytes = np.zeros(block_bytes(pictures), np.uint8)
        self._header: NDArray[Any] = self._bytes[: HEADER.itemsize].view(HEADER)
        self._records: NDArray[Any] = self._bytes[HEADER.itemsize :].view(RECORD)
        self._header["batchNum"] = pictures
        self._records["dtcPixelVarReci"] = 1

    def to_array(self) -> NDArray[np.uint8]:
        """Return the bytes that are fed to the input."""
        return self._bytes.copy()

    def set_input_format(self, input_format: str) -> None:
        """aclmdlSetAIPPInputFormat, by ATC's name: RGB888_U8."""
        names = [picture.value for picture in FORMATS]
        if input_format not in names:
            raise self._fields.error(f"input_format: {input_format!r} is not supported", hint=", ".join(names))
        self._header["inputFormat"] = names.index(input_format) + 1

    def set_src_image_size(self, width: int, height: int) -> None:
        """aclmdlSetAIPPSrcImageSize."""
        self._require("src_image_size_w", width, 2, MAX_SIDE)
        self._require("src_image_size_h", height, 1, MAX_SIDE)
        self._header["srcImageSizeW"], self._header["srcImageSizeH"] = width, height

    def set_csc_params(
        self,
        csc_switch: bool,
        matrix: Sequence[int] = (0,) * 9,
        output_bias: Sequence[int] = (0,) * 3,
        input_bias: Sequence[int] = (0,) * 3,
    ) -> None:
        """aclmdlSetAIPPCscParams; the matrix row by row."""
        for name, numbers, count, low, high in (
            ("matrix", matrix, 9, -32768, 32767),
            ("output_bias", output_bias, 3, 0, 255),
            ("input_bias", input_bias, 3, 0, 255),
        ):
            if len(numbers) != count:
                raise self._fields.error(f"{name}: {len(numbers)} numbers, not {count}")
            for number in numbers:
                self._require(name, number, low, high)
        self._header["cscSwitch"] = bool(csc_switch)
        self._header["cscMatrix"], self._header["cscOutputBias"] = matrix, output_bias
        self._header["cscInputBias"] = input_bias

    def set_rbuv_swap_switch(self, switch: bool) -> None:
        """aclmdlSetAIPPRbuvSwapSwitch."""
        self._header["rbuvSwapSwitch"] = bool(switch)

    def set_ax_swap_switch(self, switch: bool) -> None:
        """aclmdlSetAIPPAxSwapSwitch."""
        self._header["axSwapSwitch"] = bool(switch)

    def set_crop_params(
        self,
        crop_switch: bool,
        start_w: int = 0,
        start_h: int = 0,
        size_w: int = 0,
        size_h: int = 0,
        picture: int = 0,
    ) -> None:
        """aclmdlSetAIPPCropParams."""
        for name, number, low, high in (
            ("load_start_pos_w", start_w, 0, MAX_SIDE - 1),
            ("load_start_pos_h", start_h, 0, MAX_SIDE - 1),
            ("crop_size_w", size_w, int(crop_switch), MAX_SIDE),
            ("crop_size_h", size_h, int(crop_switch), MAX_SIDE),
        ):
            self._require(name, number, low, high)
        record = self._record(picture)
        record["cropSwitch"] = bool(crop_switch)
        record["cropStartPosW"], record["cropStartPosH"] = start_w, start_h
        record["cropSizeW"], record["cropSizeH"] = size_w, size_h

    def set_padding_params(
        self,
        padding_switch: bool,
        top: int = 0,
        bottom: int = 0,
        left: int = 0,
        right: int = 0,
        picture: int = 0,
    ) -> None:
        """aclmdlSetAIPPPaddingParams; what is added is 0."""
        record = self._record(picture)
        sizes = {"Top": top, "Bottom": bottom, "Left": left, "Right": right}
        for side, size in sizes.items():
            self._require(f"{side.lower()}_padding_size", size, 0, 32)
        record["paddingSwitch"] = bool(padding_switch)
        for side, size in sizes.items():
            record[f"paddingSize{side}"] = size

    def set_dtc_pixel_mean(self, *means: int, picture: int = 0) -> None:
        """aclmdlSetAIPPDtcPixelMean: up to four, one a channel."""
        self._set_channels("dtcPixelMean", "mean_chn", means, 0, 255, picture)

    def set_dtc_pixel_min(self, *minima: float, picture: int = 0) -> None:
        """aclmdlSetAIPPDtcPixelMin: up to four; they are rounded to float16."""
        self._set_channels("dtcPixelMin", "min_chn", minima, 0, 255, picture)

    def set_pixel_var_reci(self, *factors: float, picture: int = 0) -> None:
        """aclmdlSetAIPPPixelVarReci: up to four; they are rounded to float16."""
        self._set_channels("dtcPixelVarReci", "var_reci_chn", factors, -65504, 65504, picture)

    def _set_channels(
        self, field: str, name: str, numbers: Sequence[float], low: float, high: float, picture: int
    ) -> None:
        if len(numbers) > 4:
            raise self._fields.error(f"{name}: {len(numbers)} numbers for at most 4 channels")
        for channel, number in enumerate(numbers):
            self._require(f"{name}_{channel}", number, low, high)
        self._record(picture)[field][: len(numbers)] = numbers

    def _record(self, picture: int) -> NDArray[Any]:
        self._require("picture", picture, 0, self.pictures - 1)
        return self._records[picture]  # type: ignore[no-any-return]

    def _require(self, name: str, value: float, low: float, high: float) -> None:
        if not low <= value <= high:
            raise self._fields.error(f"{name}: {value:g} is outside {low:g}..{high:g}")


def parameters_of(blocks: Sequence[Aipp], size: tuple[int, int]) -> AippParameters:
    """Return the parameters for pictures with these settings, one each; `size` is height and width of the model, for
    crops of size 0. The sizes of the source are set. Raises UsageError (E10052) or Unsupported (E10055).
    """
    raise_all([problem for block in blocks for problem in _unlike_problems(blocks[0], block)])
    parameters = AippParameters(len(blocks))
    common = blocks[0]
    parameters.set_input_format(common.picture.value)
    parameters.set_src_image_size(common.source_width, common.source_height)
    parameters.set_rbuv_swap_switch(common.swap_rb)
    parameters.set_ax_swap_switch(common.swap_ax)
    if (csc := common.conversion) is not None:
        matrix = [number for row in csc.rows for number in row]
        parameters.set_csc_params(True, matrix, csc.output_bias, csc.input_bias)
    for picture, block in enumerate(blocks):
        if (crop := block.crop) is not None:
            height, width = crop.height or size[0], crop.width or size[1]
            parameters.set_crop_params(True, crop.left, crop.top, width, height, picture)
        if (pad := block.padding) is not None:
            parameters.set_padding_params(True, pad.top, pad.bottom, pad.left, pad.right, picture)
        parameters.set_dtc_pixel_mean(*block.mean, picture=picture)
        parameters.set_dtc_pixel_min(*block.low, picture=picture)
        parameters.set_pixel_var_reci(*block.factor, picture=picture)
    return parameters


def _unlike_problems(first: Aipp, block: Aipp) -> list[AtcError]:
    """What no parameters can say."""
    found: list[AtcError] = []
    for name in ("input_format", "src_image_size_h", "src_image_size_w", "rbuv_swap_switch", "ax_swap_switch"):
        if first.settings.get(name) != block.settings.get(name):
            found.append(block.fields.error(f"{name}: all pictures of a run have the same", name))
    if first.conversion != block.conversion:
        found.append(block.fields.error("csc_switch: all pictures of a run have the same conversion", "csc_switch"))
    if block.padding is not None and block.padding.value != 0:
        what = "AIPP: padding_value is not supported where aipp_mode is dynamic: its parameters have none"
        found.append(Unsupported("E10055", what, where=block.fields.where("padding_value"), hint="0"))
    return found
