"""The files of the repository as the rules see them: path, text and, for Python, the syntax tree.

Invariant: the rules judge the files that git tracks or would add, so a file is judged before it is committed, and files
that tools leave behind never are. Recorded bytes (``tests/golden``) are not prose and are left out.
"""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = "tests/golden/"
LEFT = (
    *(".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache", "__pycache__"),
    *("PKG-INFO", "dist", "spark-warehouse"),
)
"""How the names of files and folders begin that tools leave in a source distribution."""


@dataclass(frozen=True)
class SourceFile:
    """One text file; ``path`` is relative to the repository, with slashes."""

    path: str
    text: str

    @property
    def is_python(self) -> bool:
        """True for Python modules and scripts."""
        return self.path.endswith(".py")

    @property
    def is_product(self) -> bool:
        """True for modules of the package and of the laboratory; its measurements are scripts."""
        return self.is_python and self.path.startswith(("src/", "lab/")) and not self.path.startswith("lab/benchmarks/")

    @property
    def is_test(self) -> bool:
        """True for Python under ``tests``."""
        return self.is_python and self.path.startswith("tests/")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return ast.parse(self.text, filename=self.path)

    @property
    def docstring(self) -> str:
        """The module's docstring, or nothing."""
        return ast.get_docstring(self.tree) or ""

    @property
    def module(self) -> str:
        """The dotted name of a module of the product: ``pykraft.log.segment``, ``lab.chaos.run``."""
        parts = PurePosixPath(self.path.removeprefix("src/")).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def imports(self, known: frozenset[str], *, by_name: bool = True) -> frozenset[str]:
        """Those of the ``known`` modules that this one imports, anywhere in it; of a package, the package itself.

        ``by_name``: also those that are loaded by name, as commands are.
        """
        named: set[str] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Import():
                    named |= {alias.name for alias in node.names}
                case ast.ImportFrom(module=str(module)):
                    named |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
                case ast.Constant(value=str(text)) if by_name:
                    named.add(text)
                case _:
                    pass
        return frozenset(named) & known


@cache
def files() -> tuple[SourceFile, ...]:
    """Every text file of the repository."""
    return tuple(_read())


def tracked() -> list[str]:
    """The paths of all files that belong to the repository."""
    if not (ROOT / ".git").exists():  # an unpacked source distribution holds nothing else, but for what tools leave
        return sorted(
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if path.is_file() and not any(part.startswith(LEFT) for part in path.relative_to(ROOT).parts)
        )
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(set(listed.rstrip("\0").split("\0")))


def _read() -> Iterator[SourceFile]:
    for path in tracked():
        if path.startswith(GOLDEN) or not (ROOT / path).is_file():
            continue
        try:
            yield SourceFile(path, (ROOT / path).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
