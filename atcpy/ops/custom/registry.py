"""`@atcpy.register_operator`, and the modules that `custom_ops` names.

An operator that is registered by running its decorator belongs to the process. One that a file brings belongs to the
calls that name the file: it changes no conversion that does not.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from inspect import getattr_static, unwrap
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn, TypeVar

from atcpy.errors import AtcError, UsageError, Where, did_you_mean
from atcpy.ir import Graph, Node, walk
from atcpy.ir.pattern import Op, variables
from atcpy.ops.core.opdef import Trait, forget_operator, has_trait
from atcpy.ops.core.opdef import register_operator as register_opdef
from atcpy.ops.core.reference import find_schema
from atcpy.ops.custom.base import Operator, OperatorClass
from atcpy.ops.custom.derived_types import DerivedTypes
from atcpy.ops.custom.library import CKernel
from atcpy.ops.custom.operator import CustomOp, arity, line_in
from atcpy.options import OpsModule

ANY_DOMAIN = "custom"  # of operators that stand for nodes of their name in whatever domain
HOOKS = ("infer", "forward", "backward", "decompose", "attributes", "meet_requirements")
Key = tuple[str, str]
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class CustomOps:
    """The operators that one conversion may use, by domain and name; nodes of the kinds `spared` are not meant.
    `passes` are what its files declare besides operators.
    """

    operators: Mapping[Key, CustomOp] = field(default_factory=dict)
    spared: frozenset[Key] = frozenset()
    passes: tuple[object, ...] = ()
    _found: dict[Key, CustomOp | None] = field(default_factory=dict, repr=False, compare=False)

    def find(self, domain: str, op_type: str) -> CustomOp | None:
        """The operator that stands for a node: the one of its domain, else the one for any domain, which leaves what
        the ONNX standard defines alone.
        """
        if not self.operators:
            return None
        key = (domain, op_type)
        if key not in self._found:  # large models ask for few kinds of nodes very often
            self._found[key] = None if key in self.spared else self._look_up(domain, op_type)
        return self._found[key]

    def _look_up(self, domain: str, op_type: str) -> CustomOp | None:
        exact = self.operators.get((domain, op_type))
        if exact is not None or _is_standard(op_type, domain):
            return exact
        return self.operators.get((ANY_DOMAIN, op_type))

    def sparing(self, kinds: Iterable[Key]) -> CustomOps:
        """The same, but for nodes of these kinds."""
        return CustomOps(self.operators, frozenset(kinds), self.passes)

    def __iter__(self) -> Iterator[CustomOp]:
        return iter(self.operators.values())


@dataclass
class _State:
    """What this process knows; changed under the lock only."""

    operators: dict[Key, CustomOp] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # of the files that are loaded, by path
    passes: dict[str, list[object]] = field(default_factory=dict)  # that files declare, by path
    classes: dict[type, Key] = field(default_factory=dict)
    loading: str = ""
    lock: RLock = field(default_factory=RLock)


_STATE = _State()


def register_operator(
    name: str, *, domain: str = "", outputs: int | None = 1, inplace: Sequence[int] = (), random: bool = False
) -> Callable[[Class], Class]:
    """Registers a class as a custom operator: docs/custom-ops.md.

    domain: that of its nodes; without one it stands for the nodes of its name in any domain. outputs: how many, None if
    each node says. inplace: inputs whose memory output 0 may take. random: two calls may differ.

    UsageError (E13030) for a class that is no operator, a name that is taken, an op of the ONNX standard.
    """

    def register(cls: Class) -> Class:
        file = source_file(cls)
        try:
            with _STATE.lock:
                operator = _operator_of(cls, name, domain, outputs, tuple(inplace), random, file)
                key = (operator.domain, operator.name)
                _make_way_for(operator, cls)
                register_opdef(operator.opdef())
                _STATE.operators[key] = operator
                _STATE.classes[cls] = key
        except AtcError as error:
            raise error.located(file=file) from error.__cause__
        return cls

    return register


def source_file(cls: object) -> str:
    """The file of the module that a class is of; empty if there is none."""
    found = getattr(sys.modules.get(getattr(cls, "__module__", "")), "__file__", None)
    return os.path.realpath(found) if found else ""


def _operator_of(
    cls: type, name: str, domain: str, outputs: int | None, inplace: tuple[int, ...], random: bool, file: str
) -> CustomOp:
    if not isinstance(cls, type):
        raise _refused(name, "the decorator is for a class")
    if not isinstance(name, str) or not name.isidentifier():
        raise _refused(str(name), "an operator's name is made of letters, digits and _")
    if domain and not re.fullmatch(r"[\w.-]+", domain):
        raise _refused(name, f'"{domain}" is no domain: letters, digits and ._-')
    if outputs is not None and outputs < 1:
        raise _refused(name, f"outputs={outputs}: it has at least one")
    hooks = _hooks_of(cls, name)
    if "forward" not in hooks:
        raise _refused(name, "the class has no function forward")
    derives_types = "infer" not in hooks
    spec = getattr(cls, "kernel", None)
    if derives_types:
        if spec is not None:
            raise _refused(name, "the class has no function infer, and a kernel writes into outputs of known types")
        hooks["infer"] = DerivedTypes(hooks["forward"])
    inputs = arity(hooks["forward"])
    for hook in ("decompose",) if derives_types else ("infer", "decompose"):
        if hook in hooks and arity(hooks[hook]) != inputs:
            raise _refused(name, f"{hook} takes other inputs than forward")
    if any(not isinstance(location, int) or not 0 <= location < inputs[1] for location in inplace):
        raise _refused(name, f"inplace={inplace}: these are no inputs of forward")
    forward: Any = getattr_static(cls, "forward")
    return CustomOp(
        name=name,
        domain=domain or ANY_DOMAIN,
        hooks=hooks,
        inputs=inputs,
        outputs=outputs,
        inplace=inplace,
        random=random,
        patterns=_patterns_of(cls, name, hooks, outputs),
        kernel=None if spec is None else CKernel.load(str(spec), Path(file).parent),
        summary=(cls.__doc__ or "").strip().partition("\n")[0],
        file=file,
        line=getattr(getattr(unwrap(forward), "__code__", None), "co_firstlineno", 0),
        source=_STATE.loading,
    )


def _hooks_of(cls: type, name: str) -> dict[str, Callable[..., Any]]:
    """The functions of a class. Those that take `self` share one object of it, unless it is an `Operator`."""
    if issubclass(cls, Operator):
        try:
            return OperatorClass(cls).hooks
        except ValueError as error:
            raise _refused(name, str(error)) from error
    own: list[Any] = []
    hooks: dict[str, Callable[..., Any]] = {}
    for hook in HOOKS:
        found = getattr_static(cls, hook, None)
        if found is None:
            continue
        code = getattr(found, "__code__", None)
        if code is not None and code.co_varnames[:1] == ("self",):
            own = own or [_object_of(cls, name)]
            hooks[hook] = getattr(own[0], hook)
        else:
            hooks[hook] = getattr(cls, hook)
        if not callable(hooks[hook]):
            raise _refused(name, f"{hook} is no function")
    return hooks


def _object_of(cls: type, name: str) -> Any:
    try:
        return cls()
    except Exception as error:
        raise _refused(name, f"no object of the class can be made: {type(error).__name__}: {error}") from error


def _patterns_of(cls: type, name: str, hooks: Mapping[str, Callable[..., Any]], outputs: int | None) -> tuple[Op, ...]:
    found = getattr(cls, "pattern", ())
    patterns = found if isinstance(found, tuple) else (found,)
    parameters = parameter_names(hooks["forward"])
    if patterns and outputs != 1:
        raise _refused(name, "only an operator of one output can replace a pattern")
    for pattern in patterns:
        if not isinstance(pattern, Op):
            raise _refused(name, "its pattern is not made by atcpy.ir.pattern.op")
        for variable in variables(pattern):
            if variable not in parameters:
                raise _refused(name, f'forward has no input "{variable}", which the pattern names')
    return patterns


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of a function's inputs, its context left out."""
    from inspect import signature

    return list(signature(function).parameters)[1:]


def _is_standard(op_type: str, domain: str) -> bool:
    """Does the ONNX standard define such an op? Where `onnx` is not installed nothing is converted: no."""
    try:
        return find_schema(op_type, domain) is not None
    except ModuleNotFoundError:
        return False


def _make_way_for(operator: CustomOp, cls: type) -> None:
    """Refuses a name that is taken, unless by the same lines of the same file: a module that is run once more, by its
    path after it was imported or the other way round, brings what it brought before.
    """
    schema_domain = "" if operator.domain == ANY_DOMAIN else operator.domain
    if _is_standard(operator.name, schema_domain):
        hint = 'give it another name, or a domain of its own: register_operator("…", domain="com.example")'
        raise _refused(operator.name, "the ONNX standard has an operator of that name", hint)
    other = _STATE.operators.get((operator.domain, operator.name))
    if other is None:
        return
    is_rerun = (
        operator.file and (other.file, other.line) == (operator.file, operator.line) and cls not in _STATE.classes
    )
    if not is_rerun:
        location = f", by {other.file}:{other.line}" if other.file else ""
        raise _refused(operator.full_name, f"it is registered already{location}", "keep one of the two")
    _forget(operator.domain, operator.name)


def _refused(name: str, why: str, hint: str = "docs/custom-ops.md shows how a class must look") -> UsageError:
    return UsageError("E13030", f"{name} cannot be registered: {why}", hint=hint)


# --- modules ----------------------------------------------------------------------------------------------------------


def load_custom_ops(modules: Sequence[OpsModule]) -> CustomOps:
    """Runs the modules that are not loaded yet: their operators, and those of the process.

    UsageError: E13029 for a module that cannot be imported, E13030 for what it registers.
    """
    with _STATE.lock:
        for module in modules:
            if module.path and module.target is None:
                _load_file(module)
            elif module.target is not None:
                _check_registered(module)
        named = {module.path for module in modules if module.path}
        chosen = {key: op for key, op in sorted(_STATE.operators.items()) if not op.source or op.source in named}
        passes = [entry for path in sorted(named) for entry in _STATE.passes.get(path, ())]
        return CustomOps(chosen, passes=tuple(passes))


def keep_for_file(entry: object) -> bool:
    """Keep a pass for the calls that name the file that is being loaded. Returns False if no file is."""
    if _STATE.loading:
        _STATE.passes.setdefault(_STATE.loading, []).append(entry)
    return bool(_STATE.loading)


class _UncachedLoader(SourceFileLoader):
    """Compiles the source each time. Cached bytecode is known by the second of the last change and the size only: of
    a file that is edited and loaded again within that second, the old code would run.
    """

    def path_stats(self, path: str) -> NoReturn:
        raise OSError(f"no bytecode is cached for {path}")


def _load_file(module: OpsModule) -> None:
    if _STATE.digests.get(module.path) == module.sha256:
        return
    if any(op.file == module.path and not op.source for op in _STATE.operators.values()):
        return  # the program has imported it
    _unload(module.path)
    name = f"atcpy_custom_ops_{module.sha256[:16]}"
    if not module.path.endswith(".py"):
        raise _not_loaded(module.path, "its name does not end in .py")
    loader = _UncachedLoader(name, module.path)
    spec = importlib.util.spec_from_file_location(name, module.path, loader=loader)
    assert spec is not None
    sys.modules[name] = code = importlib.util.module_from_spec(spec)
    try:
        with _loading(module.path):
            loader.exec_module(code)
    except (KeyboardInterrupt, AtcError, MemoryError):
        _unload(module.path)
        raise
    except (Exception, SystemExit) as error:
        _unload(module.path)
        line = error.lineno if isinstance(error, SyntaxError) else line_in(module.path, error.__traceback__)
        raise _not_loaded(module.path, f"{type(error).__name__}: {error}", line) from error
    operators = [op for op in _STATE.operators.values() if op.source == module.path]
    if not operators and module.path not in _STATE.passes:
        raise _not_loaded(module.path, "it registers no operator")
    _STATE.digests[module.path] = module.sha256


@contextmanager
def _loading(path: str) -> Iterator[None]:
    """What is registered meanwhile belongs to the file, which may import its neighbours."""
    folder = str(Path(path).parent)
    before, _STATE.loading = _STATE.loading, path
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        _STATE.loading = before


def _unload(path: str) -> None:
    """Forgets what a file registered: it has changed, or did not load to its end."""
    _STATE.digests.pop(path, None)
    _STATE.passes.pop(path, None)
    for key in [key for key, operator in _STATE.operators.items() if operator.source == path]:
        _forget(*key)


def _forget(domain: str, name: str) -> None:
    """Takes an operator out again."""
    with _STATE.lock:
        operator = _STATE.operators.pop((domain, name))
        for cls in [cls for cls, key in _STATE.classes.items() if key == (domain, name)]:
            del _STATE.classes[cls]
        forget_operator(operator.node_domain, name)


def _check_registered(module: OpsModule) -> None:
    target = module.target
    known = (
        target in _STATE.classes
        if isinstance(target, type)
        else any(cls.__module__ == getattr(target, "__name__", None) for cls in _STATE.classes)
    )
    if not known:
        hint = "decorate the class with @atcpy.register_operator"
        raise UsageError(
            "E13030", f"{module.name} has no registered operator", where=Where(file=module.path), hint=hint
        )


def custom_ops_in(graph: Graph) -> tuple[str, ...]:
    """The full names of users' operators among the nodes of a graph and its bodies: it needs them to run."""
    if not _STATE.operators:
        return ()
    found = (custom_op_at(node) for node in walk(graph))
    return tuple(sorted({operator.full_name for operator in found if operator is not None}))


def registered_class(name: str) -> type | None:
    """The class that was registered by a name, in the first of the domains that have one."""
    found = [(domain, cls) for cls, (domain, known) in _STATE.classes.items() if known == name]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def find_custom_op(domain: str, name: str) -> CustomOp | None:
    """An operator that this process knows, whoever brought it."""
    return _STATE.operators.get((domain, name))


def custom_op_at(node: Node) -> CustomOp | None:
    """The operator of a node, which may be one beside a built-in op of its name (`CustomOp.node_domain`)."""
    if not has_trait(node, Trait.CUSTOM):
        return None
    found = (op for op in _STATE.operators.values() if (op.node_domain, op.name) == (node.domain, node.op_type))
    return next(found, None)


def custom_op_of(operator: type | str) -> CustomOp:
    """The operator of a decorated class, or of a name, as `Name` or `domain::Name`."""
    domain, _, name = operator.rpartition("::") if isinstance(operator, str) else ("", "", "")
    key = (domain or ANY_DOMAIN, name) if isinstance(operator, str) else _STATE.classes.get(operator, ("", ""))
    found = _STATE.operators.get(key)
    if found is None:
        hint = did_you_mean(name, [known for _, known in _STATE.operators]) or "@atcpy.register_operator registers one"
        raise UsageError("E10016", f"there is no custom operator {operator}", hint=hint)
    return found


def _not_loaded(path: str, why: str, line: int | None = None) -> UsageError:
    where = Where(file=path, line=line)
    return UsageError("E13029", f"{Path(path).name} cannot be loaded: {why}", where=where, hint="correct the module")


def forget_all() -> None:
    """Takes every operator out again: for tests."""
    with _STATE.lock:
        for key in list(_STATE.operators):
            _forget(*key)
        _STATE.digests.clear()
        _STATE.passes.clear()
