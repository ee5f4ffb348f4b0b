"""The options of the sink ``pykraft``: texts in, one checked value out. `docs/spark-reference.md` explains each.

Invariant: an option that is not known is refused with what to do instead, also those of Spark's Kafka sink.

Source: Spark's Kafka integration guide (options of the sink, Spark 4).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pykraft.errors import UsageError
from pykraft.object_storage.uris import WRITTEN_SCHEMES, located
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.spark.data_source.options import (
    CONTROLLERS,
    OF_CONNECTIONS,
    UNITS_MS,
    parse_controllers,
    security_of,
    wrong_option,
)
from pykraft.text.words import did_you_mean
from pykraft.types import Endpoint

STAGING, CHECKPOINT, JOB = "stagingLocation", "checkpointLocation", "jobId"
BATCH_SIZE, TIMEOUT = "maxBatchBytes", "deliveryTimeout"
INCLUDE_HEADERS: Final = "includeHeaders"
"""Has no effect, as in Spark's Kafka sink: a column of headers is written."""
KNOWN: Final = (CONTROLLERS, STAGING, CHECKPOINT, JOB, BATCH_SIZE, TIMEOUT, INCLUDE_HEADERS)
BATCH_SIZE_BYTES: Final = 1024 * 1024
BATCH_SIZE_BYTES_MIN: Final = 1024
BATCH_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
TIMEOUT_MS: Final = 120_000
"""As Kafka's ``delivery.timeout.ms``."""
STAGING_FOLDER: Final = "pykraft-sink"
"""The sink's folder in a checkpoint."""
ONE_LOG: Final = "a quorum has one log with one partition, so leave it out"
REFUSED: Final[Mapping[str, str]] = {
    "topic": ONE_LOG,
    "partition": ONE_LOG,
    "kafka.bootstrap.servers": f"name nodes of the quorum with {CONTROLLERS}",
    "kafka.delivery.timeout.ms": f"it is called {TIMEOUT} here, such as 2m",
    "kafka.batch.size": f"it is called {BATCH_SIZE} here",
    "kafka.max.request.size": f"it is called {BATCH_SIZE} here",
    "path": f"directories are only read; name nodes of the quorum with {CONTROLLERS}",
    "paths": f"directories are only read; name nodes of the quorum with {CONTROLLERS}",
}
"""Names, and what to do instead."""
NO_PRODUCER: Final = "the sink has no Kafka producer inside, so leave it out"
_JOB_TEXT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NUMBER_TEXT: Final = re.compile(r"[0-9]{1,12}")
_TIME_TEXT: Final = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>ms|s|m|h)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All options. ``staging`` is None for a batch query that names no folder."""

    controllers: tuple[Endpoint, ...]
    staging: Path | None
    job_id: str | None = None
    batch_size_bytes_max: int = BATCH_SIZE_BYTES
    timeout_ms: int = TIMEOUT_MS
    continues: bool = True
    """Whether the query goes on where it was when it is run again: a stream, and a batch query with a ``job_id``."""
    security: Security = IN_THE_CLEAR


def parse_sink_options(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Check and convert. Errors: UsageError that names the option, its value and what is allowed."""
    given = _known(options)
    controllers = parse_controllers(given.get(CONTROLLERS, ""))
    if not controllers:
        wanted = f'the sink pykraft needs .option("{CONTROLLERS}", "host:port,…"), nodes of a live quorum'
        raise UsageError(f"{wanted}; INSERT cannot name them, so write with a DataFrame instead")
    job_id = given.get(JOB)
    if is_stream:
        if job_id is not None:
            raise UsageError(f"a stream has its own id, in its checkpoint: leave out the option {JOB}")
        staging: Path | None = _stream_staging(given)
    else:
        if CHECKPOINT in given:
            raise UsageError(f"a batch query has no checkpoint: give {STAGING} and {JOB} instead of {CHECKPOINT}")
        staging = _folder(STAGING, given[STAGING]) if STAGING in given else None
        if job_id is not None and staging is None:
            raise UsageError(f"with the option {JOB} give {STAGING}, too: a folder where the job is found again")
        if job_id is not None and not _JOB_TEXT.fullmatch(job_id):
            raise wrong_option(JOB, job_id, "up to 100 letters, digits, dots, hyphens and underscores")
    return SinkOptions(
        controllers=controllers,
        staging=staging,
        job_id=job_id,
        batch_size_bytes_max=_size(given),
        timeout_ms=_timeout_ms(given),
        continues=is_stream or job_id is not None,
        security=security_of(options),
    )


def _known(options: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in KNOWN}
    refused = {name.lower(): reason for name, reason in REFUSED.items()}
    found = {}
    for given, value in options.items():
        name = given.lower()
        if name.startswith(OF_CONNECTIONS):
            continue
        if name in known:
            found[known[name]] = value.strip()
            continue
        reason = refused.get(name, NO_PRODUCER if name.startswith("kafka.") else None)
        if reason is None:
            reason = f"it has {', '.join(KNOWN)}{did_you_mean(given, KNOWN)}"
        raise UsageError(f"the sink pykraft has no option {given}: {reason}")
    return found


def _stream_staging(given: Mapping[str, str]) -> Path:
    if STAGING in given:
        return _folder(STAGING, given[STAGING])
    if CHECKPOINT not in given:
        raise UsageError(
            f"give the stream the option {CHECKPOINT}, or {STAGING}: the sink keeps there what it has yet to append "
            f"(spark.sql.streaming.checkpointLocation does not reach it)"
        )
    return _folder(CHECKPOINT, given[CHECKPOINT]) / STAGING_FOLDER


def _folder(name: str, text: str) -> Path:
    parts = urlsplit(text)
    if parts.scheme.lower() in WRITTEN_SCHEMES:
        return located(text)
    if parts.scheme not in ("", "file") or not parts.path:
        hint = f"; for another file system give {STAGING}, too" if name == CHECKPOINT else ""
        known = "://, ".join(WRITTEN_SCHEMES)
        wanted = f"a folder that driver and executors share, such as /shared/folder, or a URI of {known}://{hint}"
        raise wrong_option(name, text, wanted)
    return Path(unquote(parts.path) if parts.scheme else text).absolute()


def _size(given: Mapping[str, str]) -> int:
    text = given.get(BATCH_SIZE, str(BATCH_SIZE_BYTES))
    size_bytes = int(text) if _NUMBER_TEXT.fullmatch(text) else 0
    if not BATCH_SIZE_BYTES_MIN <= size_bytes <= BATCH_SIZE_BYTES_MAX:
        raise wrong_option(BATCH_SIZE, text, f"bytes, from {BATCH_SIZE_BYTES_MIN} to {BATCH_SIZE_BYTES_MAX}")
    return size_bytes


def _timeout_ms(given: Mapping[str, str]) -> int:
    text = given.get(TIMEOUT, f"{TIMEOUT_MS}ms").lower()
    match = _TIME_TEXT.fullmatch(text)
    timeout_ms = int(match["number"]) * UNITS_MS[match["unit"]] if match else 0
    if timeout_ms <= 0:
        raise wrong_option(TIMEOUT, text, "a time such as 500ms, 30s, 2m or 1h")
    return timeout_ms
