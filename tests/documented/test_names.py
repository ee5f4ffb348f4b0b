"""docs/api.md lists the public names with the first sentence of each docstring; `pytest --rewrite` updates it.

The sources are read, not imported, since Spark is not in every environment.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import pykraft.client
import pykraft.machine
import pykraft.machine.testing
import pykraft.recipes
from tests.tidy.repository import ROOT

PAGE = ROOT / "docs" / "api.md"
SOURCES = ROOT / "src"
MODULES: dict[str, tuple[str, ...]] = {
    "pykraft.client": tuple(pykraft.client.__all__),
    "pykraft.machine": tuple(pykraft.machine.__all__),
    "pykraft.machine.testing": tuple(pykraft.machine.testing.__all__),
    "pykraft.recipes": tuple(pykraft.recipes.__all__),
    "pykraft.config": ("RaftConfig", "LogSettings", "NodeConfig"),
    "pykraft.config.properties": ("node_config", "ParsedConfig", "parse_properties"),
    "pykraft.errors": (),  # all of its exceptions
    "pykraft.spark.source": ("read", "register", "PykraftDataSource"),
    "pykraft.spark.pipeline.run": ("start_pipeline", "PipelineOptions"),
    "pykraft.spark.pipeline.figures": ("read_run", "report_figures", "PipelineRun"),
    "pykraft.spark.pipeline.query_metrics": ("served_metrics",),
    "pykraft.spark.metadata.frames": ("table_frame", "records_of_type"),
}


@cache
def tree(module: str) -> ast.Module:
    path = SOURCES.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(module: str) -> Iterator[ast.stmt]:
    """Of the module itself, and of what it imports for type checkers alone."""
    for node in tree(module).body:
        yield from node.body if isinstance(node, ast.If) else (node,)


def docstring(module: str, name: str) -> str:
    """The docstring of a class, a function or a variable, where it is defined."""
    after: ast.stmt | None = None
    for node in statements(module):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                return ast.get_docstring(node) or ""
            case ast.ImportFrom(module=str(origin)) if name in {alias.asname or alias.name for alias in node.names}:
                return docstring(origin, name)
            case ast.Expr(value=ast.Constant(value=str(text))) if _assigns(after, name):
                return text
            case _:
                after = node
    raise AssertionError(f"{module} has no {name} with a docstring")


def _assigns(node: ast.stmt | None, name: str) -> bool:
    match node:
        case ast.AnnAssign(target=ast.Name(id=target)) | ast.Assign(targets=[ast.Name(id=target)]):
            return target == name
        case _:
            return False


def exceptions() -> Iterator[str]:
    for node in tree("pykraft.errors").body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
            yield node.name


def table() -> str:
    lines = []
    for module, given in MODULES.items():
        names = given or tuple(exceptions())
        lines += [f"## {module}", "", "| name | what it is |", "|---|---|"]
        for name in names:
            first = re.split(r"(?<=[.!?])\s", docstring(module, name).strip().replace("\n", " "), maxsplit=1)[0]
            text = re.sub(r"``?([^`]+)``?", r"`\1`", re.sub(r"\s+", " ", first)).replace("|", "\\|")
            lines.append(f"| `{name}` | {text} |")
        lines.append("")
    return "\n".join(lines)


def test_the_page_of_names_has_every_public_name(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition("<!-- names -->\n")
    expected = f"{head}<!-- names -->\n\n{table()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        PAGE.write_text(expected, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected


def test_every_import_of_a_program_on_a_page_is_a_public_name() -> None:
    public = {module: set(names or exceptions()) for module, names in MODULES.items()}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for module, names in re.findall(r"^from (pykraft\.\S+) import (.+)$", text, re.MULTILINE):
            assert set(names.split(", ")) <= public.get(module, set()), f"{path.name}: {module}"


def test_a_variable_has_its_docstring_below_it() -> None:
    assert docstring("pykraft.client", "text_serde") == "Records are text, in UTF-8."
    with pytest.raises(AssertionError, match="has no nothing"):
        docstring("pykraft.errors", "nothing")


def test_the_page_is_where_readers_look() -> None:
    assert "api.md" in Path(ROOT / "mkdocs.yml").read_text(encoding="utf-8")
