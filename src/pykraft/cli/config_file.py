"""Finds and reads a node's properties file for a command, logs its warnings, and checks options that identify a node.

Every error and warning says where the value comes from: file and line, or the option. `pykraft.config.properties` knows
the properties.

Source: Kafka's ``StorageTool``, ``TestRaftServer``; KIP-853 (directory ids; the lowest are reserved).
"""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pykraft.config import NodeConfig
from pykraft.config.properties import ParsedConfig, Properties, node_config, parse_properties
from pykraft.config.providers import resolve
from pykraft.errors import UsageError
from pykraft.types import Uuid, uuid_parse


def parse_cluster_id(text: str) -> str:
    """What ``--cluster-id`` says. Errors: UsageError."""
    if not re.fullmatch(r"[\w.-]{1,255}", text, re.ASCII):
        raise UsageError(f"--cluster-id {text!r}: give 1 to 255 letters, digits, '_', '-' and '.'")
    return text


def parse_directory_id(text: str, option: str = "--replica-directory-id") -> Uuid:
    """What this option says. Errors: UsageError."""
    from pykraft.log.directory import is_reserved

    try:
        directory_id = uuid_parse(text)
    except UsageError as error:
        raise UsageError(f"{option} {error}") from error
    if is_reserved(directory_id):
        raise UsageError(f"{option} {text}: the 100 lowest ids are reserved by Kafka; give another")
    return directory_id


def with_cluster_id(config: NodeConfig, cluster_id: str | None) -> NodeConfig:
    """The configuration with the id of ``--cluster-id``, or else that of the log directory if it has one.

    Errors: UsageError, CorruptionError.
    """
    from pykraft.log.directory import meta_in
    from pykraft.log.os_fs import OsFs

    if cluster_id is not None:
        return replace(config, cluster_id=parse_cluster_id(cluster_id))
    meta = meta_in(OsFs(), config.log_dir)
    return config if meta is None else replace(config, cluster_id=meta.cluster_id)


CONFIG_SIZE_BYTES_MAX: Final = 1024 * 1024
NEIGHBORS_TOLD_MAX: Final = 3

logger = logging.getLogger("pykraft")


def find_config(path: Path, clone: Path | None) -> Path:
    """The file; if it does not exist, the one of this name in the clone that the command was started from."""
    if clone is not None and not path.exists() and (clone / path).is_file():
        logger.info("%s is taken from %s", path, clone)
        return clone / path
    return path


def read_properties(path: Path, option: str = "--config") -> Properties:
    """The properties in a file that this option names. Errors: UsageError, ConfigError."""
    return parse_properties(read_text(path, option), str(path))


def override(properties: Properties, overrides: Sequence[str], source: str) -> None:
    """Set properties from texts ``key=value`` of ``source``: an option, or a variable of the environment.

    Errors: UsageError.
    """
    for text in overrides:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"{source}: {text!r}: give a property and its value: key=value")
        properties.give(key.strip(), value.strip(), source)


def parsed_config(properties: Properties) -> ParsedConfig:
    """The configuration of these properties, whose values may be elsewhere (KIP-421). Errors: ConfigError."""
    resolve(properties)
    return node_config(properties)


def checked_config(properties: Properties) -> NodeConfig:
    """The configuration that the properties describe; warnings about it go to the log. Errors: ConfigError."""
    parsed = parsed_config(properties)
    for warning in parsed.warnings:
        logger.warning("%s", warning)
    return parsed.config


def warn_of_neighbors(config: NodeConfig) -> None:
    """Warn when the log directory holds partitions of other topics: it may be a Kafka node's, named by mistake."""
    try:
        names = sorted(entry.name for entry in os.scandir(config.log_dir) if entry.is_dir())
    except OSError:
        return  # if this is a problem, the node reports it when it starts
    own = config.partition_directory.name
    others = [name for name in names if re.fullmatch(r"[\w.-]+-\d+", name) and name != own]
    if others:
        more = f" and {len(others) - NEIGHBORS_TOLD_MAX} more" if len(others) > NEIGHBORS_TOLD_MAX else ""
        told = ", ".join(others[:NEIGHBORS_TOLD_MAX])
        logger.warning("%s also holds %s%s: this node reads and writes only %s", config.log_dir, told, more, own)


def read_text(path: Path, option: str = "--config") -> str:
    """A text file in UTF-8, or in Latin-1 as Java reads it. Errors: UsageError that names the option."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_SIZE_BYTES_MAX + 1)
    except OSError as error:
        is_another = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
        remedy = ": give the path of a properties file" if is_another else ""
        raise UsageError(f"{option} {path}: {error.strerror}{remedy}") from error
    if len(content) > CONFIG_SIZE_BYTES_MAX or b"\0" in content:
        raise UsageError(f"{option} {path}: a properties file is text of at most {CONFIG_SIZE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
