"""Compares the logs of the stopped nodes with each other and with the journal, without Spark.

Invariant: no content of a log ends the demo: an unreadable or differing log becomes a problem in the result, and the
other logs are still compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pykraft.client.journal import Acknowledged
from pykraft.client.journal_check import check_journal, record_spans
from pykraft.errors import LocalQuorumError, ProtocolError
from pykraft.local.logs import Stream, read_stream, require_identical


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaComparison:
    """``furthest`` is the directory of the longest valid log; None if no log is valid."""

    are_identical: bool
    problems: tuple[str, ...]
    furthest: Path | None


def compare(partitions: Mapping[str, Path], said: Iterable[Acknowledged], *, end_offset: int) -> ReplicaComparison:
    """Compare these replicas up to an offset that all have reached, and compare the longest with the journal."""
    problems: list[str] = []
    streams: dict[str, Stream] = {}
    for name, partition in partitions.items():
        try:
            streams[name] = read_stream(partition)
        except (LocalQuorumError, ProtocolError) as error:
            problems.append(f"the log of {name} is damaged: {_one_line(error)} ({partition})")
    if not streams:
        return ReplicaComparison(are_identical=False, problems=tuple(problems), furthest=None)
    try:
        require_identical(streams, end_offset=end_offset)
    except LocalQuorumError as error:
        problems.append(_one_line(error))
    are_identical = not problems
    furthest = max(streams, key=lambda name: (streams[name].last_epoch, streams[name].end_offset))
    try:
        problems += check_journal(said, record_spans(streams[furthest].data)).problems
    except ProtocolError as error:
        problems.append(f"the log of {furthest}: {_one_line(error)}")
    return ReplicaComparison(are_identical=are_identical, problems=tuple(problems), furthest=partitions[furthest])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split("\n"))
