"""What a package records of its options, and how they are read out of it again."""

import shlex
from collections.abc import Mapping

from atcpy.errors import PackageCorrupt, Unsupported, UsageError, Where
from atcpy.options.conversion import convert_options
from atcpy.options.records import ConvertOptions, IterationsPerLoop
from atcpy.options.table import OPTIONS


def recorded_options(cmdline: str) -> ConvertOptions:
    """The options that decide how a graph is compiled, out of what `atc_cmdline` recorded in a package; those
    that name a file are known there by its hash only.
    """
    return _recorded(cmdline, _COMPILING)


def recorded_loop(cmdline: str) -> IterationsPerLoop | None:
    """What one run of a package repeats, out of what `atc_cmdline` recorded in it. Raises PackageCorrupt (P0005) if
    that is no command line.
    """
    try:
        return _recorded(cmdline, _LOOP).prepare.loop
    except (ValueError, UsageError) as error:
        raise PackageCorrupt("P0005", f"its command line cannot be read: {error}") from error


def repeated_options(cmdline: str, replaced: Mapping[str, object]) -> ConvertOptions:
    """All options that `atc_cmdline` recorded in a package, with these in place of theirs. Raises Unsupported (E10055)
    where others name files, and PackageCorrupt (P0005) if that is no command line.
    """
    try:
        texts = _texts_of(cmdline)
        for name, text in texts.items():
            if _DIGEST in text and name not in replaced:
                what = f"the package was converted with --{name}, and records only the hash of that file"
                raise Unsupported("E10055", what, where=Where(option=name), hint="convert it anew by hand")
        known = {name: text for name, text in texts.items() if name in OPTIONS}
        others = {name: text for name, text in texts.items() if name not in OPTIONS}
        return convert_options({**known, **replaced}, recorded=others)
    except (ValueError, UsageError) as error:
        raise PackageCorrupt("P0005", f"its command line cannot be read: {error}") from error


def _recorded(cmdline: str, names: frozenset[str]) -> ConvertOptions:
    texts = _texts_of(cmdline)
    return convert_options(
        {name: text for name, text in texts.items() if name in names and not text.startswith(_DIGEST)}
    )


def _texts_of(cmdline: str) -> dict[str, str]:
    """The recorded options by name. Raises ValueError if a quote is not closed."""
    words = (word.removeprefix("--").partition("=") for word in shlex.split(cmdline)[2:])
    return {name: text for name, _, text in words}


_DIGEST = "sha256:"  # what is recorded of a file begins so
_LOOP = frozenset({"iterations_per_loop", "state", "stepped"})
_COMPILING = frozenset(
    {
        "oo_level",
        "oo_constant_folding",
        "oo_dead_code_elimination",
        "quant_dumpable",
        "op_select_implmode",
        "optimization_switch",
        "skip_pass",
        "pass_limit",
        "disable_reuse_memory",
        "no_reuse_mem",
        "enable_single_stream",
        "topo_sorting_mode",
        "allreduce_cost",
    }
)
