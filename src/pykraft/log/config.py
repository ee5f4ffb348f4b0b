"""Segment and index sizes of a log, with Kafka's defaults and names.

This module holds values only; `pykraft.config` reads them from properties files.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.errors import ConfigError

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """When a log rolls to a new segment, and how densely it is indexed.

    Source: Kafka's ``MetadataLogConfig`` and ``LogConfig``; `__post_init__` lists the property names.
    """

    segment_size_bytes: int = 1024 * 1024 * 1024
    """``metadata.log.segment.bytes``: a segment never grows beyond this, unless a single batch is larger."""
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    """``metadata.log.segment.ms``: the log rolls when the batch timestamps of a segment span more than this."""
    index_interval_bytes: int = 4096
    """``index.interval.bytes``: bytes of the log between two index entries."""
    index_size_bytes_max: int = 10 * 1024 * 1024
    """``segment.index.bytes``: preallocated size of the active segment's index files; a full index rolls the log."""

    def __post_init__(self) -> None:
        for key, value, least in (
            ("metadata.log.segment.bytes", self.segment_size_bytes, 1),
            ("metadata.log.segment.ms", self.segment_ms, 1),
            ("index.interval.bytes", self.index_interval_bytes, 0),
            ("segment.index.bytes", self.index_size_bytes_max, 24),
        ):
            if not least <= value <= (2**63 - 1 if key.endswith(".ms") else INT32_MAX):
                raise ConfigError(key, value, f"must be a whole number of {least} or more")
