"""Rules that need all files: which module imports which, what is tested where, and whether the locks agree.

Source: TigerBeetle's ``tidy.zig`` (dead files); websockets' ``maxi_cov.py`` (each module has its own tests).
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.tidy.repository import SourceFile

TreeRule = Callable[[Sequence[SourceFile]], Iterator[str]]

FAN_OUT_MAX = 12
"""Modules of ours that one module may import: what one can keep in mind while reading it, and a third of what Kafka's
own check allows the class that it then exempts. `SHARED_WORDS` do not count: they are vocabulary, not neighbors."""
SHARED_WORDS = frozenset(
    {
        "pykraft.types",
        "pykraft.errors",
        "pykraft.config",
        "pykraft.plural",
        "pykraft.suggest",
        "pykraft.text_table",
        "pykraft.cli.parsing.choice",
        "pykraft.cli.parsing.group",
        "pykraft.cli.parsing.value",
        "pykraft.cli.json_option",
        "pykraft.cli.tables",
        "pykraft.core.status",
    }
)
JOINERS: dict[str, tuple[int, str]] = {
    "pykraft.audit.part": (14, "all that a task learns from the batches that it reads"),
    "pykraft.cli.main": (19, "the table of all commands"),
    "pykraft.client": (13, "the names that a program with a node imports"),
    "pykraft.client.node": (14, "the one face of an embedded node"),
    "pykraft.client.subscription": (13, "one listener and all that it may be given"),
    "pykraft.core.on.timer": (16, "all that a replica does without being asked"),
    "pykraft.core.on.fetch_request": (15, "all that a Fetch tells a leader of its sender"),
    "pykraft.core.on.dispatch": (18, "the table of all messages"),
    "pykraft.host.clients.assemble": (14, "all parts that serve clients, put together"),
    "pykraft.host.clients.client_requests": (14, "the table of all APIs of clients"),
    "pykraft.host.host": (17, "the one face of all parts"),
    "pykraft.host.open": (18, "all that a start reads, in its order"),
    "pykraft.host.components": (25, "all parts of a node, put together"),
    "pykraft.machine.replicated": (16, "the one face of a replicated state machine"),
    "pykraft.machine.testing.simulate": (17, "a scenario, oracles, a world, its shrinking and its page, put together"),
    "pykraft.machine.testing.users": (16, "a program's parts and those of a simulated process, put together"),
    "pykraft.protocol.messages": (25, "the registry of all RPCs"),
    "pykraft.rpc.codec": (17, "the table of all RPCs"),
    "pykraft.log.offline.dump": (13, "the table of all files of a node"),
    "pykraft.log.offline.verify": (14, "all that a data directory may hold"),
    "pykraft.log.offline.verify_log": (14, "a log as a whole, in parts, and put together again"),
    "pykraft.server.driver": (13, "one host and all that it runs on"),
    "pykraft.sim.faults.faults": (13, "the table of all families of faults"),
    "pykraft.sim.invariants": (110, "the table of all invariants"),
    "pykraft.sim.machine.node": (14, "all parts of a simulated machine, put together"),
    "pykraft.sim.run.world": (26, "all parts of a world, put together"),
}
"""Modules whose one idea is to join many: how many, and why."""

MODULES_MAX = 25
"""Modules of one package, its ``__init__.py`` apart: a list that one can still read for what it says of the package."""

SAME_NAMES: dict[str, str] = {}
"""Public classes and aliases that two modules may define, and why."""

ENTRY_POINTS = {
    "pykraft.__main__": "python -m pykraft",
    "pykraft.cli.main": "the script of pyproject.toml",
    "pykraft.machine": "programs with a replicated state machine",
    "pykraft.machine.testing": "tests of programs with a replicated state machine",
    "pykraft.recipes": "programs with a key-value store",
    "pykraft.spark.metadata.frames": "programs that query the tables of the metadata log",
}
"""Modules that somebody outside the package imports, and who. What scripts in bin name counts by itself."""

TESTED_ELSEWHERE: dict[str, str] = {
    "pykraft.__main__": "three lines; tests/processes starts it",
}
"""Modules without a test file of their own name, and where they are tested. A key may be a package: all below it."""

UNLOCKED_EXTRAS = {"all"}
"""All is the sum of the others."""
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)(?: ; ([^\\]+?))? ?\\?$")
CLASS_NAME = re.compile(r"[A-Z]\w*[a-z]")
MODULE_NAME = re.compile(r"\bpykraft(?:\.\w+)+")
REQUIRED = re.compile(r"^[A-Za-z0-9._-]+")


def narrow_modules(files: Sequence[SourceFile]) -> Iterator[str]:
    """A module imports few others."""
    known = _modules(files)
    for file in files:
        if not file.is_product:
            continue
        count = len(_neighbors(file, known) - SHARED_WORDS)
        limit, _ = JOINERS.get(file.module, (FAN_OUT_MAX, ""))
        if count > limit:
            yield f"{file.path}: imports {count} modules of ours, more than {limit}"


def small_packages(files: Sequence[SourceFile]) -> Iterator[str]:
    """A package is a short list of modules; a longer one has rooms in it that nobody has named yet."""
    counts = Counter(
        file.path.rpartition("/")[0] for file in files if file.is_product and not file.path.endswith("/__init__.py")
    )
    for folder, count in sorted(counts.items()):
        if count > MODULES_MAX:
            yield f"{folder}: {count} modules, more than {MODULES_MAX}"


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
    for module in (*JOINERS, *ENTRY_POINTS, *TESTED_ELSEWHERE):
        if module not in known:
            yield f"{module} has an exception and does not exist"
    for file in files:
        if file.is_product and file.module in JOINERS and len(_neighbors(file, known) - SHARED_WORDS) <= FAN_OUT_MAX:
            yield f"{file.module} no longer needs its exception as a joiner"
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
    narrow_modules,
    small_packages,
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


def _neighbors(file: SourceFile, known: frozenset[str]) -> frozenset[str]:
    """Imported modules; a package counts only when no module in it was meant."""
    named = file.imports(known)
    return frozenset(one for one in named if not any(other.startswith(f"{one}.") for other in named)) - {file.module}


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
