"""Rules that need all files: which module imports which, what is tested where, and whether the locks agree.

Source: TigerBeetle's ``tidy.zig`` (dead files); websockets' ``maxi_cov.py`` (each module has its own tests).
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from tests.tidy.file_rules import LINES_MAX
from tests.tidy.repository import SourceFile

TreeRule = Callable[[Sequence[SourceFile]], Iterator[str]]

TABLES: dict[str, str] = {
    "lab.cli.main": "one command a file",
    "pykraft.cli.main": "one command a file",
    "pykraft.core.raft": "one message a file",
    "pykraft.host.components": "one part of a node a file",
    "pykraft.host.host": "one part of a node a file",
    "pykraft.rpc.codec": "one RPC a file",
    "pykraft.sim.faults.faults": "one kind of fault a file",
}
"""Modules that list many of one kind, each in a file of its own although nothing else imports it: what they list."""
APART: dict[str, str] = {
    "pykraft.protocol.metadata.tables": "it is generated from Kafka's message definitions",
    "pykraft.client.subscriptions": "it is compiled, and client.node cannot be",
    "pykraft.kv.http_server": "it needs uvicorn, which only the extra kv has",
    "pykraft.security.bounded": "it knows bytes of TLS only, and its user certificates and their files",
    "pykraft.security.stores": "it needs cryptography, which only the extra tls has",
    "pykraft.machine.testing.replay": "another process runs it, without the simulator's worlds",
    "pykraft.server.link_protocol": "its user is compiled, and mypyc has no native class with a base of asyncio",
    "pykraft.spark.pipeline.gold": "its functions are for programs of users",
    "pykraft.spark.pipeline.silver": "tasks import it, without what a driver needs",
    "pykraft.spark.session.daemon": "Spark starts it by its name",
    "pykraft.spark.session.home": "bin/test runs it by its name",
    "pykraft.spark.session.java": "bin/pykraft runs it by its name",
}
"""Other modules that only one module imports, and why they stay apart from it."""

BUDGETS_PATH = "tests/tidy/budgets.toml"
BUDGET_SLACK_PERCENT = 2
"""How far a package may be below its budget, so that not every small change writes it."""

SAME_NAMES: dict[str, str] = {}
"""Public classes and aliases that two modules may define, and why."""

ENTRY_POINTS = {
    "lab.__main__": "bin/pykraft",
    "pykraft.__main__": "python -m pykraft",
    "pykraft.cli.main": "the script of pyproject.toml",
    "pykraft.machine": "programs with a replicated state machine",
    "pykraft.machine.testing": "tests of programs with a replicated state machine",
    "pykraft.recipes": "programs with a key-value store",
    "pykraft.spark.pipeline.query_metrics": "programs with streams of their own",
    "pykraft.spark.metadata.frames": "programs that query the tables of the metadata log",
}
"""Modules that somebody outside the package imports, and who. What scripts in bin name counts by itself."""

TESTED_ELSEWHERE: dict[str, str] = {
    "pykraft.__main__": "three lines; tests/processes starts it",
    "pykraft.log.offline.verify_findings": "tests/log/offline/test_verify_log.py",
    "pykraft.protocol.messages": "tests/protocol/messages/test_bytes.py",
    "pykraft.sim.invariants": "tests/sim/invariants/test_invariant.py",
}
"""Modules without a test file of their own name, and where they are tested. A key may be a package: all below it."""

UNLOCKED_EXTRAS = {"all"}
"""All is the sum of the others."""
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)(?: ; ([^\\]+?))? ?\\?$")
CLASS_NAME = re.compile(r"[A-Z]\w*[a-z]")
MODULE_NAME = re.compile(r"\b(?:pykraft|lab)(?:\.\w+)+")
REQUIRED = re.compile(r"^[A-Za-z0-9._-]+")


def joined_modules(files: Sequence[SourceFile]) -> Iterator[str]:
    """A module that one other module of its package alone imports is a part of it, if both fit into one file."""
    for module, user in single_uses(files).items():
        if module not in APART:
            yield f"{module} is imported by {user} alone and fits into its file: merge them"


def package_budgets(files: Sequence[SourceFile]) -> Iterator[str]:
    """A package has a budget of lines. What it no longer needs is taken away; the commit that adds to it says why."""
    lines = package_lines(files)
    budgets: dict[str, int] = {}
    for file in files:
        if file.path == BUDGETS_PATH:
            budgets = tomllib.loads(file.text)
    for package in sorted(lines.keys() | budgets.keys()):
        count, budget = lines.get(package, 0), budgets.get(package, 0)
        if count > budget:
            yield f"{package}: {count} lines, more than {budget} of {BUDGETS_PATH}: what can go in return?"
        elif count * 100 < budget * (100 - BUDGET_SLACK_PERCENT) or not count:
            yield f"{package}: {count} lines, so its budget of {budget} falls: python -m tests.tidy.budgets"


def no_circles(files: Sequence[SourceFile]) -> Iterator[str]:
    """No module imports itself over others, inside a package either: what it needs can be read before it."""
    known = _modules(files)
    graph = {file.module: _neighbors(file, known, by_name=False) for file in files if file.is_product}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield " <- ".join(error.args[1])


def one_meaning(files: Sequence[SourceFile]) -> Iterator[str]:
    """A public class or alias exists once in the package, so that its name alone says which one is meant."""
    for name, paths in sorted(_public_names(files).items()):
        if len(paths) > 1 and name not in SAME_NAMES:
            yield f"{name} is defined by {' and by '.join(paths)}"


def no_dead_modules(files: Sequence[SourceFile]) -> Iterator[str]:
    """Every module is reached from an entry point: a command, a script, or a public import."""
    known = _modules(files)
    graph = {file.module: file.imports(known) for file in files if file.is_product}
    alive: set[str] = set()
    scripts = (file for file in files if file.path.startswith("bin/"))
    waiting = list(known & {*ENTRY_POINTS, *(name for file in scripts for name in MODULE_NAME.findall(file.text))})
    while waiting:
        module = waiting.pop()
        if module not in alive:
            alive.add(module)
            waiting += [*graph[module], *_parents(module, known)]
    for file in files:
        if file.is_product and file.module not in alive and not _is_only_a_docstring(file):
            yield f"{file.path}: no entry point or script reaches it"


def mirrored_tests(files: Sequence[SourceFile]) -> Iterator[str]:
    """The tests of ``log/segment.py`` are in ``tests/log/test_segment.py``; pure declarations need none."""
    paths = {file.path for file in files}
    for file in files:
        if file.is_product and _has_behavior(file) and not _is_exempt(file.module):
            expected = _test_path(file.module)
            if expected not in paths:
                yield f"{file.path}: there is no {expected}"


def no_idle_exceptions(files: Sequence[SourceFile]) -> Iterator[str]:
    """An exception ends with its module, or when the module no longer needs it."""
    known = _modules(files)
    paths = {file.path for file in files}
    for module in (*TABLES, *ENTRY_POINTS, *TESTED_ELSEWHERE):
        if module not in known:
            yield f"{module} has an exception and does not exist"
    for module in APART.keys() - single_uses(files).keys():
        yield f"{module} no longer needs its exception as a module of a single use"
    names = _public_names(files)
    for name in SAME_NAMES:
        if len(names.get(name, ())) < 2:
            yield f"{name} has an exception and is defined at most once"
    for module in TESTED_ELSEWHERE:
        if _test_path(module) in paths:
            yield f"{module} is tested in its own place now: {_test_path(module)}"


def locked_requirements(files: Sequence[SourceFile]) -> Iterator[str]:
    """Each package in a lock has a hash; the locks agree with each other and have what pyproject.toml requires."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for file in files:
        if file.path.rpartition("/")[2] == "uv.lock":
            yield f"{file.path}: it names hosts; `just lock` writes requirements/ instead"
        if not (file.path.startswith("requirements/") and file.path.endswith(".txt")):
            continue
        for name, version, marker, has_hash in _pins(file):
            if not has_hash:
                yield f"{file.path}: {name} has no hash"
            path, former = seen.setdefault((name, marker), (file.path, version))
            if former != version:
                yield f"{file.path}: {name} is {version}, but {former} in {path}"
    names = {name for name, _ in seen}
    for file in files:
        if file.path == "pyproject.toml":
            yield from (f"{name} is in no lock" for name in sorted(_wanted(file) - names))


TREE_RULES: tuple[TreeRule, ...] = (
    joined_modules,
    package_budgets,
    no_circles,
    one_meaning,
    no_dead_modules,
    mirrored_tests,
    no_idle_exceptions,
    locked_requirements,
)


def _public_names(files: Sequence[SourceFile]) -> Mapping[str, list[str]]:
    """The public classes and aliases of the package, and the files that define each; TypeVars are letters, no names."""
    found: dict[str, list[str]] = {}
    for file in files:
        if not file.is_product:
            continue
        for node in file.tree.body:
            match node:
                case ast.ClassDef(name=name):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    pass
                case _:
                    continue
            if CLASS_NAME.match(name):
                found.setdefault(name, []).append(file.path)
    return found


def _modules(files: Sequence[SourceFile]) -> frozenset[str]:
    return frozenset(file.module for file in files if file.is_product)


def _neighbors(file: SourceFile, known: frozenset[str], *, by_name: bool = True) -> frozenset[str]:
    """Imported modules; a package counts only when no module in it was meant."""
    named = file.imports(known, by_name=by_name)
    return frozenset(one for one in named if not any(other.startswith(f"{one}.") for other in named)) - {file.module}


def single_uses(files: Sequence[SourceFile]) -> Mapping[str, str]:
    """The modules that one other of their package alone imports, and that one; `TABLES` and what is too long apart."""
    known = _modules(files)
    by_name = {file.module: file for file in files if file.is_product}
    users: dict[str, list[str]] = {module: [] for module in known}
    for file in by_name.values():
        for module in _neighbors(file, known):
            users[module].append(file.module)
    single = {module: names[0] for module, names in users.items() if len(names) == 1}
    return {
        module: user
        for module, user in sorted(single.items())
        if module.rpartition(".")[0] == user.rpartition(".")[0]
        and user not in TABLES
        and not any(by_name[each].path.endswith("/__init__.py") for each in (module, user))
        and sum(len(by_name[each].text.splitlines()) for each in (module, user)) <= LINES_MAX
    }


def package_lines(files: Sequence[SourceFile]) -> Mapping[str, int]:
    """The lines of Python in each package below ``src/pykraft``, in the laboratory, and of the tests."""
    counts: Counter[str] = Counter()
    for file in files:
        if file.is_product and file.path.startswith("lab/"):
            counts["lab"] += len(file.text.splitlines())
        elif file.is_product and file.path.count("/") > 2:
            counts[file.path.split("/")[2]] += len(file.text.splitlines())
        elif file.is_test:
            counts["tests"] += len(file.text.splitlines())
    return counts


def _parents(module: str, known: frozenset[str]) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        if module in known:
            yield module


def _is_only_a_docstring(file: SourceFile) -> bool:
    return len(file.tree.body) <= 1 and file.path.endswith("__init__.py")


def _test_path(module: str) -> str:
    folders, _, name = module.removeprefix("pykraft.").replace(".", "/").rpartition("/")
    return f"tests/{folders}/test_{name}.py".replace("//", "/")


def _has_behavior(file: SourceFile) -> bool:
    """True when some function does more than to declare itself with ``...``."""
    functions = (node for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(
        not (isinstance(last := function.body[-1], ast.Expr) and isinstance(last.value, ast.Constant))
        for function in functions
    )


def _is_exempt(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in TESTED_ELSEWHERE)


def _pins(file: SourceFile) -> Iterator[tuple[str, str, str, bool]]:
    lines = file.text.splitlines()
    for number, line in enumerate(lines):
        if pin := PINNED.match(line):
            has_hash = number + 1 < len(lines) and lines[number + 1].strip().startswith("--hash=sha256:")
            yield pin[1], pin[2], pin[3] or "", has_hash


def _wanted(file: SourceFile) -> set[str]:
    """Names in all dependencies of pyproject.toml, normalized; `UNLOCKED_EXTRAS` apart."""
    content = tomllib.loads(file.text)
    project = content.get("project", {})
    extras = project.get("optional-dependencies", {})
    lists = [project.get("dependencies", []), *content.get("dependency-groups", {}).values()]
    lists += [names for extra, names in extras.items() if extra not in UNLOCKED_EXTRAS]
    found = (REQUIRED.match(requirement) for names in lists for requirement in names)
    return {match[0].lower().replace("_", "-").replace(".", "-") for match in found if match}
