"""`pykraft server`: run a node, with the options and property names of Kafka's test server.

It imports the node only to run it, so that ``--help`` and a bad property answer at once.

Source: Kafka's ``TestRaftServer`` (options and their defaults); ``kafka-server-start`` has ``--override``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pykraft import __version__
from pykraft.cli import config_file
from pykraft.cli.parsing.value import WHOLE, NewFile, NumberType, OneOf
from pykraft.config import NodeConfig
from pykraft.config.properties import with_origins
from pykraft.errors import UsageError

if TYPE_CHECKING:  # imported when the node runs, so that --help is quick
    from pykraft.server.workload import Load

OVERRIDE_VARIABLE: Final = "PYKRAFT_OVERRIDE"
LOG_FILE_MIB: Final = 10
LOG_FILES: Final = 5
LEVELS = ("debug", "info", "warning", "error")

KAFKAS_DEFAULTS: Final = {"throughput": 5_000}
"""Where options have other defaults under the names of Kafka's scripts: Kafka's test server always writes a load."""

logger = logging.getLogger("pykraft")


class JsonFormatter(logging.Formatter):
    """Formats one JSON object per line: time (wall ms), level, message."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {"wall_ms": int(record.created * 1_000), "level": record.levelname, "message": record.getMessage()}
        return json.dumps(fields)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Properties file, as for Kafka; may also be given as FILE.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Property that overrides the file's; may be repeated. PYKRAFT_OVERRIDE holds several, with spaces between.",
)
@click.option("--replica-directory-id", help="Directory id; by default the one in meta.properties, or a new one.")
@click.option(
    "--throughput",
    type=WHOLE,
    help="Write generated records while leading, so many per second; -1 for no limit."
    "  [default: write nothing; 5000 if started by a script of Kafka's name]",
)
@click.option("--record-size", type=WHOLE, help="Size of each generated record, in bytes.  [default: 256]")
@click.option(
    "--cluster-id",
    envvar="PYKRAFT_CLUSTER_ID",
    help="Cluster id; also PYKRAFT_CLUSTER_ID. By default the one in meta.properties, or that of Kafka's test server.",
)
@click.option("--ack-fd", type=WHOLE, help="Write a JSON line for each acknowledgement to this file descriptor.")
@click.option("--no-workload", is_flag=True, help="Write nothing, whatever --throughput says.")
@click.option(
    "--loop",
    type=OneOf(["auto", "uvloop", "asyncio"]),
    default="auto",
    show_default=True,
    help="Event loop; auto is uvloop if it is installed.",
)
@click.option(
    "--log-level", type=OneOf(LEVELS), default="info", show_default=True, help="Log messages of this level and above."
)
@click.option(
    "--log-format", type=OneOf(["text", "json"]), default="text", show_default=True, help="Format of the log."
)
@click.option(
    "--log-file",
    type=NewFile(),
    help="Write the log, and all that goes to standard output and error, to this file of bounded size.",
)
@click.option(
    "--log-file-mib",
    type=NumberType(int, 1, 1_048_576),
    default=LOG_FILE_MIB,
    show_default=True,
    help="Rename the log file to NAME.1 when it has this size in MiB, and begin a new one.",
)
@click.option(
    "--log-files",
    type=NumberType(int, 2, 1_000),
    default=LOG_FILES,
    show_default=True,
    help="Keep this number of log files, the current one included.",
)
@click.option("--clone", type=click.Path(path_type=Path), hidden=True, help="Also look for a relative file here.")
@click.version_option(__version__, "-V", "--version", message="%(version)s")
def server(  # noqa: PLR0913 - one argument for each option
    *,
    file: Path | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    replica_directory_id: str | None,
    throughput: int | None,
    record_size: int | None,
    cluster_id: str | None,
    ack_fd: int | None,
    no_workload: bool,
    loop: str,
    log_level: str,
    log_format: str,
    log_file: Path | None,
    log_file_mib: int,
    log_files: int,
    clone: Path | None,
) -> None:
    """Run a node. SIGTERM hands over the leadership and stops the node.

    With --throughput it writes a steady load while it leads, and takes snapshots, so that old records are deleted.
    """
    from pykraft.server.run import ServerOptions, serve

    if config_path is not None and file is not None:
        raise click.UsageError(f"two configuration files, {config_path} and {file}: give one")
    given = config_path or file
    if given is None:
        raise click.UsageError("the configuration file is missing: give --config FILE")
    load = None if no_workload else _load(throughput, record_size)
    _set_up_logging(_handler(log_file, log_file_mib, log_files), log_level, log_format)
    path = config_file.find_config(given, clone)
    properties = config_file.read_properties(path)
    config_file.override(properties, os.environ.get(OVERRIDE_VARIABLE, "").split(), OVERRIDE_VARIABLE)
    config_file.override(properties, overrides, "--override")
    config = _with_options(config_file.checked_config(properties), replica_directory_id, cluster_id)
    config_file.warn_of_neighbors(config)
    if not config.may_vote:
        logger.info("this node observes topic %s; it never votes or writes", config.topic_name)
    with with_origins(properties):
        serve(config, ServerOptions(load=load, ack_descriptor=ack_fd, loop=loop))


def _load(throughput: int | None, record_size: int | None) -> Load | None:
    from pykraft.server.workload import RECORD_SIZE_BYTES, Load

    if throughput is None:
        if record_size is not None:
            raise UsageError("--record-size needs --throughput: without it the node writes no records")
        return None
    return Load(records_per_s=throughput, record_size_bytes=RECORD_SIZE_BYTES if record_size is None else record_size)


def _with_options(config: NodeConfig, directory_id: str | None, cluster_id: str | None) -> NodeConfig:
    """The configuration with the ids of the command line, or else the cluster id of the log directory.

    Errors: UsageError, CorruptionError.
    """
    if directory_id is not None:
        config = replace(config, directory_id=config_file.parse_directory_id(directory_id))
    return config_file.with_cluster_id(config, cluster_id)


def _handler(path: Path | None, size_mib: int, files_max: int) -> logging.Handler:
    if path is None:
        return logging.StreamHandler(sys.stderr)
    from pykraft.server.log_file import LogFile

    return LogFile(path, size_bytes_max=size_mib * 1024 * 1024, files_max=files_max)


def _set_up_logging(handler: logging.Handler, level: str, form: str) -> None:
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
