"""Rules about single files. Each yields its complaints, and none for a file that it does not concern.

Source: TigerBeetle's ``tidy.zig`` for the idea, the limits and the left-over markers.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence

from tests.tidy.repository import ROOT, SourceFile

FileRule = Callable[[SourceFile], Iterator[str]]

LINES_MAX = 600
FUNCTION_LINES_MAX = 70

MARKERS = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K]|NotImplemented[E]rror)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.${}~*-])/(work|root|tmp|farm)/(?!k?raft-logs\b)\w")
"""Not matched: ``/tmp/kraft-logs``, the default in Kafka's own samples and so in ours."""
REGISTRY_HOSTS = re.compile(
    r"pypi[.]org|pythonhosted[.]org|repo1?[.]maven|maven[.]org|registry[.]npmjs|proxy[.]golang|crates[.]io|deb[.]debian"
)
PRIVATE_REFERENCES = re.compile(r"\bspec/\d\d|\bplan[.]md|\bstyle-anchors")
VAGUE_NAMES = re.compile(r"(Manager|Helper|Utils?|Base|Misc)$")
BETTER_NAMES = {
    "tell": "report, notify, send, print_…, wake",
    "told": "answered, reported, sent, shown, …_text",
    "look": "check, poll, read, observe",
    "found": "what it returns, or report_…",
    "hear": "receive, note_…",
}
"""Names that meant a dozen things, and what they mostly meant."""
CALLABLES = {"tell", "look", "hear"}
"""Those that a parameter must not have either: it is called."""

FORMER_NAMES = re.compile(r"\b([Ss]elf-[Mm]anage[d]|[Ee]ndors(?:e[sd]?|ing|ement[s]?))\b")
"""Terms that Kafka no longer uses: it says KRaft, and that voters acknowledge their leader."""

NUMBERED_STEP = re.compile(r"^\s*([0-9]+)[.] ", re.MULTILINE)
STEPS_MIN = 2
STILTED = re.compile(
    r"\bis no directory\b|\{(?![A-Z_]+[:}])[^{}]*\} (?:(?:more|other|acknowledged|damaged) )*(?:entries|micro-batches"
    r"|episodes|elections|tries|duplicates|files|lines|nodes|notes|places|problems|producers|rows|seeds|voters)\b(?!/)"
)
"""Phrases that a colleague would not use, and plurals that are wrong for a count of one."""

IMPORTED = tuple(f"src/pykraft/{name}" for name in ("client/", "config/", "machine/", "recipes/", "errors", "types"))
"""Where the names are that docs/api.md lists."""
NOTHING_INHERITED = {"ABC", "Enum", "Exception", "Generic", "IntEnum", "NamedTuple", "Protocol", "TypedDict"}
NAMED_CLASS = re.compile(r"`(?:[a-z_]\w*[.])*[A-Z]\w*[a-z]\w*`")

MUST_CITE = ("src/pykraft/core/on/", "src/pykraft/rpc/", "src/pykraft/log/", "src/pykraft/protocol/")
TESTS_MUST_CITE = re.compile(r"tests/(core|protocol|rpc|log|snapshot|host)/(\w+/)*test_\w+[.]py")
OURS = {
    "src/pykraft/log/fs.py": "the seam between the log and its files",
    "src/pykraft/log/paths.py": "names of files",
    "src/pykraft/protocol/schema.py": "text of generated functions",
}
"""Modules that would have to cite a source but contain no rule, and what they contain instead."""

MESSAGE_NAMES = frozenset(("text", "message", "reason", "detail", "problem", "story", "why", "words", "told"))
"""Names of variables and attributes that hold what a person is to read."""
ERROR_NAMES = frozenset(("error", "failure", "refused"))
MAKE_REPORTS = ("src/pykraft/core/", "src/pykraft/host/", "src/pykraft/sim/")
PARSERS = re.compile(r"_?(parse|read)(_|$)")
"""Functions that are given text to make values of."""
READ_TEXT = {
    "src/pykraft/cli/parsing/group.py": "an error of click has no field for a suggestion",
    "src/pykraft/object_storage/files.py": "errors of Arrow have no code",
    "src/pykraft/protocol/compression.py": "errors of cramjam have no code",
}
"""Modules that read messages of others, and why they have to."""

RANDOM_CLASSES = {"Random", "SystemRandom"}
SLEEPS = {("time", "sleep"), ("asyncio", "sleep")}
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def short_files(file: SourceFile) -> Iterator[str]:
    """A file has one idea and at most 600 lines."""
    count = len(file.text.splitlines())
    if file.is_python and count > LINES_MAX:
        yield f"{count} lines, more than {LINES_MAX}: what are its two ideas?"


def short_functions(file: SourceFile) -> Iterator[str]:
    """A function fits on one screen."""
    for function in _functions(file):
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > FUNCTION_LINES_MAX:
            yield f"{function.name} has {count} lines, more than {FUNCTION_LINES_MAX}"


def no_markers(file: SourceFile) -> Iterator[str]:
    """Open work is recorded in issues, not in the code."""
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := MARKERS.search(line):
            yield f"line {number}: {found[0]}"


def opening_docstring(file: SourceFile) -> Iterator[str]:
    """Every module has a docstring; only an empty ``__init__.py`` of tests needs none."""
    if file.is_python and (file.is_product or file.tree.body) and not file.docstring:
        yield "no docstring at its top: what does it do, and which invariant does it keep?"


def documented_names(file: SourceFile) -> Iterator[str]:
    """Public classes have docstrings, and so have functions and methods of what programs import.

    But a class leaves out those that a class has which it derives from or names: "See `Fs`" would only hide from `help`
    what `Fs` says. Elsewhere a function has a docstring where it says more than its name.
    """
    if not file.is_product:
        return
    classes = list(_public_classes(file))
    if file.path.startswith(IMPORTED):
        bodies: list[Sequence[ast.stmt]] = [
            file.tree.body,
            *(each.body for each in classes if _speaks_for_itself(each)),
        ]
    else:
        bodies = [classes]
    for node in (node for body in bodies for node in body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _needs_docstring(node):
            yield f"line {node.lineno}: {node.name} has no docstring"


def cited_source(file: SourceFile) -> Iterator[str]:
    """A module that implements a rule cites its KIP, issue, class, paper or ADR; a test does if its module does not."""
    is_module = file.is_product and file.path.startswith(MUST_CITE) and not file.path.endswith("__init__.py")
    if file.path in OURS or not (is_module or TESTS_MUST_CITE.fullmatch(file.path)):
        return
    tested = ROOT / "src/pykraft" / re.sub(r"^tests/|test_(?=\w+[.]py$)", "", file.path)
    if "Source:" not in file.docstring and (is_module or not tested.is_file() or "Source:" not in tested.read_text()):
        yield "its docstring has no `Source:` line"


def injected_randomness(file: SourceFile) -> Iterator[str]:
    """One seed determines everything, so no code uses the global random generator."""
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


HAS_COMPILED_BASE = "src/pykraft/sim/invariants/watch.py"
"""It makes its hooks at run time, which no subclass of a compiled class can do (ADR 116)."""


def imports_at_run_time(file: SourceFile) -> Iterator[str]:
    """A module imports what it names: an import for the type checker alone may hide a circle.

    Nothing but that ever needs one in the simulator, except for a base class that may be compiled. There and elsewhere
    a comment on the line gives the reason.
    """
    if not file.is_python:
        return
    is_simulator = file.path.startswith("src/pykraft/sim/") and file.path != HAS_COMPILED_BASE
    lines = file.text.splitlines()
    for node in ast.walk(file.tree):
        match node:
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                if is_simulator or "TYPE_CHECKING:  # " not in lines[node.lineno - 1]:
                    yield f"line {node.lineno}: TYPE_CHECKING"
            case _:
                pass


def meaning_by_value(file: SourceFile) -> Iterator[str]:
    """Code decides by kinds, codes and fields; a text is for people, and can be reworded without another change.

    Parsers read text by trade: they are named so. `READ_TEXT` has the modules that read what other programs write.
    """
    if not file.is_product or file.path in READ_TEXT:
        return
    parsing = {id(inner) for each in _functions(file) if PARSERS.match(each.name) for inner in ast.walk(each)}
    for node in ast.walk(file.tree):
        if id(node) not in parsing and _reads_message(node, has_reports=file.path.startswith(MAKE_REPORTS)):
            yield f"line {node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def no_skips_or_sleeps(file: SourceFile) -> Iterator[str]:
    """A test never skips and never sleeps; it waits for a condition, and fails if something is missing."""
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
    """A class name says what the class is; a function's name, what it does or returns, with one meaning everywhere."""
    if not file.is_python:
        return
    for node in ast.walk(file.tree):
        match node:
            case ast.ClassDef(name=name) if vague := VAGUE_NAMES.search(name):
                yield f"line {node.lineno}: {name}: what does a {vague[0]} do?"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.strip("_") in BETTER_NAMES:
                yield f"line {node.lineno}: {name}: {BETTER_NAMES[name.strip('_')]}?"
            case ast.arg(arg=name) if name in CALLABLES:
                yield f"line {node.lineno}: {name}: {BETTER_NAMES[name]}?"
            case _:
                pass


def present_names(file: SourceFile) -> Iterator[str]:
    """Kafka's terms win, and of two the current one."""
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
    """A message says "is not a directory", and counts with `pykraft.text.words.counted`."""
    if not file.is_product:
        return
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := STILTED.search(line):
            yield f"line {number}: {found[0]!r}"


def tests_in_test_files(file: SourceFile) -> Iterator[str]:
    """A file named ``test_*.py`` contains at least one test."""
    if not (file.is_test and file.path.rpartition("/")[2].startswith("test_")):
        return
    if not any(name.lower().startswith("test") for name in _top_names(file)):
        yield "it contains no test"


def no_machine_paths(file: SourceFile) -> Iterator[str]:
    """No file depends on where one machine keeps its files."""
    yield from _lines_with(MACHINE_PATHS, file)


def no_registry_hosts(file: SourceFile) -> Iterator[str]:
    """The reader's tools decide which package registry they use; the locks hold hashes and no hosts."""
    yield from _lines_with(REGISTRY_HOSTS, file)


def no_private_references(file: SourceFile) -> Iterator[str]:
    """A citation names something that every reader can look up."""
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
    meaning_by_value,
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


def _reads_message(node: ast.AST, *, has_reports: bool) -> bool:
    """True for a comparison of a message with text, and in `MAKE_REPORTS` for a search of it."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="startswith" | "endswith")):
            return _is_message(value)
        case ast.Call(func=ast.Attribute(attr="match" | "search" | "fullmatch" | "findall"), args=args):
            return has_reports and any(map(_is_message, args))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return _is_message(right) and (_is_text(left) or isinstance(right, ast.Call))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return (_is_message(left) and _is_text(right)) or (_is_text(left) and _is_message(right))
        case _:
            return False


def _is_message(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_") in MESSAGE_NAMES
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return name in ERROR_NAMES
        case _:
            return False


def _is_text(node: ast.expr) -> bool:
    """A literal that is not empty, or a constant."""
    match node:
        case ast.Constant(value=str(value)):
            return bool(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case _:
            return isinstance(node, ast.JoinedStr)


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
    """The names of functions, classes and variables of the module."""
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


def _speaks_for_itself(node: ast.ClassDef) -> bool:
    """Whether no other class documents its methods: none that it derives from, and none that its docstring names."""
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    return bases <= NOTHING_INHERITED and not NAMED_CLASS.search(ast.get_docstring(node) or "")


def _needs_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """True unless it is private, has a docstring, or overrides something that has one."""
    inherited = {each.id for each in node.decorator_list if isinstance(each, ast.Name)} & {"override", "overload"}
    return not (node.name.startswith("_") or inherited or ast.get_docstring(node))


def _lines_with(pattern: re.Pattern[str], file: SourceFile) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := pattern.search(line):
            yield f"line {number}: {found[0]}"
