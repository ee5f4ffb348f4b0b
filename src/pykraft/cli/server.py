"""`pykraft server`: run a node, as Kafka's test server does, with its options and property names.

Owns the reading of the properties file, the log of the process (standard error), and what options say instead of
properties. The node is imported only when it is to run: ``--help`` and a bad property do not wait for it.

Source: Kafka's ``TestRaftServer`` (options and their defaults).
"""

from __future__ import annotations

import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from pykraft.config import NodeConfig
from pykraft.errors import ConfigError, UsageError
from pykraft.properties import node_config, parse_properties
from pykraft.types import Uuid, uuid_parse

CONFIG_SIZE_BYTES_MAX = 1024 * 1024
LEVELS = ("debug", "info", "warning", "error")

logger = logging.getLogger("pykraft")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (wall ms), level, message."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        fields = {"wall_ms": int(record.created * 1_000), "level": record.levelname, "message": record.getMessage()}
        return json.dumps(fields)


@click.command()
@click.option("--config", "config_path", required=True, type=click.Path(path_type=Path), help="Kafka properties file.")
@click.option("--replica-directory-id", help="Directory id; by default the one in meta.properties, or a new one.")
@click.option("--throughput", default=5_000, show_default=True, help="Records a second while leading; -1 is no limit.")
@click.option("--record-size", default=256, show_default=True, help="Bytes of each record.")
@click.option("--cluster-id", help="Cluster id; by default that of Kafka's test server.")
@click.option("--ack-fd", type=int, help="Descriptor that gets a JSON line for each acknowledgement.")
@click.option("--no-workload", is_flag=True, help="Write no records of its own while leading.")
@click.option("--loop", type=click.Choice(["auto", "uvloop", "asyncio"]), default="auto", show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def server(  # noqa: PLR0913 - one argument for each option
    *,
    config_path: Path,
    replica_directory_id: str | None,
    throughput: int,
    record_size: int,
    cluster_id: str | None,
    ack_fd: int | None,
    no_workload: bool,
    loop: str,
    log_level: str,
    log_format: str,
) -> None:
    """Run a node; while it leads it writes a steady load. SIGTERM hands leadership over and ends it."""
    from pykraft.server.run import ServerOptions, serve
    from pykraft.server.workload import Load

    _set_up_logging(log_level, log_format)
    config = _read_config(config_path, replica_directory_id, cluster_id)
    load = None if no_workload else Load(records_per_s=throughput, record_size_bytes=record_size)
    serve(config, ServerOptions(load=load, ack_descriptor=ack_fd, loop=loop))


def _read_config(path: Path, directory_id: str | None, cluster_id: str | None) -> NodeConfig:
    """The file's configuration with what the command line says instead.

    Errors: UsageError for an unreadable file, ConfigError for a bad value.
    """
    parsed = node_config(parse_properties(_read_text(path)))
    for warning in parsed.warnings:
        logger.warning(warning)
    config = parsed.config
    if directory_id is not None:
        config = replace(config, directory_id=_parse_directory_id(directory_id))
    if cluster_id is not None:
        if not re.fullmatch(r"[\w.-]{1,255}", cluster_id, re.ASCII):
            raise ConfigError("--cluster-id", cluster_id, "1 to 255 letters, digits, '_', '-' and '.'")
        config = replace(config, cluster_id=cluster_id)
    return config


def _read_text(path: Path) -> str:
    """A text file in UTF-8, or in Latin-1 as Java reads it. Errors: UsageError."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_SIZE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from error
    if len(content) > CONFIG_SIZE_BYTES_MAX or b"\0" in content:
        raise UsageError(f"--config {path}: a properties file is text of at most {CONFIG_SIZE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _parse_directory_id(text: str) -> Uuid:
    try:
        return uuid_parse(text)
    except UsageError as error:
        raise ConfigError("--replica-directory-id", text, "22 characters of URL-safe base64 (16 bytes)") from error


def _set_up_logging(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
