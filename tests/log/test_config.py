"""Sizes and ages of a log: Kafka's defaults, and what is refused.

Source: Kafka's defaults of ``metadata.log.*`` and ``RaftConfig``.
"""

from __future__ import annotations

import pytest

from pykraft.errors import ConfigError
from pykraft.log.config import LogConfig


@pytest.mark.conformance(110)
def test_the_defaults_are_kafkas() -> None:
    assert LogConfig() == LogConfig(
        segment_size_bytes=1_073_741_824,
        segment_ms=604_800_000,
        index_interval_bytes=4096,
        index_size_bytes_max=10_485_760,
    )


@pytest.mark.parametrize(
    ("field", "value", "key"),
    [
        ("segment_size_bytes", 0, "metadata.log.segment.bytes"),
        ("segment_size_bytes", 2**31, "metadata.log.segment.bytes"),
        ("segment_ms", 0, "metadata.log.segment.ms"),
        ("index_interval_bytes", -1, "index.interval.bytes"),
        ("index_size_bytes_max", 23, "segment.index.bytes"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_key(field: str, value: int, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"property {key} = {value}: must be a whole number of "):
        LogConfig(**{field: value})
