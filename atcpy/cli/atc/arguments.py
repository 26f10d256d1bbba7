"""How ATC reads its arguments: GNU getopt_long over words that are rewritten first.

`-name` of two letters or more is `--name`, and each `-` of a name is `_`. A name may be cut short where that is unique.
A flag that takes a value takes it behind `=`, or the next word, whatever that looks like; a bool only behind `=`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atcpy.atc_flags import FLAG_BY_NAME, FlagKind
from atcpy.cli.invocation import NEEDS_QUOTES
from atcpy.errors import did_you_mean


class ArgumentError(Exception):
    """Arguments that no flag takes; the message is ATC's line."""

    def __init__(self, line: str, hint: str = "") -> None:
        super().__init__(line)
        self.hint = hint


def read_arguments(words: Sequence[str]) -> Mapping[str, str]:
    """The texts of the flags that are given, in order; of a flag that is given again the last one.

    Raises ArgumentError.
    """
    texts: dict[str, str] = {}
    left: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        name, equals, text = _name_of(word).partition("=")
        if not name:
            left.append(word)
            continue
        flag = FLAG_BY_NAME[_full_name(name)]
        if not equals and flag.kind is not FlagKind.BOOL:
            if not rest:
                line = f"ERROR: flag '{flag.name}' is missing its argument; flag description: {flag.note}"
                raise ArgumentError(line)
            text = rest.pop()
        texts.pop(flag.name, None)
        texts[flag.name] = text
    if left:
        raise ArgumentError(f"ERROR: Non-option parameter: {left[0]}", f'{NEEDS_QUOTES}: --input_shape="x:1,3;y:1"')
    return texts


def _name_of(word: str) -> str:
    """The flag's name and its value behind `=`; nothing if the word is no flag."""
    dashes = len(word) - len(word.lstrip("-"))
    name, equals, text = word[dashes:].partition("=")
    is_flag = dashes == 2 or (dashes == 1 and len(name) > 1) or word == "-h"
    return name.replace("-", "_") + equals + text if is_flag and name else ""


def _full_name(name: str) -> str:
    if name in FLAG_BY_NAME:
        return name
    fitting = [known for known in FLAG_BY_NAME if known.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ArgumentError(f"ERROR: unknown command line flag '{name}'", f"it may be {', '.join(fitting)}")
    raise ArgumentError(f"ERROR: unknown command line flag '{name}'", did_you_mean(name, FLAG_BY_NAME))
