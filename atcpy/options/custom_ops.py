"""`--custom-ops`: modules of the user's operators."""

import os
import sys

from atcpy.options.readers import file_sha256, mismatch, text_of
from atcpy.options.records import OpsModule


def read_custom_ops(option: str, value: object) -> tuple[OpsModule, ...]:
    """`a.py,b.py`, or a list of paths, modules and registered classes."""
    if isinstance(value, str):
        items: list[object] = [item.strip() for item in text_of(option, value).split(",") if item.strip()]
    elif isinstance(value, list | tuple):
        items = [part for item in value for part in (item.split(",") if isinstance(item, str) else (item,))]
    else:
        items = [value]
    modules = [item if isinstance(item, OpsModule) else _ops_module(option, item) for item in items]
    return tuple({(module.path, module.target): module for module in modules}.values())


def _ops_module(option: str, item: object) -> OpsModule:
    if isinstance(item, str | os.PathLike):
        path = os.path.realpath(text_of(option, os.fspath(item)))
        return OpsModule(str(item), path, file_sha256(path, str(item)))
    name = getattr(item, "__qualname__", None) or getattr(item, "__name__", None)
    if not isinstance(name, str):
        raise mismatch(option, item, "the path of a module, a module or a registered class", code="E10003")
    file = getattr(sys.modules.get(getattr(item, "__module__", name)), "__file__", None)
    path = os.path.realpath(file) if file else ""
    return OpsModule(name, path, file_sha256(path, path) if path else "", item)


def ops_text(modules: tuple[OpsModule, ...]) -> str:
    """What the package records of modules of operators: their digests."""
    return ",".join(sorted("sha256:" + module.sha256 if module.sha256 else module.name for module in modules))
