"""Packs this package into one file that Spark sends to its workers: for ``spark-submit --py-files`` and `session_at`.

Invariant: the same sources give the same bytes, so a file with the right name is complete and need not be rebuilt. The
dependencies (numpy, pyarrow, crc32c) are not in it: the workers' Python must have them.

Source: Spark's "Python Package Management" (PySpark native features).
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from contextlib import suppress
from pathlib import Path

import pykraft
from pykraft.errors import StorageError

SOURCES = Path(pykraft.__file__).resolve().parent
SPARK_FINDS = SOURCES.parent / "pyspark_pykraft"
"""The module by whose name Spark finds the source."""
BEGIN_OF_TIME = (1980, 1, 1, 0, 0, 0)


def write_package(path: Path) -> None:
    """Write the package to this file. Errors: StorageError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as package:
            for name, content in _files():
                package.writestr(zipfile.ZipInfo(name, BEGIN_OF_TIME), content, zipfile.ZIP_DEFLATED)
        fresh.replace(path)
    except OSError as error:
        raise StorageError(path, f"cannot be written: {error.strerror}") from error
    finally:
        # It is still there only if this failed or was interrupted; and where no file can be, there is none to remove.
        with suppress(OSError):
            fresh.unlink()


def cached_package(folder: Path) -> Path:
    """The package in this folder, named by its content; built if it does not exist. Errors: StorageError."""
    content = hashlib.sha256()
    for name, data in _files():
        content.update(f"{name}\0{len(data)}\0".encode())
        content.update(data)
    path = folder / f"pykraft-{pykraft.__version__}-{content.hexdigest()[:16]}.zip"
    if not path.exists():
        write_package(path)
    return path


def _files() -> list[tuple[str, bytes]]:
    """Names and contents of the files: all sources, without Python's caches."""
    found = (path for folder in (SOURCES, SPARK_FINDS) for path in folder.rglob("*"))
    paths = sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return [(str(path.relative_to(SOURCES.parent)), path.read_bytes()) for path in paths]
