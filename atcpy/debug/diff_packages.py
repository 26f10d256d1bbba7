"""What differs between two packages beside their graphs: memory, and the options that they were made with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Entry:
    """One number or text of two packages; None where a package does not know it."""

    name: str
    before: int | str | None
    after: int | str | None

    @property
    def same(self) -> bool:
        """Is there no difference?"""
        return self.before == self.after


def diff_memory(before: Record, after: Record) -> list[Entry]:
    """Compare the sizes of two packages, out of their summaries: those of memory, and of the file."""
    pairs = [(name, before["memory"][name], after["memory"][name]) for name in before["memory"]]
    return [Entry(*pair) for pair in (*pairs, ("file", before["bytes"], after["bytes"]))]


def diff_options(before: Record, after: Record) -> list[Entry]:
    """Compare what two packages were made with, out of their summaries: the model, the chip, the version, and each
    option that was not the default for one of them. Raises ValueError for a command line that cannot be split.
    """
    facts = [
        Entry("model", before["source"]["sha256"], after["source"]["sha256"]),
        Entry("soc", before["soc"], after["soc"]),
        Entry("atcpy", before["atcpy_version"], after["atcpy_version"]),
    ]
    old, new = (_options(summary["atc_cmdline"]) for summary in (before, after))
    names = sorted({*old, *new} - {"soc"})
    return [*facts, *(Entry(f"--{name}", old.get(name, _DEFAULT), new.get(name, _DEFAULT)) for name in names)]


def _options(cmdline: str) -> dict[str, str]:
    words = (word.removeprefix("--").partition("=") for word in shlex.split(cmdline)[2:])
    return {name: text for name, _, text in words}


def entries_record(entries: Sequence[Entry]) -> dict[str, Any]:
    """The members `memory` and `options` of the result of `diff --json`."""
    return {entry.name: {"before": entry.before, "after": entry.after} for entry in entries}


def entry_lines(title: str, entries: Sequence[Entry]) -> Iterator[str]:
    """A line for each; one that differs by a number says by how much."""
    yield title
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        before, after = ("?" if value is None else str(value) for value in (entry.before, entry.after))
        change = before if entry.same else f"{before} → {after}"
        if not entry.same and isinstance(entry.before, int) and isinstance(entry.after, int):
            change += f"   ({entry.after - entry.before:+d})"
        yield f"  {entry.name:<{width}}  {change}"
