"""Rules of the house that no linter knows."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import onnx.defs
import pytest

from atcpy.errors import CODES
from tests.sources import CSRC, MODULES, REPO, ROOT, relative_name, syntax, texts

C_FILES = sorted(CSRC.rglob("*.c"))

CODE = re.compile(r"E\d{5}|E2100C|EZ\d{4}|[PDVRGCJWX]\d{4}")


def calls(path: Path) -> set[str]:
    """Return the names of the functions and methods that a file calls."""
    functions = [node.func for node in syntax(path) if isinstance(node, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in functions}


def libraries(path: Path) -> set[str]:
    """Return the top-level packages that a file imports."""
    names = set()
    for node in syntax(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def test_each_code_in_the_source_is_in_the_table() -> None:
    unknown = [(relative_name(p), text) for p in MODULES for text in texts(p) if CODE.fullmatch(text)]
    assert [location for location in unknown if location[1] not in CODES] == []


def test_folders_stay_small() -> None:
    sizes = Counter(relative_name(path.parent) for path in MODULES if path.is_relative_to(ROOT / "passes"))
    assert {folder: size for folder, size in sizes.items() if size > 30} == {}


def test_modules_are_named_after_what_they_hold() -> None:
    vague = {"utils", "util", "common", "misc", "helpers", "helper"}
    assert [relative_name(path) for path in MODULES if path.stem in vague] == []


# A package is data: nothing that loads or runs one opens sockets, starts processes or unpickles. Libraries of users'
# own operators, which users name, are opened in one place; so is the command that they give to --check.
FORBIDDEN = {"pickle", "marshal", "shelve", "socket", "subprocess", "urllib", "http", "ctypes", "runpy", "argparse"}
ALLOWED = {
    ROOT / "ops" / "custom" / "library.py": {"ctypes"},
    ROOT / "runtime" / "sandbox.py": {"ctypes"},  # for what system calls take that close the process in
    ROOT / "runtime" / "system_call.py": {"ctypes"},
    ROOT / "debug" / "trials.py": {"subprocess"},
    ROOT / "verify" / "early_run.py": {"subprocess"},  # of atcpy itself
    ROOT / "runtime" / "distributed" / "mpiexec.py": {"subprocess"},  # of atcpy itself
    ROOT / "cli" / "sandbox.py": {"subprocess"},  # of atcpy itself
}


def test_no_module_reaches_out() -> None:
    reaching = {relative_name(p): (libraries(p) & FORBIDDEN) - ALLOWED.get(p, set()) for p in MODULES}
    assert {path: names for path, names in reaching.items() if names} == {}


OPENING = {"open", "read_bytes", "read_text"}
# Who opens what no user and no model names, and what opens the rest: files.py as a whole, the others beside it.
OPENERS = {
    ROOT / "files.py",
    ROOT / "options" / "machine.py",  # /sys
    ROOT / "threads.py",  # /sys
    ROOT / "parsers" / "files.py",  # external data, from a descriptor of its folder
    ROOT / "parsers" / "tensorflow" / "signatures.py",  # of atcpy itself
    ROOT / "parsers" / "tensorflow" / "model.py",  # no file: a checkpoint
    ROOT / "om" / "atomic.py",  # folders and new files
    ROOT / "om" / "weight_files.py",  # files beside a package, from a descriptor of their folder
    ROOT / "runtime" / "distributed" / "channel.py",  # the pipes between ranks
    ROOT / "verify" / "tensorflow.py",  # a temporary file
    ROOT / "verify" / "early_run.py",  # a temporary file
    ROOT / "cli" / "app.py",  # /dev/null
    ROOT / "kernels" / "cpu.py",  # /proc
    ROOT / "runtime" / "array_files.py",  # members of an archive in memory
    ROOT / "cli" / "arrays.py",  # pictures and archives, in files that are open
}


def opens(path: Path) -> set[str]:
    """Return the functions and methods that a file calls to open or read a file, but those of files.py."""
    functions = [node.func for node in syntax(path) if isinstance(node, ast.Call)]
    methods = {function.attr for function in functions if isinstance(function, ast.Attribute)}
    return (methods | {f.id for f in functions if isinstance(f, ast.Name)} - {"read_text"}) & OPENING


def test_files_are_opened_in_one_module() -> None:
    """What a user or a model names may be a FIFO, which `open` would wait for."""
    assert {relative_name(path): opens(path) for path in MODULES if path not in OPENERS and opens(path)} == {}


def test_nothing_evaluates_text_or_deepens_the_stack() -> None:
    evaluating = {relative_name(path): calls(path) & {"eval", "exec", "setrecursionlimit"} for path in MODULES}
    assert {path: names for path, names in evaluating.items() if names} == {}


def test_one_folder_knows_python() -> None:
    knowing = {
        path.parent.name for path in C_FILES if re.search(r"Python\.h|python/", path.read_text(encoding="utf-8"))
    }
    assert knowing == {"python"}


def mutable_statics(source: str) -> list[str]:
    """Return the static variables of C that may change: of `static const int a = 1, *p;` the pointer does."""
    code = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", code, flags=re.MULTILINE)
    found = []
    for start in re.finditer(r"\bstatic\s", code):
        depth, declaration = 0, ""
        for character in code[start.end() :]:
            depth += (character == "{") - (character == "}")
            if depth == 0 and character != "}":
                declaration += character
                if character == ";" or (character == "(" and "=" not in declaration):  # of a function
                    break
        names = re.sub(r"\[[^]]*\]|=[^,;]*|\*\s*const\b", "", declaration)
        is_const = re.match(r"const\b|[\w\s]*\*\s*const\b", declaration)
        if declaration.endswith(";") and (not is_const or "*" in names):
            found.append(" ".join(declaration.split()))
    return found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("static int n;", 1),
        ("static const int table[] = {1, 2}, *at;", 1),
        ('static const char *name = "x";', 1),
        ("static const struct sizes { int a; } large = {1}, *of;", 1),
        ("static const struct sizes { int *a; } large = {0};", 0),
        ("static const float zeros[2 * N];", 0),
        ('static const char *const names[] = {"a", NULL};', 0),
        ("static function *const functions[] = {f};", 0),
        ("static int f(int *a) { static const float roots[2] = {1}; return 0; }", 0),
    ],
)
def test_static_variables_are_seen(source: str, count: int) -> None:
    assert len(mutable_statics(source)) == count


def test_kernels_keep_no_state() -> None:
    """Threads would share it. The registers that amx_emulated.h has are those of a thread."""
    kernels = [path for path in CSRC.rglob("*.[ch]") if path.parent.name not in {"core", "python"}]
    found = {path.name: mutable_statics(path.read_text(encoding="utf-8")) for path in kernels}
    assert {name for name, variables in found.items() if variables} == {"amx_emulated.h"}


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
    built = {".so", ".pyc", ".md"}
    left_out = [p for p in files if p.suffix not in built and not any(p.match(pattern) for pattern in patterns)]
    assert left_out == []


# What is known of an op stands in its record, as a trait; a set of names in a pass is the exception. Lower the number
# with each set that goes, never raise it.
MAX_SETS_OF_OPS = 1
OPS = {schema.name for schema in onnx.defs.get_all_schemas()} | {"Data", "Const", "NetOutput", "PlaceHolder", "End"}


def sets_of_ops(nodes: list[ast.AST]) -> list[int]:
    """Return the lines of literals with two names of ops or more, but for patterns and for what a pass `makes`."""
    declared: set[ast.AST] = set()
    for node in nodes:
        is_pattern = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"op", "either"}
        if is_pattern or (isinstance(node, ast.keyword) and node.arg == "makes"):
            declared |= set(ast.walk(node))
    lines = []
    for node in nodes:
        if not isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List):
            continue
        elements = node.keys if isinstance(node, ast.Dict) else node.elts
        names = [item.value for item in elements if isinstance(item, ast.Constant) and item.value in OPS]
        if len(names) >= 2 and node not in declared:
            lines.append(node.lineno)
    return lines


def test_passes_ask_for_traits_not_for_names() -> None:
    found = [
        f"{relative_name(path)}:{line}"
        for path in MODULES
        if path.is_relative_to(ROOT / "passes")
        for line in sets_of_ops(list(syntax(path)))
    ]
    assert len(found) <= MAX_SETS_OF_OPS, found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x in {'Add', 'Mul'}", 1),
        ("x in ('Add', 'Mul')", 1),
        ("{'Add': 1, 'Mul': 2}", 1),
        ("x in {'Add'}", 0),
        ("x in {'axis', 'perm'}", 0),
        ("op(('Add', 'Mul'), var('x'))", 0),
        ("declare(makes=('Add', 'Mul'))", 0),
    ],
)
def test_sets_of_ops_are_seen(source: str, count: int) -> None:
    assert len(sets_of_ops(list(ast.walk(ast.parse(source))))) == count


def test_flags_keep_results_the_same_on_each_machine() -> None:
    flags = (CSRC / "meson.build").read_text(encoding="utf-8")
    for flag in ("-march=native", "-Ofast", "-ffast-math", "-fopenmp", "-funsafe-math-optimizations"):
        assert flag not in flags
    assert "-ffp-contract=off" in flags


def test_tests_mirror_the_tree() -> None:
    own = {"gate", "golden", "conformance", "e2e", "fuzz", "models", "benchmarks", "examples"}
    folders = {path.parent.relative_to(REPO / "tests") for path in (REPO / "tests").rglob("test_*.py")}
    assert [f for f in sorted(folders) if f.parts and f.parts[0] not in own and not (ROOT / f).is_dir()] == []


REGISTRIES = ["ops", "formats"]


def test_each_module_of_a_registry_is_imported_by_its_package() -> None:
    """Import one registry after the other, lower layers first, and look at what each import loaded."""
    script = "import importlib, json, sys\nfor name in sys.argv[1:]:\n"
    script += (
        "    importlib.import_module(name); print(json.dumps([m for m in sys.modules if m.startswith(name + '.')]))"
    )
    packages = ["atcpy." + name.replace("/", ".") for name in REGISTRIES]
    run = subprocess.run(
        [sys.executable, "-c", script, *packages], capture_output=True, text=True, check=True, cwd=REPO
    )
    for name, loaded in zip(REGISTRIES, run.stdout.splitlines(), strict=True):
        # An op's module without a record may wait until it is needed.
        nested = (p for p in (ROOT / name).rglob("*.py") if not p.is_relative_to(ROOT / "ops" / "custom"))
        paths = [p for p in nested if name != "ops" or "register_operator(" in p.read_text("utf-8")]
        modules = {".".join(p.relative_to(REPO).with_suffix("").parts) for p in paths if p.stem != "__init__"}
        assert modules - set(json.loads(loaded)) == set()


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
