"""Random changes of inputs: of bytes, texts, JSON values and protobuf messages.

A message is changed field by field, so that what is read behind the wire format is reached: numbers move to edges,
texts become others of the same message or of a vocabulary, parts are dropped, repeated, set, or copied over another.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

NUMBERS = [0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 2**62, -(2**63)]
FLOATS = [0.0, -1.0, 1e38, float("nan"), float("inf"), float("-inf")]
NESTED = [b"[" * 20_000, b'{"a":' * 20_000, b"1" * 5000, b"\xff", b"\0", b"1e999", b"NaN", b"-", b'"\\ud800"']
RANGES = {
    Field.TYPE_UINT32: (0, 2**32 - 1), Field.TYPE_FIXED32: (0, 2**32 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1), Field.TYPE_FIXED64: (0, 2**64 - 1),
    Field.TYPE_INT32: (-(2**31), 2**31 - 1), Field.TYPE_SINT32: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1), Field.TYPE_SINT64: (-(2**63), 2**63 - 1),
    Field.TYPE_SFIXED32: (-(2**31), 2**31 - 1), Field.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
}  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """What texts and bytes of a kind of message may become, beside those of the message itself."""

    names: Sequence[str] = ("", "x:0")
    contents: Sequence[bytes] = (b"", b"\xff")


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """The bytes, with some cut, flipped, replaced, repeated or deleted."""
    changed = bytearray(data)
    at = rng.randrange(len(changed)) if changed else 0
    match rng.randrange(5):
        case 0:
            del changed[at:]
        case 1 if changed:
            changed[at] ^= 1 << rng.randrange(8)
        case 2:
            changed[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
        case 3:
            changed[at:at] = changed[: rng.randrange(60)]
        case _:
            del changed[at : at + rng.randrange(1, 40)]
    return bytes(changed)


def change_text(text: str, rng: random.Random, words: Sequence[str]) -> str:
    """The text, with a part dropped, repeated, moved, or replaced by a word."""
    start = rng.randrange(len(text) + 1)
    end = min(start + rng.choice([0, 1, 1, 2, 5, 20]), len(text))
    other = rng.randrange(len(text) + 1)
    part = rng.choice([rng.choice(words), text[start:end] * 2, "", text[other : other + rng.choice([1, 3, 20])]])
    return text[:start] + part + text[end:]


def change_json(value: Any, rng: random.Random, words: Sequence[str]) -> Any:
    """A JSON value in which one part is another; parts that are not changed are shared."""
    if isinstance(value, Mapping) and value and rng.random() < 0.8:
        key = rng.choice(sorted(value))
        match rng.randrange(4):
            case 0:
                return {name: each for name, each in value.items() if name != key}
            case 1:
                return {rng.choice(words) if name == key else name: each for name, each in value.items()}
            case _:
                return {**value, key: change_json(value[key], rng, words)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, value[at]]
            case _:
                return [*value[:at], change_json(value[at], rng, words), *value[at + 1 :]]
    return rng.choice([None, True, [], {}, [[]], {"a": 1}, 10**400, *NUMBERS, *FLOATS, *words])


def change_message(message: Message, rng: random.Random, vocabulary: Vocabulary) -> None:
    """Change, drop, repeat, set or swap something in one to four fields."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        fields = _fields(message)
        if not fields:
            return
        holder, field = rng.choice(fields)
        match rng.randrange(12):
            case 0:
                _set_any_field(holder, rng, vocabulary)
            case 1 if field.message_type is not None and not _is_map(field):
                _copy_over(holder, field, fields, rng)
            case 2 if field.type in (Field.TYPE_STRING, Field.TYPE_BYTES):
                _set_text(holder, field, rng.choice(_texts(fields)), rng)
            case _:
                _change_field(holder, field, rng, vocabulary)


def _fields(message: Message) -> list[tuple[Message, Field]]:
    """Every field that is set, of the message and of those in it."""
    fields: list[tuple[Message, Field]] = []
    pending: list[Any] = [message]
    for holder in pending:  # grows while it is walked
        for field, value in holder.ListFields():
            fields.append((holder, field))
            if _is_map(field):
                values = value.values()
                pending.extend(v for v in values if isinstance(v, Message))
            elif field.message_type is not None:
                pending.extend(value if field.is_repeated else [value])
    return fields


def _is_map(field: Field) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _texts(fields: Sequence[tuple[Message, Field]]) -> list[Any]:
    """Return the texts and bytes of a message."""
    found: list[Any] = []
    for holder, field in fields:
        if field.type in (Field.TYPE_STRING, Field.TYPE_BYTES):
            value = getattr(holder, field.name)
            found.extend(value if field.is_repeated else [value])
    return found


def _set_text(holder: Message, field: Field, text: str | bytes, rng: random.Random) -> None:
    value: str | bytes = text
    if field.type == Field.TYPE_STRING and isinstance(text, bytes):
        value = text.decode("utf-8", "replace")
    elif field.type == Field.TYPE_BYTES and isinstance(text, str):
        value = text.encode("utf-8", "replace")
    if field.is_repeated:
        items = getattr(holder, field.name)
        items[rng.randrange(len(items))] = value
    else:
        setattr(holder, field.name, value)


def _copy_over(holder: Message, field: Field, fields: Sequence[tuple[Message, Field]], rng: random.Random) -> None:
    """Replace a message by another of its kind, from anywhere in the whole."""
    others = [
        value
        for owner, other in fields
        if other.message_type is field.message_type
        for value in (getattr(owner, other.name) if other.is_repeated else [getattr(owner, other.name)])
    ]
    copy = type(others[0])()
    copy.CopyFrom(rng.choice(others))
    items = getattr(holder, field.name)
    (items[rng.randrange(len(items))] if field.is_repeated else items).CopyFrom(copy)


def _set_any_field(holder: Message, rng: random.Random, vocabulary: Vocabulary) -> None:
    """Set a field that may be unset, or add to a repeated one."""
    field = rng.choice(holder.DESCRIPTOR.fields)
    items = getattr(holder, field.name)
    if _is_map(field):
        return
    if field.message_type is not None:
        if field.is_repeated:
            items.add()
        else:
            items.SetInParent()
    elif field.is_repeated:
        items.append(_other_value(field, _ZERO.get(field.cpp_type, 0), rng, vocabulary))
    else:
        setattr(holder, field.name, _other_value(field, items, rng, vocabulary))


_ZERO: Mapping[int, Any] = {
    Field.CPPTYPE_FLOAT: 0.0, Field.CPPTYPE_DOUBLE: 0.0, Field.CPPTYPE_BOOL: False, Field.CPPTYPE_STRING: "",
}  # fmt: skip


def _change_field(holder: Message, field: Field, rng: random.Random, vocabulary: Vocabulary) -> None:
    value = getattr(holder, field.name)
    if _is_map(field):
        _change_map(value, rng)
    elif field.is_repeated:
        _change_list(value, field, rng, vocabulary)
    elif field.message_type is not None or rng.random() < 0.2:
        holder.ClearField(field.name)
    else:
        setattr(holder, field.name, _other_value(field, value, rng, vocabulary))


def _change_map(entries: Any, rng: random.Random) -> None:
    key, other = rng.choice(sorted(entries)), rng.choice(sorted(entries))
    if rng.random() < 0.5:
        del entries[key]
    elif isinstance(entries[key], Message):
        entries[key].CopyFrom(entries[other])
    else:
        entries[key] = rng.choice([entries[other], "2", "-1", "x"])


def _change_list(items: Any, field: Field, rng: random.Random, vocabulary: Vocabulary) -> None:
    index = rng.randrange(len(items))
    chance = rng.random()
    if chance < 0.3:
        del items[index]
    elif chance < 0.5:
        items.append(items[index])
    elif field.message_type is not None:
        items[index].CopyFrom(rng.choice(list(items)))
    else:
        items[index] = _other_value(field, items[index], rng, vocabulary)


def _other_value(field: Field, old: Any, rng: random.Random, vocabulary: Vocabulary) -> Any:
    match field.type:
        case Field.TYPE_STRING:
            text = old.decode("utf-8", "replace") if isinstance(old, bytes) else old  # ONNX's, where it is not UTF-8
            return rng.choice([*vocabulary.names, text[:-1], text + "0"])
        case Field.TYPE_BYTES:
            raw = bytes(old, "utf-8") if isinstance(old, str) else old
            return rng.choice([*vocabulary.contents, raw[:-1], raw + b"0", change_bytes(raw, rng)])
        case Field.TYPE_BOOL:
            return not old
        case Field.TYPE_FLOAT | Field.TYPE_DOUBLE:
            return rng.choice([*FLOATS, -old, old + 1])
        case Field.TYPE_ENUM:
            numbers = [value.number for value in field.enum_type.values]
            return rng.choice(numbers if field.enum_type.is_closed else [*numbers, 44])
    low, high = RANGES[field.type]
    return min(max(rng.choice([*NUMBERS, old + 1, old - 1, old * 2]), low), high)
