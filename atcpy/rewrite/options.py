"""The options of `atcpy optimize`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from atcpy.errors import UsageError, did_you_mean
from atcpy.options import (
    OPTIONS,
    ConvertOptions,
    OoLevel,
    PassSwitches,
    convert_options,
    read_bool,
    read_int,
    read_names,
)

SHARED = (
    "input_shape", "oo_level", "skip_pass", "max_const", "max_growth", "allow_hardlinks", "memory_limit", "timeout",
    "threads", "debug",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RewriteOptions:
    """The options that `optimize` shares with `convert`, and its own. `only` names the passes to run beside the
    required ones; if it is empty, all run. A model of an opset below `lowest_opset` is brought to that one.
    """

    shared: ConvertOptions = field(default_factory=ConvertOptions)
    only: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    verify: bool = True
    checks: int = 1
    lowest_opset: int = 0

    def without(self, names: Iterable[str]) -> RewriteOptions:
        """The same with these passes switched off."""
        switches = PassSwitches(named=dict.fromkeys(sorted(names), False)).over(self.shared.prepare.switches)
        return replace(self, shared=replace(self.shared, prepare=replace(self.shared.prepare, switches=switches)))

    def required_only(self) -> RewriteOptions:
        """The same with the passes that every model needs."""
        return replace(self, shared=replace(self.shared, prepare=replace(self.shared.prepare, level=OoLevel.O1)))


def rewrite_options(values: Mapping[str, object] | None = None) -> RewriteOptions:
    """Read the options that a user named, with `-` or `_`; None stands for the default."""
    named = {name.replace("-", "_"): value for name, value in (values or {}).items() if value is not None}
    own = {name: named.pop(name) for name in ("passes", "keep", "verify", "check") if name in named}
    for name, shared in (("level", "oo_level"), ("skip", "skip_pass")):
        if name in named:
            named[shared] = named.pop(name)
    refused = [name for name in named if name in OPTIONS and name not in SHARED]
    if refused:
        raise UsageError("E10001", f'optimize has no option "{refused[0]}"', hint=did_you_mean(refused[0], SHARED))
    return RewriteOptions(
        shared=convert_options(named),
        only=read_names("passes", own["passes"]) if "passes" in own else (),
        keep=read_names("keep", own["keep"]) if "keep" in own else (),
        verify=read_bool("verify", own.get("verify", True)),
        checks=read_int("check", own.get("check", 1), 1, 100),
    )
