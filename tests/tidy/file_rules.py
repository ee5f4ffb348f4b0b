"""Rules that a single file keeps or breaks. Each yields its complaints, and none for a file it does not concern.

Source: TigerBeetle's ``tidy.zig`` for the idea, the limits and the left-over markers.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterator

from tests.tidy.repository import SourceFile

FileRule = Callable[[SourceFile], Iterator[str]]

LINES_MAX = 400
FUNCTION_LINES_MAX = 70

MARKERS = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K]|NotImplemented[E]rror)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.${}~*-])/(work|root|tmp|farm)/(?!k?raft-logs\b)\w")
"""But where Kafka's own samples keep their logs, ours do."""
REGISTRY_HOSTS = re.compile(
    r"pypi[.]org|pythonhosted[.]org|repo1?[.]maven|maven[.]org|registry[.]npmjs|proxy[.]golang|crates[.]io|deb[.]debian"
)
PRIVATE_REFERENCES = re.compile(r"\bspec/\d\d|\bplan[.]md|\bstyle-anchors")
VAGUE_NAMES = re.compile(r"(Manager|Helper|Utils?|Base|Misc)$")

FORMER_NAMES = re.compile(r"\b([Ss]elf-[Mm]anage[d]|[Ee]ndors(?:e[sd]?|ing|ement[s]?))\b")
"""What Kafka says no more: it is KRaft, and voters acknowledge their leader."""

NUMBERED_STEP = re.compile(r"^\s*([0-9]+)[.] ", re.MULTILINE)
STEPS_MIN = 2
STILTED = re.compile(r"\bis no directory\b|\{[^{}]*\} (?:other entries|micro-batches|episodes|elections|tries)\b")
"""Texts that a colleague would not say, and plurals that a count of one would make wrong."""

MUST_CITE = ("src/pykraft/core/on/", "src/pykraft/rpc/", "src/pykraft/log/", "src/pykraft/protocol/")
OURS = {
    "src/pykraft/log/config.py": "values with units",
    "src/pykraft/log/fs.py": "the seam between the log and its files",
    "src/pykraft/log/paths.py": "names of files",
    "src/pykraft/protocol/source.py": "text of generated functions",
}
"""Modules below `MUST_CITE` that carry out nothing of Kafka's, and what they are."""

RANDOM_CLASSES = {"Random", "SystemRandom"}
SLEEPS = {("time", "sleep"), ("asyncio", "sleep")}
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def short_files(file: SourceFile) -> Iterator[str]:
    """A file holds one idea, and one idea fits 400 lines."""
    count = len(file.text.splitlines())
    if file.is_python and count > LINES_MAX:
        yield f"{count} lines, more than {LINES_MAX}: what are its two ideas?"


def short_functions(file: SourceFile) -> Iterator[str]:
    """A function fits a screen."""
    for function in _functions(file):
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > FUNCTION_LINES_MAX:
            yield f"{function.name} has {count} lines, more than {FUNCTION_LINES_MAX}"


def no_markers(file: SourceFile) -> Iterator[str]:
    """What is not done stands in an issue, not in the code."""
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := MARKERS.search(line):
            yield f"line {number}: {found[0]}"


def opening_docstring(file: SourceFile) -> Iterator[str]:
    """Every module opens with its theory; only an empty ``__init__.py`` of tests has none."""
    if file.is_python and (file.is_product or file.tree.body) and not file.docstring:
        yield "no docstring at its top: what does it own, what always holds, what does it refuse to know?"


def documented_names(file: SourceFile) -> Iterator[str]:
    """Public functions, classes and methods of the package say what they do."""
    if not file.is_product:
        return
    for body in (file.tree.body, *(each.body for each in _public_classes(file))):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _needs_docstring(node):
                yield f"line {node.lineno}: {node.name} has no docstring"


def cited_source(file: SourceFile) -> Iterator[str]:
    """Who carries out Kafka's behavior says where it is written: KIP, issue, class or paper."""
    concerned = file.is_product and file.path.startswith(MUST_CITE) and not file.path.endswith("__init__.py")
    if not concerned or file.path in OURS:
        return
    if "Source:" not in file.docstring:
        yield "its docstring has no `Source:` line"


def injected_randomness(file: SourceFile) -> Iterator[str]:
    """One seed decides everything, so nobody asks the generator that all share."""
    if not file.is_product:
        return
    for node in ast.walk(file.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if name not in RANDOM_CLASSES:
                yield f"line {node.lineno}: random.{name} of the global generator"
            case ast.ImportFrom(module="random", names=names) if {alias.name for alias in names} - RANDOM_CLASSES:
                yield f"line {node.lineno}: imports a function of the global generator"
            case _:
                pass


def imports_at_run_time(file: SourceFile) -> Iterator[str]:
    """In the simulator a module imports what it names; an import for the type checker alone would hide a circle."""
    if not file.is_product or not file.path.startswith("src/pykraft/sim/"):
        return
    for node in ast.walk(file.tree):
        match node:
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                yield f"line {node.lineno}: TYPE_CHECKING"
            case _:
                pass


def no_skips_or_sleeps(file: SourceFile) -> Iterator[str]:
    """A test runs, and waits for what it waits for; what is missing fails."""
    if not file.is_test:
        return
    for node in ast.walk(file.tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in SLEEPS:
                yield f"line {node.lineno}: {module}.{name}"
            case ast.Attribute(value=ast.Name(id="pytest") | ast.Attribute(attr="mark"), attr=name) if name in SKIPS:
                yield f"line {node.lineno}: pytest's {name}"
            case _:
                pass


def telling_names(file: SourceFile) -> Iterator[str]:
    """A class is named for what it is."""
    if not file.is_python:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef) and (found := VAGUE_NAMES.search(node.name)):
            yield f"line {node.lineno}: {node.name}: what does a {found[0]} do?"


def present_names(file: SourceFile) -> Iterator[str]:
    """Kafka's word wins, and of two the present one."""
    yield from _lines_with(FORMER_NAMES, file)


def numbered_steps(file: SourceFile) -> Iterator[str]:
    """Where a docstring numbers steps, the code below it carries the same numbers, in comments or inner docstrings."""
    if not file.is_product:
        return
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        steps = NUMBERED_STEP.findall(ast.get_docstring(node) or "")
        if len(steps) < STEPS_MIN:
            continue
        prose = _prose_below(file, node)
        if missing := [step for step in steps if not re.search(rf"(?<![\w.]){step}\b", prose)]:
            name = "the module" if isinstance(node, ast.Module) else node.name
            yield f"the docstring of {name} numbers steps, and the code below does not name {', '.join(missing)}"


def plain_words(file: SourceFile) -> Iterator[str]:
    """A message says "is not a directory", and counts with `pykraft.plural.counted`."""
    if not file.is_product:
        return
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := STILTED.search(line):
            yield f"line {number}: {found[0]!r}"


def tests_in_test_files(file: SourceFile) -> Iterator[str]:
    """A file that is called a test is none while nothing in it is one."""
    if not (file.is_test and file.path.rpartition("/")[2].startswith("test_")):
        return
    if not any(name.lower().startswith("test") for name in _top_names(file)):
        yield "no test is in it"


def no_machine_paths(file: SourceFile) -> Iterator[str]:
    """Nothing depends on where one machine keeps its files."""
    yield from _lines_with(MACHINE_PATHS, file)


def no_registry_hosts(file: SourceFile) -> Iterator[str]:
    """Packages come from wherever the reader's tools are told; their hashes are ours, their hosts are not."""
    yield from _lines_with(REGISTRY_HOSTS, file)


def no_private_references(file: SourceFile) -> Iterator[str]:
    """What is cited can be read by whoever reads us."""
    yield from _lines_with(PRIVATE_REFERENCES, file)


FILE_RULES: tuple[FileRule, ...] = (
    short_files,
    short_functions,
    no_markers,
    opening_docstring,
    documented_names,
    cited_source,
    injected_randomness,
    imports_at_run_time,
    no_skips_or_sleeps,
    telling_names,
    present_names,
    numbered_steps,
    plain_words,
    tests_in_test_files,
    no_machine_paths,
    no_registry_hosts,
    no_private_references,
)


def _prose_below(file: SourceFile, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The comments in a module, class or function, and the docstrings of what it defines."""
    first, last = (1, math.inf) if isinstance(node, ast.Module) else (node.lineno, node.end_lineno or math.inf)
    tokens = tokenize.generate_tokens(io.StringIO(file.text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT and first <= token.start[0] <= last]
    inner = [each for each in ast.walk(node) if each is not node]
    defined = [each for each in inner if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    return "\n".join([*comments, *(ast.get_docstring(each) or "" for each in defined)])


def _functions(file: SourceFile) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    if file.is_python:
        yield from (node for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _top_names(file: SourceFile) -> Iterator[str]:
    """Of functions, classes and variables of the module."""
    for node in file.tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case _:
                pass


def _public_classes(file: SourceFile) -> Iterator[ast.ClassDef]:
    yield from (node for node in file.tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def _needs_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """True unless it is private, has one, or is an override or overload of what has one."""
    inherited = {each.id for each in node.decorator_list if isinstance(each, ast.Name)} & {"override", "overload"}
    return not (node.name.startswith("_") or inherited or ast.get_docstring(node))


def _lines_with(pattern: re.Pattern[str], file: SourceFile) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := pattern.search(line):
            yield f"line {number}: {found[0]}"
