"""Options of the engine, of sessions and of graphs: those of `atcpy convert`, by its names or by GE's.

GE's names are read by rule: `ge.exec.disableReuseMemory` is `disable_reuse_memory`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from atcpy.errors import UsageError, Where
from atcpy.options import convert_options, find_option

# What programs for GE set and what has one meaning here: there is one device, and inference and training do not differ.
_WITHOUT_EFFECT = {"device_id": ("0",), "graph_run_mode": ("0", "1")}


def merged_options(outer: Mapping[str, object], inner: Mapping[str, object] | None) -> dict[str, object]:
    """The options of an outer scope, overridden by those of an inner one. Raises UsageError for what is no
    option, for values that are none of its, and for options that exclude each other.
    """
    inner = {} if inner is None else inner
    if not isinstance(inner, Mapping) or not all(isinstance(spelling, str) for spelling in inner):
        raise UsageError("E10003", f"options are a mapping of names to values, not {inner!r}")
    spellings: dict[str, str] = {}
    for spelling, value in inner.items():
        name = option_name(spelling)
        if name not in _WITHOUT_EFFECT:
            other = spellings.setdefault(find_option(name, spelling).name, spelling)
            if other != spelling:
                raise UsageError("E10047", f"{other} and {spelling} are one option", where=Where(option=spelling))
        elif str(value) not in _WITHOUT_EFFECT[name]:
            what = f"{spelling}: {value} is not {' or '.join(_WITHOUT_EFFECT[name])}"
            raise UsageError("E10001", what, where=Where(option=spelling))
    merged = {**outer, **{name: inner[spelling] for name, spelling in spellings.items()}}
    convert_options(merged)
    return merged


def option_name(spelling: str) -> str:
    """The name of an option that GE or this project spells so."""
    name = re.sub(r"^ge\.(exec\.)?", "", spelling)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace(".", "_").lower() if name != spelling else name
