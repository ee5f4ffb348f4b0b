"""The properties of a node that are about Kafka's own clients: where they are served, the topic's name, the records.

Invariant: a topic's name is one that Kafka allows. `pykraft.properties` reads all other properties.

Source: Kafka's ``Topic.validate``; ours (ADR 065).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from pykraft.config import ANY_RECORDS, AUTO_RECORDS, KRAFT_RECORDS
from pykraft.errors import ConfigError
from pykraft.types import Listeners

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class PropertyReader(Protocol):
    """The part of the reader in `pykraft.properties` that is needed here."""

    def listener_names(self, key: str, listeners: Listeners) -> tuple[str, ...] | None:
        """Names of some of the listeners; None without the property."""

    def one_of(self, key: str, allowed: Sequence[str], default: str) -> str:
        """One of these values."""

    def text(self, key: str) -> str:
        """The value; empty if absent."""


def client_settings(reader: PropertyReader, listeners: Listeners) -> dict[str, Any]:
    """The fields of a `NodeConfig`. Errors: ConfigError."""
    key = "pykraft.client.topic"
    name = reader.text(key)
    if name and (not _TOPIC.fullmatch(name) or name in (".", "..")):
        raise ConfigError(key, name, "a topic's name has at most 249 of the characters a-z A-Z 0-9 . _ -")
    return {
        "client_listeners": reader.listener_names("pykraft.client.listeners", listeners) or (),
        "client_topic": name,
        "client_records": reader.one_of(
            "pykraft.client.records", (AUTO_RECORDS, ANY_RECORDS, KRAFT_RECORDS), AUTO_RECORDS
        ),
    }
