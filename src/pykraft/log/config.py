"""Sizes and ages of a log, with Kafka's defaults and names.

Pure values. Where they come from (properties files) is the business of ``pykraft.config``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.errors import ConfigError

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How a log is cut into segments and indexed.

    Source: Kafka's ``MetadataLogConfig`` and ``LogConfig``; property names stand in `__post_init__`.
    """

    segment_size_bytes: int = 1024 * 1024 * 1024
    """``metadata.log.segment.bytes``: a segment never grows beyond it, but for a single larger batch."""
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    """``metadata.log.segment.ms``: a segment is closed when batch timestamps span more than this."""
    index_interval_bytes: int = 4096
    """``index.interval.bytes``: log bytes between two index entries."""
    index_size_bytes_max: int = 10 * 1024 * 1024
    """``segment.index.bytes``: index files of the active segment are preallocated to it; a full one rolls."""

    def __post_init__(self) -> None:
        for key, value, least in (
            ("metadata.log.segment.bytes", self.segment_size_bytes, 1),
            ("metadata.log.segment.ms", self.segment_ms, 1),
            ("index.interval.bytes", self.index_interval_bytes, 0),
            ("segment.index.bytes", self.index_size_bytes_max, 24),
        ):
            if not least <= value <= (2**63 - 1 if key.endswith(".ms") else INT32_MAX):
                raise ConfigError(key, value, f"allowed are whole numbers from {least} on")
