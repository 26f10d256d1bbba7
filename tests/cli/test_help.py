"""The help of a command: options in groups, defaults, choices, and examples that run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.cli.convert import TABLE
from atcpy.cli.help import EXAMPLES, GROUP_OF, GROUPS, help_of
from atcpy.options import OPTIONS

from .conftest import REPO, Invoke

DIGITS = REPO / "models" / "digits"


def sections(text: str) -> dict[str, str]:
    """The sections of a help by their titles."""
    parts = re.split(r"^(\w[\w ]*):\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_option_of_a_conversion_is_in_one_group(invoke: Invoke) -> None:
    assert sorted(TABLE) == sorted(GROUP_OF) == sorted(name for names in GROUPS.values() for name in names)
    shown = sections(invoke("convert", "--help").out)
    assert list(shown) == ["Arguments", "Options", *GROUPS, "Common options", "Examples"]
    for group, names in GROUPS.items():
        assert all(f"--{name}" in shown[group] for name in names)
    assert "--json" in shown["Common options"]
    assert "--help" in shown["Common options"]


def test_groups_without_an_option_are_left_out(invoke: Invoke) -> None:
    shown = sections(invoke("doctor", "--help").out)
    assert list(shown) == ["Options", "Common options", "Examples"]


@pytest.mark.parametrize(
    ("option", "end"),
    [
        ("oo_level", "O0 to O3.  [O0|O1|O2|O3; default: O2]"),
        ("max_growth", "[default: 1.1]"),
        ("max_const", "as 1M; default: 16M."),
        ("static", "Refuse a model with an open dimension."),
        ("topo_sorting_mode", "3 as in the model.  [default: 3]"),
        ("skip_pass", "Passes to leave out."),
        ("zipmap", "[default: true]"),
    ],
)
def test_defaults_and_choices_are_told_once(option: str, end: str) -> None:
    assert help_of(OPTIONS[option]).endswith(end)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copy(DIGITS / "digits.onnx", folder / "m.onnx")
    for name in ("m.om", "m16.om"):
        atcpy.convert(folder / "m.onnx", folder / name)
    shutil.copy(DIGITS / "pictures" / "7.png", folder / "7.png")
    (folder / "samples").mkdir()
    for number in range(4):
        image = np.random.default_rng(number).uniform(-1, 1, (1, 1, 28, 28)).astype(np.float32)
        np.savez(folder / "samples" / f"{number}.npz", image=image)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", [name for name in EXAMPLES if name not in ("bench", "freeze")])
def test_examples_run(invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(folder)
    for example in EXAMPLES[command]:
        assert f"  {example}\n" in invoke(command, "--help").out
        ran = invoke(*shlex.split(example)[1:])
        assert ran.code == 0, (example, ran.err)


@pytest.mark.parametrize("command", ["bench", "freeze"])
def test_examples_that_take_long_or_need_tensorflow_are_parsed(invoke: Invoke, command: str) -> None:
    for example in EXAMPLES[command]:
        ran = invoke(*(word.replace("m.om", "no.om") for word in shlex.split(example)[1:]))
        assert ran.err.startswith("error[")
        assert "there is no option" not in ran.err
        assert "does not exist" in ran.err or "no such file" in ran.err.lower(), ran.err
