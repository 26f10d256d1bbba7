"""Write the generated pages of docs/: `make docs`.  A test checks that they are current."""

from pathlib import Path

from atcpy.errors import CODES

HERE = Path(__file__).parent

GROUPS = {
    "E": "ATC's codes",
    "P": "Packages",
    "D": "Running",
    "V": "Verifying",
    "R": "Limits",
    "C": "Custom operators",
    "W": "Warnings",
    "X": "Ours",
}

HEAD = """# Error codes

Generated from `atcpy/errors.py` by `make docs`; do not edit. `atcpy explain CODE` prints a row.

The exit code is the process's; Python raises the class of that row (`atcpy.errors`). A warning ends with 0,
with `--werror` as the second number says.

| exit | class |
| --- | --- |
| 1 | `InternalError` |
| 2 | `UsageError` |
| 3 | `ModelInvalid` |
| 4 | `Unsupported` |
| 5 | `VerifyFailed` |
| 6 | `ResourceLimit` |
| 7 | `PackageCorrupt` |
| 130 | interrupted |
"""


def errors_page() -> str:
    """The text of docs/errors.md."""
    lines = [HEAD]
    for letter, title in GROUPS.items():
        lines += [f"## {title}", "", "| code | when | way out | exit |", "| --- | --- | --- | --- |"]
        for row in CODES.values():
            if row.code[0] == letter:
                exits = " or ".join(str(number) for number in row.exits)
                lines.append(f"| {row.code} | {row.when} | {row.help} | {exits} |")
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Each generated page with its text."""
    return {HERE / "errors.md": errors_page()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
