"""The repository keeps its own rules, and each rule finds what was planted for it and lets its innocent twin pass.

The rules are in ``tests/tidy``; what a rule is for stands in its docstring. This file plants what it forbids, and is
therefore the one file that the rules do not read.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tidy.file_rules import FILE_RULES, FileRule
from tests.tidy.repository import ROOT, SourceFile, files
from tests.tidy.tree_rules import BUDGETS_PATH, TREE_RULES, TreeRule

HERE = str(Path(__file__).relative_to(ROOT))
JUDGED = [file for file in files() if file.path != HERE]

CODE = "src/pykraft/code.py"
IMPORTED = "src/pykraft/client/code.py"
SIMULATED = "src/pykraft/sim/code.py"
TEST = "tests/test_code.py"
ROOTED = "/"
DOT = "."
HOST = f"pypi{DOT}org"

FORMERLY_BY_TEXT = (
    "if text.startswith(BEGINS): ...",
    "if FAILED in text and node_id in begun: ...",
    "blames = text.startswith(CLOSING) or GIVEN_UP in text",
    "if not text.startswith(SnapshotAccess.WRITE.value[0]): ...",
    "if text.startswith('voter ') and ' fetches from offset ' in text: ...",
    "if not told.startswith(f'truncating the log from {end} to {job.end_offset}: '): ...",
    "if text == HAS_RESIGNED: ...",
    "return text is not None and MAY_BE_MADE_YET in text",
    "kept = 2 if self.reason.startswith('ViolationError') else 1",
)
"""Lines by which oracles, the core and the admin client once recognized what had happened."""

# rule: (path, guilty text, innocent text)
PLANTED_FILES: dict[str, Sequence[tuple[str, str, str]]] = {
    "short_files": [(CODE, "a = 1\n" * 601, "a = 1\n" * 600)],
    "short_functions": [
        (CODE, "def f():\n" + "    a = 1\n" * 70, "def f():\n" + "    a = 1\n" * 69),
        (CODE, "class C:\n    async def f(self):\n" + "        a = 1\n" * 70, "a = 1\n" * 71),
    ],
    "no_markers": [
        (CODE, "# TODO: later", "# Todos are issues"),
        ("justfile", "# FIXME", "# fixed"),
        (CODE, "raise NotImplementedError", "raise TypeError"),
        (CODE, "# HACK", "# HACKS are not"),
        (CODE, "# XXX", "# XXXL"),
    ],
    "opening_docstring": [
        (CODE, "a = 1", '"""What it owns."""\na = 1'),
        (TEST, "a = 1", ""),
        ("src/pykraft/code/__init__.py", "", '"""What is in it."""'),
    ],
    "documented_names": [
        (IMPORTED, "def f(): ...", "def _f(): ..."),
        (CODE, "class C:\n    a = 1", "class _C:\n    def f(self): ..."),
        (
            IMPORTED,
            "class C:\n    'C.'\n    def f(self): ...",
            "class C:\n    'C.'\n    @override\n    def f(self): ...",
        ),
        (IMPORTED, "async def f(): ...", "async def f():\n    'Do it.'"),
        (
            IMPORTED,
            "class C(Protocol):\n    'C.'\n    def f(self): ...",
            "class C(Fs):\n    'C.'\n    def f(self): ...",
        ),
        (IMPORTED, "class C:\n    'See `f`.'\n    def f(self): ...", "class C:\n    'A `a.Fs`.'\n    def f(self): ..."),
    ],
    "cited_source": [
        ("src/pykraft/core/on/code.py", '"""Vote."""', '"""Vote.\n\nSource: KIP-595 §Vote.\n"""'),
        ("src/pykraft/rpc/code.py", "a = 1", '"""Vote.\n\nSource: KIP-595 §Vote.\n"""'),
        ("tests/core/on/test_code.py", '"""Vote."""', '"""Vote.\n\nSource: ours (ADR 001).\n"""'),
        ("tests/log/offline/test_code.py", '"""Dump."""', '"""Dump.\n\nSource: KIP-595.\n"""'),
    ],
    "injected_randomness": [
        (CODE, "import random\nrandom.randrange(2)", "import random\nrandom.Random(1).randrange(2)"),
        (CODE, "from random import choice", "from random import Random"),
    ],
    "imports_at_run_time": [
        (SIMULATED, "if TYPE_CHECKING:  # slow to import\n    import b", "import b"),
        (CODE, "if TYPE_CHECKING:\n    import b", "if TYPE_CHECKING:  # slow to import\n    import b"),
        (SIMULATED, "if typing.TYPE_CHECKING:\n    import b", "a = 'TYPE_CHECKING'"),
    ],
    "meaning_by_value": [
        *((CODE, guilty, "if report.kind is ReportKind.TWIN: ...") for guilty in FORMERLY_BY_TEXT),
        (SIMULATED, "if SAID.match(text): ...", "if FORM.match(name): ..."),
        (CODE, "text.endswith('?')", "name.endswith('.log')"),
        (CODE, "if text != HAS_RESIGNED: ...", "if text != '': ..."),
        (CODE, "if 'a' not in self._reason: ...", "if node_id not in self._told: ..."),
        (CODE, "def f(text): return text == 'max'", "def parse_throughput(text): return text == 'max'"),
        (CODE, "if NO_ROOM in str(error): ...", "if error.errno == ENOSPC: ..."),
    ],
    "no_skips_or_sleeps": [
        (TEST, "time.sleep(1)", "clock.sleep(1)"),
        (TEST, "async def f():\n    await asyncio.sleep(0)", "async def f():\n    await asyncio.wait_for(g(), 1)"),
        (TEST, "@pytest.mark.skip\ndef test(): ...", "@pytest.mark.kafka\ndef test(): ..."),
        (TEST, "pytest.importorskip('pyspark')", "import pyspark"),
    ],
    "telling_names": [
        (CODE, "class LogManager: ...", "class Log: ..."),
        (TEST, "class FsBase: ...", "class Fs: ..."),
        (CODE, "def look(): ...", "def poll(): ..."),
        (CODE, "async def _tell(): ...", "async def _report(): ..."),
        (TEST, "def told() -> list[int]: ...", "def sent() -> list[int]: ..."),
        (TEST, "class Log:\n    def found(self): ...", "class Log:\n    def damage(self, found): ..."),
        (CODE, "def run(tell): ...", "def run(report): ..."),
        (CODE, "def hear(): ...", "def receive(told): ..."),
    ],
    "present_names": [
        (CODE, "# voters that endorse the leader", "# voters that acknowledge the leader"),
        ("README.md", "Kafka Raft (Self-managed mode)", "Kafka Raft (KRaft), which each node manages itself"),
    ],
    "numbered_steps": [
        (
            CODE,
            "def f():\n    '''Do.\n\n    1. One.\n    2. Two.\n    '''\n    # 1. First.\n    return 2",
            "def f():\n    '''Do.\n\n    1. One.\n    2. Two.\n    '''\n    # 1. First.\n    return 2  # Step 2.",
        ),
        (
            CODE,
            "'''It.\n\n1. One.\n2. Two.\n'''\ndef f():\n    'Step 1.'",
            "'''It.\n\n1. One.\n2. Two.\n'''\ndef f():\n    'Step 1.'\n    # And 2.",
        ),
    ],
    "plain_words": [
        (CODE, f"a = 'x is no {'directory'}'", "a = 'x is not a directory'"),
        (CODE, "a = f'{n} other " + "entries'", "a = counted(n, 'other entry', 'other entries')"),
        (CODE, "a = f'{n:,} more damaged " + "places'", "a = counted(n, 'more damaged place')"),
    ],
    "tests_in_test_files": [
        (TEST, "def helped(): ...", "def test_it(): ..."),
        (TEST, "", "TestMachine = Machine.TestCase"),
        (TEST, "class Helped: ...", "async def test_it(): ..."),
    ],
    "no_machine_paths": [
        (CODE, f"path = '{ROOTED}work/main'", "path = '~/tmp/main'"),
        ("README.md", f"cd {ROOTED}root/pykraft", "cd pykraft/root/x"),
        ("bin/tool", f"log={ROOTED}tmp/x", 'log="${TMPDIR}/tmp/x"'),
    ],
    "no_registry_hosts": [
        ("requirements/a.txt", f"https://{HOST}/simple", "a==1"),
        ("pom.xml", f"<url>https://{HOST}</url>", "<packaging>pom</packaging>"),
    ],
    "no_private_references": [(CODE, "# as spec/03 says", "# as KIP-595 says"), ("a.md", "plan.md", "planned")],
}

BODY = "def f():\n    return 1\n"
HASHED = "a==1 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"

# rule: (guilty files, innocent files)
PLANTED_TREES: dict[str, Sequence[tuple[dict[str, str], dict[str, str]]]] = {
    "joined_modules": [
        (
            {"src/pykraft/a/code.py": "from pykraft.a.part import b", "src/pykraft/a/part.py": "b = 1"},
            {"src/pykraft/a/code.py": "from pykraft.a.part import b", "src/pykraft/a/part.py": "b = 1\n" * 600},
        ),
        (
            {"src/pykraft/a/code.py": "from pykraft.a import part", "src/pykraft/a/part.py": "b = 1"},
            {"src/pykraft/a/code.py": "from pykraft.b import part", "src/pykraft/b/part.py": "b = 1"},
        ),
        (
            {"src/pykraft/a/code.py": "import pykraft.a.part", "src/pykraft/a/part.py": "b = 1"},
            {
                "src/pykraft/a/code.py": "import pykraft.a.part",
                "src/pykraft/a/part.py": "b = 1",
                "src/pykraft/a/more.py": "import pykraft.a.part",
            },
        ),
    ],
    "package_budgets": [
        (
            {BUDGETS_PATH: "a = 1", "src/pykraft/a/code.py": "b = 1\n" * 2},
            {BUDGETS_PATH: "a = 1", "src/pykraft/a/code.py": "b = 1\n"},
        ),
        (
            {BUDGETS_PATH: "a = 52", "src/pykraft/a/code.py": "b = 1\n" * 50},
            {BUDGETS_PATH: "a = 51", "src/pykraft/a/code.py": "b = 1\n" * 50},
        ),
        ({"src/pykraft/a/b/code.py": "b = 1\n"}, {BUDGETS_PATH: "tests = 1", TEST: "b = 1\n"}),
        ({BUDGETS_PATH: "gone = 1"}, {}),
    ],
    "no_circles": [
        (
            {f"src/pykraft/{a}.py": f"from pykraft.{b} import x" for a, b in ("ab", "bc", "ca")},
            {f"src/pykraft/{a}.py": f"from pykraft.{b} import x" for a, b in ("ab", "bc")} | {"src/pykraft/c.py": ""},
        ),
        (
            {"src/pykraft/a.py": "def f():\n    import pykraft.b", "src/pykraft/b.py": "import pykraft.a"},
            {"src/pykraft/a.py": "", "src/pykraft/b.py": "import pykraft.a"},
        ),
    ],
    "one_meaning": [
        (
            {CODE: "class State: ...", SIMULATED: "class State: ..."},
            {CODE: "class State: ...", TEST: "class State: ..."},
        ),
        (
            {CODE: "class State: ...", SIMULATED: "State: TypeAlias = int"},
            {CODE: "class _State: ...", SIMULATED: "class _State: ..."},
        ),
        ({CODE: "Row = dict", SIMULATED: "Row = list"}, {CODE: "T = TypeVar('T')", SIMULATED: "T = TypeVar('T')"}),
    ],
    "no_dead_modules": [
        (
            {"src/pykraft/cli/main.py": "", CODE: "a = 1"},
            {"src/pykraft/cli/main.py": "from pykraft.code import a", CODE: "a = 1"},
        ),
        (
            {"src/pykraft/one.py": "import pykraft.two", "src/pykraft/two.py": "import pykraft.one"},
            {"src/pykraft/__main__.py": "load('pykraft.one')", "src/pykraft/one.py": ""},
        ),
        (
            {"src/pykraft/a/__init__.py": "import pykraft.b", "src/pykraft/b.py": ""},
            {"src/pykraft/a/__init__.py": "'Nothing but prose.'"},
        ),
        ({"bin/tool": "-m tests.code", CODE: "a = 1"}, {"bin/tool": "exec python -m pykraft.code", CODE: "a = 1"}),
    ],
    "mirrored_tests": [
        ({CODE: BODY}, {CODE: BODY, TEST: ""}),
        ({"src/pykraft/a/code.py": BODY, TEST: ""}, {"src/pykraft/a/code.py": BODY, "tests/a/test_code.py": ""}),
        ({"src/pykraft/a/__init__.py": BODY}, {"src/pykraft/a/__init__.py": "class P:\n    def f(self) -> int: ...\n"}),
    ],
    "locked_requirements": [
        ({"uv.lock": ""}, {"requirements/a.txt": HASHED}),
        ({"requirements/a.txt": "a==1\nb==2\n"}, {"requirements/a.txt": HASHED}),
        (
            {"requirements/a.txt": HASHED, "requirements/b.txt": HASHED.replace("==1", "==2")},
            {"requirements/a.txt": HASHED, "requirements/b.txt": HASHED},
        ),
        (
            {"requirements/a.txt": HASHED, "pyproject.toml": "[project]\ndependencies = ['a>=1', 'B_c[x]>=2']"},
            {"requirements/a.txt": HASHED, "pyproject.toml": "[project]\ndependencies = ['A>=1']"},
        ),
    ],
}


@pytest.mark.conformance("H27", "H59", "H74")
@pytest.mark.parametrize("rule", FILE_RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps(rule: FileRule) -> None:
    complaints = [f"{file.path}: {complaint}" for file in JUDGED for complaint in rule(file)]
    assert not complaints, f"{rule.__doc__}\n" + "\n".join(complaints)


@pytest.mark.parametrize("rule", TREE_RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps(rule: TreeRule) -> None:
    complaints = list(rule(JUDGED))
    assert not complaints, f"{rule.__doc__}\n" + "\n".join(complaints)


@pytest.mark.conformance("H27", "H59", "H74")
@pytest.mark.parametrize("rule", FILE_RULES, ids=lambda rule: rule.__name__)
def test_what_is_planted_in_a_file_is_found(rule: FileRule) -> None:
    for path, guilty, innocent in PLANTED_FILES[rule.__name__]:
        assert list(rule(SourceFile(path, guilty))), guilty
        assert not list(rule(SourceFile(path, innocent))), innocent


@pytest.mark.parametrize("name", PLANTED_TREES)
def test_what_is_planted_in_the_tree_is_found(name: str) -> None:
    rule = next(each for each in TREE_RULES if each.__name__ == name)
    for guilty, innocent in PLANTED_TREES[name]:
        assert list(rule([SourceFile(path, text) for path, text in guilty.items()])), guilty
        assert not list(rule([SourceFile(path, text) for path, text in innocent.items()])), innocent


def test_exceptions_that_nothing_needs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(each for each in TREE_RULES if each.__name__ == "no_idle_exceptions")
    for table in ("TABLES", "APART", "SAME_NAMES", "ENTRY_POINTS", "TESTED_ELSEWHERE"):
        monkeypatch.setattr(f"tests.tidy.tree_rules.{table}", {})
    code, test = SourceFile(CODE, BODY), SourceFile(TEST, "")
    assert not list(rule([code, test]))
    monkeypatch.setattr("tests.tidy.tree_rules.TABLES", {"pykraft.gone": "many"})
    monkeypatch.setattr("tests.tidy.tree_rules.APART", {"pykraft.code": "apart once"})
    monkeypatch.setattr("tests.tidy.tree_rules.SAME_NAMES", {"State": "was two things once"})
    monkeypatch.setattr("tests.tidy.tree_rules.ENTRY_POINTS", {"pykraft.gone": "was started once"})
    monkeypatch.setattr("tests.tidy.tree_rules.TESTED_ELSEWHERE", {"pykraft.code": "elsewhere"})
    assert len(list(rule([code, test]))) == 5


def test_every_rule_was_tried_and_says_what_it_is_for() -> None:
    assert set(PLANTED_FILES) == {rule.__name__ for rule in FILE_RULES}
    assert set(PLANTED_TREES) | {"no_idle_exceptions"} == {rule.__name__ for rule in TREE_RULES}
    assert all(rule.__doc__ for rule in (*FILE_RULES, *TREE_RULES))


def test_the_repository_is_read_whole() -> None:
    paths = {file.path for file in files()}
    assert {"pyproject.toml", "src/pykraft/types.py", "bin/_environment", HERE} <= paths
    assert not any(path.startswith("tests/golden/") for path in paths)
    assert all(isinstance(file.tree, ast.Module) for file in files() if file.is_python)
