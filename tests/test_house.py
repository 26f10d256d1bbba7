"""Rules of the house that no linter knows."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atcpy.errors import CODES

REPO = Path(__file__).parent.parent
ROOT = REPO / "atcpy"
CSRC = ROOT / "kernels" / "csrc"
SOURCES = sorted(path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py"))
C_FILES = sorted(CSRC.rglob("*.c"))

CODE = re.compile(r"E\d{5}|E2100C|EZ\d{4}|[PDVRCWX]\d{4}")


def relative_name(path: Path) -> str:
    return str(path.relative_to(REPO))


def texts(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@pytest.mark.parametrize("path", SOURCES, ids=relative_name)
def test_each_code_in_the_source_is_in_the_table(path: Path) -> None:
    assert [text for text in texts(path) if CODE.fullmatch(text) and text not in CODES] == []


FOLDERS = sorted({path.parent for path in SOURCES if path.is_relative_to(ROOT / "passes")})


@pytest.mark.parametrize("folder", FOLDERS, ids=relative_name)
def test_folders_stay_small(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= 30


@pytest.mark.parametrize("path", SOURCES, ids=relative_name)
def test_modules_are_named_after_what_they_hold(path: Path) -> None:
    assert path.stem not in {"utils", "util", "common", "misc", "helpers", "helper"}


# A package is data: nothing that loads or runs one opens sockets, starts processes or unpickles. Libraries of users'
# own operators, which users name, are opened in one place; so is the command that they give to --check.
FORBIDDEN = {"pickle", "marshal", "shelve", "socket", "subprocess", "urllib", "http", "ctypes", "runpy", "argparse"}
ALLOWED = {
    ROOT / "ops" / "custom" / "library.py": {"ctypes"},
    ROOT / "cli" / "bisect_trials.py": {"subprocess"},
    ROOT / "verify" / "early_run.py": {"subprocess"},  # of atcpy itself
    ROOT / "cli" / "mpiexec.py": {"subprocess"},  # of atcpy itself
}


@pytest.mark.parametrize("path", SOURCES, ids=relative_name)
def test_no_module_reaches_out(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add((node.module or "").partition(".")[0])
    assert not (imported & FORBIDDEN) - ALLOWED.get(path, set())


@pytest.mark.parametrize("path", SOURCES, ids=relative_name)
def test_nothing_evaluates_text_or_deepens_the_stack(path: Path) -> None:
    names = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    assert not names & {"eval", "exec", "setrecursionlimit"}


@pytest.mark.parametrize("path", C_FILES, ids=relative_name)
def test_the_binding_is_one_file(path: Path) -> None:
    assert ("Python.h" in path.read_text(encoding="utf-8")) == (path.name == "module.c")


def test_each_c_file_is_built() -> None:
    listed = [
        build.parent / name
        for build in CSRC.rglob("meson.build")
        for name in re.findall(r"'([\w/]+\.c)'", build.read_text(encoding="utf-8"))
    ]
    assert sorted(listed) == C_FILES


def test_each_data_file_is_installed() -> None:
    patterns = re.findall(r'"((?:\*|py)\.\w+)"', (REPO / "meson.build").read_text(encoding="utf-8"))
    assert "*.py" in patterns
    files = [path for path in ROOT.rglob("*") if path.is_file() and CSRC not in path.parents]
    built = {".so", ".pyc"}
    left_out = [p for p in files if p.suffix not in built and not any(p.match(pattern) for pattern in patterns)]
    assert left_out == []


def test_flags_keep_results_the_same_on_each_machine() -> None:
    flags = (CSRC / "meson.build").read_text(encoding="utf-8")
    for flag in ("-march=native", "-Ofast", "-ffast-math", "-fopenmp", "-funsafe-math-optimizations"):
        assert flag not in flags
    assert "-ffp-contract=off" in flags


@pytest.mark.parametrize("path", sorted((REPO / "tests").rglob("test_*.py")), ids=relative_name)
def test_tests_mirror_the_tree(path: Path) -> None:
    folder = path.parent.relative_to(REPO / "tests")
    own = {"golden", "conformance", "e2e", "fuzz", "models", "benchmarks", "examples"}
    assert not folder.parts or folder.parts[0] in own or (ROOT / folder).is_dir()


REGISTRIES = ["ops", "formats", *(f"passes/{stage}" for stage in ("prepare", "split", "optimize", "compile"))]


@pytest.mark.parametrize("name", REGISTRIES)
def test_each_module_of_a_registry_is_imported_by_its_package(name: str) -> None:
    package = "atcpy." + name.replace("/", ".")
    script = f"import sys, {package}; print(*(m for m in sys.modules if m.startswith('{package}.')))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPO)
    # An op's module without a record may wait until it is needed.
    nested = (ROOT / name).rglob("*.py") if name.startswith("passes/") else (ROOT / name).glob("*.py")
    paths = [p for p in nested if name != "ops" or "register_operator(" in p.read_text("utf-8")]
    modules = {".".join(p.relative_to(REPO).with_suffix("").parts) for p in paths if p.stem != "__init__"}
    assert modules - set(run.stdout.split()) == set()


def test_errors_and_options_import_nothing_heavy() -> None:
    heavy = "{'numpy', 'onnx', 'onnxruntime', 'google', 'rich', 'typer'}"
    script = f"import sys, atcpy, atcpy.errors, atcpy.options; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPO)
    assert run.stdout.strip() == "[]"


def test_make_help_lists_each_target() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.M)
    assert phony
    helped = set(re.findall(r"^([a-z0-9-]+):.*##", makefile, re.M))
    assert set(phony[1].split()) - helped == {"fmt-check"}


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf (binutils) is not installed")
def test_the_extension_is_hardened() -> None:
    extension = importlib.import_module("atcpy.kernels._kernels")

    def readelf(*flags: str) -> str:
        command = ["readelf", "--wide", *flags, str(extension.__file__)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "BIND_NOW" in readelf("--dynamic")
    assert "GNU_RELRO" in readelf("--program-headers")
    assert re.search(r"GNU_STACK .* RW ", readelf("--program-headers"))
    exported = {
        line.split()[-1] for line in readelf("--dyn-syms").splitlines() if re.search(r"GLOBAL.* \d+ \w+$", line)
    }
    assert exported == {"PyInit__kernels"}
