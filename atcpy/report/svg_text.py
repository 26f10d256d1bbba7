"""Text of models and packages, which may hold anything, in pictures."""

import unicodedata


def clean(line: str) -> str:
    """A line without control characters, which XML has no way to write."""
    return "".join(c if unicodedata.category(c)[0] != "C" else "\ufffd" for c in line)


def shortened(line: str, letters: int) -> str:
    """A line of at most so many letters, without control characters; its middle is left out."""
    return clean(line if len(line) <= letters else line[: letters // 2] + "…" + line[-(letters // 2 - 1) :])
