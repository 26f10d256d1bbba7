"""The inputs of a package that take pictures, and the feeds of a run with settings of dynamic AIPP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.aipp.config import AIPP
from atcpy.aipp.pictures import PictureInput
from atcpy.aipp.recorded import AIPP_MODEL, ModelInput
from atcpy.errors import PackageCorrupt, UsageError, Where, did_you_mean
from atcpy.files import parse_json

if TYPE_CHECKING:
    from atcpy.ir import Node


def picture_inputs(inputs: Iterable[Node]) -> dict[str, PictureInput]:
    """Return the inputs with AIPP by name. Raises PackageCorrupt (P0005) if their record is damaged."""
    found: dict[str, PictureInput] = {}
    for data in inputs:
        if AIPP not in data.attrs:
            continue
        name, shape = data.output.name, data.output.desc.shape or ()
        try:
            settings: dict[str, Any] = dict(parse_json(data.str_attr(AIPP, "")))
            model = ModelInput.read(parse_json(data.str_attr(AIPP_MODEL, "")))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            what = f'the record of AIPP of the input "{name}" is damaged: {error or type(error).__name__}'
            raise PackageCorrupt("P0005", what) from error
        largest = shape[0] if model.parameters else 0
        found[name] = PictureInput(name, settings, model, largest if isinstance(largest, int) else 0)
    return found


def with_parameters(inputs: Iterable[Node], feeds: Mapping[str, Any], aipp: Mapping[str, object]) -> dict[str, Any]:
    """Return the feeds of a run: the pictures of dynamic inputs as their bytes, and the parameters that `aipp` says by
    input. Raises UsageError (E10052, E13025) or Unsupported (E10055).
    """
    known = {name: found for name, found in picture_inputs(inputs).items() if found.is_dynamic}
    complete = dict(feeds)
    for name, settings in aipp.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"its inputs with dynamic AIPP: {', '.join(known) or 'none'}"
            raise UsageError("E13025", f'run: aipp: "{name}" is no input with dynamic AIPP', hint=hint)
        if name not in feeds:
            raise UsageError("E13025", f'run: input "{name}" is missing', where=Where(value=name))
        found = known[name]
        if found.model.parameters in feeds:
            what = f'run: "{found.model.parameters}" is fed, and aipp has settings for "{name}"'
            raise UsageError("E13025", what, hint="one of them")
        pictures = np.asarray(feeds[name])
        complete |= found.run_feeds(found.run_settings(settings, pictures), pictures)
    return complete
