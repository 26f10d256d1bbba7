"""GE's packed number of a format: back and forth, and nothing that does not fit."""

import pytest

from atcpy.ir import NC1HWC0, Format, FormatKind
from atcpy.om.numbers import format_to_number, number_to_format

FITTING = [
    NC1HWC0,
    Format(FormatKind.ND),
    Format(FormatKind.FRACTAL_Z, 16, 3),
    Format(FormatKind.NC1HWC0, 2**14, 0xFFFF),
]


@pytest.mark.parametrize("form", FITTING, ids=str)
def test_formats_come_back(form: Format) -> None:
    assert number_to_format(form.kind.name, format_to_number(form)) == form


@pytest.mark.parametrize(
    "form",
    [Format(FormatKind.NC1HWC0, 3), Format(FormatKind.NC1HWC0, 2**15), Format(FormatKind.FRACTAL_Z, 16, 0x10000)],
    ids=str,
)
def test_formats_that_do_not_fit_are_refused(form: Format) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        format_to_number(form)


@pytest.mark.parametrize(("layout", "number"), [("NC1HWC0", 3 | 1 << 28), ("NC1HWC0", 2), ("ND", -1), ("NOTHING", 2)])
def test_numbers_of_no_format_are_refused(layout: str, number: int) -> None:
    with pytest.raises((KeyError, ValueError)):
        number_to_format(layout, number)
