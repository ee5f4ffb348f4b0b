"""Checks the options that identify a node, which several commands share.

Source: Kafka's ``StorageTool``, ``TestRaftServer``; KIP-853 (directory ids; the lowest are reserved).
"""

from __future__ import annotations

import re
from dataclasses import replace

from pykraft.config import NodeConfig
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
