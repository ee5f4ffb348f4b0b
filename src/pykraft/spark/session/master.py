"""Opens a Spark session locally or at a cluster, with the user's properties.

On a cluster the executors get this package from us, in one file that is also for ``spark-submit --py-files``; the same
sources give the same bytes. They run the Python that `PYSPARK_PYTHON` names, by default ours. Spark's Java process
warns at each start about a module that Spark itself requests, on the standard error that it inherited; `without_lines`
replaces that with a pipe, which passes on every other line.

Invariant: a user's property overrides ours; for lists both are combined.

Source: Spark's "Submitting Applications" (master URLs, ``--conf``) and "Python Package Management"; POSIX ``dup2``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING

import pykraft
from pykraft.errors import PykraftError, StorageError, UsageError
from pykraft.local.child import Children, temporary_folder
from pykraft.process.extras import cache_folder
from pykraft.spark.session.jvm import Jvm
from pykraft.spark.session.local import DAEMON, TASK_TRIES, session_settings

SOURCES = Path(pykraft.__file__).resolve().parent
SPARK_FINDS = SOURCES.parent / "pyspark_pykraft"
"""The module by whose name Spark finds the source."""
BEGIN_OF_TIME = (1980, 1, 1, 0, 0, 0)


ERROR_FD = 2
LOCAL = re.compile(r"local(?:\[(?P<cores>[0-9]+|\*)\])?")
"""Without a number of tries; a URL with one is used unchanged."""
MASTER = re.compile(r"local(\[.*\])?|spark://.+|yarn|k8s://.+")
PY_FILES, JAVA_OPTIONS = "spark.submit.pyFiles", "spark.driver.extraJavaOptions"
OURS_ONLY_HERE = ("spark.driver.host", "spark.driver.bindAddress", DAEMON)
"""The daemon of a cluster's executors starts before they have this package."""
NOTHING: Mapping[str, str] = MappingProxyType({})
GONE = "Spark's Java process has ended; finished micro-batches are kept, and the next run continues after them"
NOWHERE = logging.NullHandler()
"""Added to the root logger: py4j logs a traceback when Java objects are given back to a process that has ended."""
NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector",)


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
    found = (path for folder in (SOURCES, SPARK_FINDS) for path in folder.rglob("*"))
    paths = sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return [(str(path.relative_to(SOURCES.parent)), path.read_bytes()) for path in paths]


@contextmanager
def without_lines(unwanted: Sequence[bytes]) -> Iterator[None]:
    """Within this block file descriptor 2 is such a pipe. Use it only while no other thread starts processes."""
    sys.stderr.flush()
    real = os.dup(ERROR_FD)
    reading, writing = os.pipe()
    os.dup2(writing, ERROR_FD)
    os.close(writing)
    Thread(target=_pass_on, args=(reading, real, frozenset(unwanted)), name="standard error", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, ERROR_FD)


def _pass_on(reading: int, real: int, unwanted: frozenset[bytes]) -> None:
    with os.fdopen(reading, "rb") as lines, os.fdopen(real, "wb", buffering=0) as out:
        for line in lines:
            if line.rstrip() not in unwanted:
                out.write(line)


if TYPE_CHECKING:  # an extra, and slow to import
    from pyspark.sql import SparkSession


def parse_conf(given: Iterable[str]) -> dict[str, str]:
    """Parse ``spark.key=value`` texts, as for spark-submit. Errors: UsageError."""
    found: dict[str, str] = {}
    for item in given:
        key, is_there, value = item.partition("=")
        if not is_there or not key.strip().startswith("spark."):
            raise UsageError(f"--conf {item}: it must be a property of Spark and its value: spark.key=value")
        found[key.strip()] = value.strip()
    return found


def settings_at(
    name: str, *, master: str | None = None, conf: Mapping[str, str] = NOTHING, option: str = "--master"
) -> dict[str, str]:
    """Spark's properties for a session; without ``master`` (a Spark master URL) it gets two cores of this machine.

    ``option`` is the command-line option that gave the master. Errors: UsageError for an invalid one; StorageError.
    """
    master = conf.get("spark.master") if master is None else master
    settings = session_settings(name)
    if master is not None:
        settings["spark.master"] = _with_tries(master, option)
    given = {key: value for key, value in conf.items() if key != "spark.master"}
    if not _is_local(master):
        for key in OURS_ONLY_HERE:
            del settings[key]
        settings[PY_FILES] = str(cached_package(cache_folder()))
        if PY_FILES in given:
            given[PY_FILES] = f"{settings[PY_FILES]},{given[PY_FILES]}"
    if JAVA_OPTIONS in given:
        given[JAVA_OPTIONS] = f"{settings[JAVA_OPTIONS]} {given[JAVA_OPTIONS]}"
    return settings | given


@contextmanager
def session_at(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with these `settings_at` and the source registered; stopped at the end of the block.

    If the block is interrupted, Spark's processes are killed instead, which is quick and safe at any moment.

    Errors: UsageError without a Java runtime; PykraftError if Spark's Java process ends before the block does.
    """
    from py4j.protocol import Py4JNetworkError

    logging.getLogger().addHandler(NOWHERE)
    with temporary_folder("pykraft-spark-") as folder, Children() as children:
        with without_lines(NOISE):
            jvm = Jvm(children, folder / "driver", settings, is_quiet=False)
        spark = jvm.session()
        try:
            yield spark
        except (Py4JNetworkError, ConnectionError) as error:
            raise PykraftError(GONE) from error
        except Exception:
            _stop(spark)
            raise
        _stop(spark)
        jvm.close()


def _stop(spark: SparkSession) -> None:
    """Stop the session, and forget its Java process, so that the next session gets a new one."""
    from py4j.protocol import Py4JNetworkError
    from pyspark import SparkContext

    with suppress(Py4JNetworkError, ConnectionError):
        spark.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - there is no other way


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


def _with_tries(master: str, option: str) -> str:
    """A master URL that retries tasks also in local mode. Errors: UsageError."""
    if not MASTER.fullmatch(master):
        raise UsageError(f"{option} {master}: it must be local[CORES], spark://host:port, yarn or k8s://…")
    here = LOCAL.fullmatch(master)
    return f"local[{here['cores'] or 1},{TASK_TRIES}]" if here else master
