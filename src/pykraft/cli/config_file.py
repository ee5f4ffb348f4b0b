"""Finds and reads a node's properties file for a command, and logs its warnings.

Every error names the file. `pykraft.properties` knows the properties.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pykraft.config import NodeConfig
from pykraft.errors import ConfigError, UsageError
from pykraft.properties import node_config
from pykraft.properties_format import parse_properties

CONFIG_SIZE_BYTES_MAX: Final = 1024 * 1024
NEIGHBORS_TOLD_MAX: Final = 3

logger = logging.getLogger("pykraft")


def find_config(path: Path, clone: Path | None) -> Path:
    """The file; if it does not exist, the one of this name in the clone that the command was started from."""
    if clone is not None and not path.exists() and (clone / path).is_file():
        logger.info("%s is taken from %s", path, clone)
        return clone / path
    return path


def read_config(path: Path, overrides: Sequence[str] = ()) -> NodeConfig:
    """The configuration in a file; warnings about it go to the log.

    Each of ``overrides`` is a text ``key=value`` that counts instead of the line in the file.

    Errors: UsageError with the file, and the property if one is wrong.
    """
    with naming(path, overrides):
        properties = parse_properties(read_text(path))
        for text in overrides:
            key, separator, value = text.partition("=")
            if not separator or not key.strip():
                raise UsageError(f"--override {text}: give a property and its value: key=value")
            properties[key.strip()] = value.strip()
            properties.lines.pop(key.strip(), None)
        parsed = node_config(properties)
    for warning in parsed.warnings:
        logger.warning("%s: %s", path, warning)
    return parsed.config


def tell_of_neighbors(config: NodeConfig) -> None:
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


@contextmanager
def naming(path: Path, overrides: Sequence[str] = ()) -> Iterator[None]:
    """Within this block, an error about a property names its file, or the option. Errors: UsageError."""
    try:
        yield
    except ConfigError as error:
        is_overridden = error.key in (text.partition("=")[0].strip() for text in overrides)
        raise UsageError(f"{'--override' if is_overridden else path}: {error}") from error


def read_text(path: Path, option: str = "--config") -> str:
    """A text file in UTF-8, or in Latin-1 as Java reads it. Errors: UsageError that names the option."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_SIZE_BYTES_MAX + 1)
    except OSError as error:
        remedy = ": give the path of a properties file" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{option} {path}: {error.strerror}{remedy}") from error
    if len(content) > CONFIG_SIZE_BYTES_MAX or b"\0" in content:
        raise UsageError(f"{option} {path}: a properties file is text of at most {CONFIG_SIZE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
