"""`--insert_op_conf`: the configuration of AIPP."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atcpy.errors import UsageError, Where, raise_all
from atcpy.options.readers import text_of

if TYPE_CHECKING:
    from atcpy.aipp.config import AippConfig


def read_insert_op_conf(option: str, value: object) -> "AippConfig":
    """A file of AIPP in ATC's textproto."""
    from atcpy.aipp.reader import read_aipp

    return read_aipp(str(value) if isinstance(value, os.PathLike) else text_of(option, value))


def aipp_of(value: Mapping[str, Any]) -> "AippConfig | None":
    """The configuration of AIPP. Raises UsageError where it and the gears exclude each other."""
    config: AippConfig | None = value["insert_op_conf"]
    if config is None:
        return None
    if value["dynamic_dims"]:
        what = "--dynamic_dims and --insert_op_conf cannot be used together"
        hint = "--dynamic_batch_size, or --dynamic_image_size"
        raise UsageError("E10001", what, where=Where(option="insert_op_conf"), hint=hint)
    if value["dynamic_image_size"]:
        raise_all([problem for block in config.blocks for problem in block.problems_with_image_gears()])
    return config
