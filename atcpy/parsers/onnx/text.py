"""Names that are not text: protobuf hands out bytes where a string is not UTF-8, instead of refusing it."""

from collections.abc import Iterable

from atcpy.errors import ModelInvalid, Where


def are_texts(names: Iterable[object]) -> bool:
    """Are all of these names text? Raises MemoryError where protobuf had no memory to make one."""
    names = tuple(names)
    try:
        "".join(names)  # type: ignore[arg-type]  # one call, not one for each name
    except TypeError:
        if all(_is_utf8(name) for name in names if isinstance(name, bytes)):
            raise MemoryError("no memory for a name") from None
        return False
    return True


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def as_text(raw: object) -> str:
    """The text, what is not UTF-8 written out."""
    return raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else str(raw)


def not_text(what: str, where: Where) -> ModelInvalid:
    """The error for a name that is not UTF-8."""
    return ModelInvalid("E10041", f"{what} is not UTF-8", where=where, hint="the file is damaged: copy it again")
