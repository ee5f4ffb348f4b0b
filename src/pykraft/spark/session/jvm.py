"""Runs Spark's Java process as a child of ours: starts it early, connects later, and ends it with the block.

If PySpark starts it, nobody can end it before it is connected, and its temporary files stay when it is killed.
Invariant: it never outlives us, since it exits at the end of a pipe that only we can write to. It has a process group
of its own, which a terminal's Ctrl-C does not reach.

Source: PySpark's ``launch_gateway``; Spark's ``PythonGatewayServer``, which reports its port (int32) and its secret
(int32 length, UTF-8) in a file, big-endian.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pykraft.local.child import Child, Children, wait_until
from pykraft.process.signals import handlers_restored
from pykraft.spark.session.local import open_session, prepare_environment

if TYPE_CHECKING:  # an extra, and slow to import
    from pyspark.sql import SparkSession

START_TIMEOUT_S = 180.0
SOCKET_FOLDER_SIZE_BYTES_MAX = 60
"""The path of a socket has at most 104 bytes on macOS, 108 on Linux; its name has 42 in the folder."""
_INT = struct.Struct(">i")


class Jvm:
    """Spark's process."""

    def __init__(self, children: Children, folder: Path, settings: Mapping[str, str], *, is_quiet: bool = True) -> None:
        """Start it with these session properties; ``folder`` gets its temporary files and, if ``is_quiet``, its log.

        Errors: UsageError without a Java runtime.
        """
        from pyspark.find_spark_home import _find_spark_home

        is_local = settings["spark.master"].startswith("local")
        sends_archives = not settings["spark.master"].startswith(("local", "spark://"))
        prepare_environment(is_local=is_local, sends_archives=sends_archives)
        folder.mkdir()
        java_options = f'{settings["spark.driver.extraJavaOptions"]} "-Djava.io.tmpdir={folder}"'
        # The folders of a cluster's executors are the cluster's business.
        folders = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder)} if is_local else {}
        # The sockets to Python processes are files in the folder, which are quicker than ports.
        if is_local and len(os.fsencode(folder)) <= SOCKET_FOLDER_SIZE_BYTES_MAX:
            folders |= {"spark.python.unix.domain.socket.enabled": "true"}
        self._settings = {**folders, **settings, "spark.driver.extraJavaOptions": java_options}
        environment = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway")}
        if not is_local and "spark.local.dir" not in settings:
            environment["SPARK_LOCAL_DIRS"] = os.environ.get("SPARK_LOCAL_DIRS", str(folder))
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._way = folder / "gateway"
        confs = [word for key, value in self._settings.items() for word in ("--conf", f"{key}={value}")]
        submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
        reading, self._life = os.pipe()
        try:
            self.process: Child = children.start(
                "Spark",
                [submit, *confs, *words],
                folder / "spark.log" if is_quiet else None,
                environment=environment,
                stdin=reading,
                has_group=True,  # the shell scripts that start Java have other processes of their own
            )
        finally:
            os.close(reading)

    def session(self) -> SparkSession:
        """Wait until it serves, then open the session. Errors: LocalQuorumError if it has ended; errors of Spark."""
        port, secret = wait_until(self._read_way, "Spark to start", timeout_s=START_TIMEOUT_S, alive=[self.process])
        gateway = _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
        # Spark would set a handler of its own, which talks to the Java process before it raises.
        with gateway, handlers_restored([signal.SIGINT]):
            spark = open_session(self._settings)
        spark.sparkContext._accumulatorServer.handle_error = _say_nothing  # noqa: SLF001 - it would print a traceback
        return spark

    def close(self) -> None:
        """Let it exit by itself; the end of its block does not wait for that."""
        os.close(self._life)

    def _read_way(self) -> tuple[int, str] | None:
        try:
            told = self._way.read_bytes()
        except FileNotFoundError:
            return None
        if len(told) < 2 * _INT.size:
            return None
        (port,), (size_bytes,) = _INT.unpack_from(told), _INT.unpack_from(told, _INT.size)
        secret = told[2 * _INT.size :]
        return (port, secret.decode()) if len(secret) == size_bytes else None


def _say_nothing(request: object, address: object) -> None:
    """Suppress log lines about connections that break when the process ends."""


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
