"""Plant one small bug after another in a source file, and list those that the tests miss.

    python -m tests.mutate atcpy/passes/prepare/leaky_relu.py -- tests/golden -k leaky_relu
    python -m tests.mutate atcpy/om/reader.py --lines 70-110 -- tests/om

A mutant changes one comparison, boolean operator, `any` or `all`, number, flag or default, or drops one refusal. Each
runs in a forked process that compiles the mutated source in place of the file, which stays as it is. Processes that a
test starts see the file, so mutants are judged by tests that run in process. A survivor is either a missing test or a
mutant that means the same; only a reader can tell.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
QUANTIFIERS = {"any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change: the index of the node in `ast.walk` order, and which of the node's changes it is."""

    node: int
    change: int
    line: int
    what: str


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what can be planted at a node: a description, and the node that replaces it."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    changed = copy.deepcopy(node)
                    changed.ops[index] = other()
                    yield f"{SIGNS[type(op)]} → {SIGNS[other]}", changed
        case ast.BoolOp(op=op, values=values):
            other_op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield ("and → or" if isinstance(op, ast.And) else "or → and"), ast.BoolOp(other_op, values)
            for index in range(len(values)):
                rest = [value for position, value in enumerate(values) if position != index]
                dropped = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                yield f"drop `{ast.unparse(values[index])}`", dropped
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "drop `not`", operand
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in QUANTIFIERS:
            function = ast.Name(QUANTIFIERS[name], ast.Load())
            yield f"{name} → {QUANTIFIERS[name]}", ast.Call(function, args, keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args, keywords=keywords) if name in QUANTIFIERS:
            method = ast.Attribute(value, QUANTIFIERS[name], ast.Load())
            yield f".{name} → .{QUANTIFIERS[name]}", ast.Call(method, args, keywords)
        case ast.Constant(value=bool(value)):
            yield f"{value} → {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield f"{value} → {value + 1}", ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield f"{value} → {value * 1.5 + 1e-7:g}", ast.Constant(value * 1.5 + 1e-7)
        case ast.Expr(value=ast.YieldFrom(value=value)) | ast.Expr(value=ast.Yield(value=value)) if value is not None:
            yield f"drop `yield {ast.unparse(value)}`", ast.If(ast.Constant(False), [node], [])


def mutants_of(source: str, lines: range) -> list[Mutant]:
    """List every mutant of the lines."""
    tree = ast.parse(source)
    skipped = set(_not_run(tree))
    return [
        Mutant(index, change, line, what)
        for index, node in enumerate(ast.walk(tree))
        if node not in skipped and (line := getattr(node, "lineno", 0)) in lines
        for change, (what, _) in enumerate(changes(node))
    ]


def _not_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield annotations and the texts of messages: a change there changes no result."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=skipped) | ast.arg(annotation=skipped) | ast.FunctionDef(returns=skipped):
                pass
            case ast.JoinedStr() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                skipped = node
            case _:
                skipped = None
        if skipped is not None:
            yield from ast.walk(skipped)


def compile_mutant(source: str, mutant: Mutant, path: str) -> CodeType:
    """Compile the file with one change in it."""
    tree = ast.parse(source)
    old = list(ast.walk(tree))[mutant.node]
    new = ast.copy_location([node for _, node in changes(old)][mutant.change], old)

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    return compile(ast.fix_missing_locations(Replace().visit(tree)), path, "exec")


class Planter(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Import hook that loads a mutant in place of one module."""

    def __init__(self, module: str, path: Path, code: CodeType) -> None:
        super().__init__(module, str(path))
        self._module, self._path, self._code = module, path, code

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:  # type: ignore[override]
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def survives(code: CodeType | None, path: Path, tests: Sequence[str], seconds: float) -> bool:
    """Run the tests with `code` in place of the file's; return whether they pass."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            if code is not None:
                module = str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")
                sys.meta_path.insert(0, Planter(module, path, code))
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False  # a loop without an end is noticed


def _lines(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    """Mutate the file and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=_lines, default=range(1 << 30), help="only these, as 10-40")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the tests of one mutant")
    parser.add_argument("tests", nargs="+", help="arguments of pytest, after --")
    options = parser.parse_args()
    path = options.file.resolve()
    source = path.read_text()
    # What every child imports anyway; nothing of atcpy, which must see the mutant.
    import hypothesis
    import numpy
    import onnx.reference
    import onnxruntime

    assert hypothesis and numpy and onnx.reference and onnxruntime
    started = time.monotonic()
    if not survives(None, path, options.tests, 600):
        print("the tests fail without a mutant")
        return 2
    print(f"the tests take {time.monotonic() - started:.1f} s")
    counts: Counter[bool] = Counter()
    for mutant in mutants_of(source, options.lines):
        alive = survives(compile_mutant(source, mutant, str(path)), path, options.tests, options.seconds)
        counts[alive] += 1
        if alive:
            line = source.splitlines()[mutant.line - 1].strip()
            print(f"{options.file}:{mutant.line}: {mutant.what}\n    {line}", flush=True)
    print(f"{options.file}: {counts.total()} mutants, {counts[False]} killed, {counts[True]} survive")
    return 0


if __name__ == "__main__":
    sys.exit(main())
