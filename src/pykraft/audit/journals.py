"""Looks for acknowledged records in the logs of replicas.

Acknowledgements that continue each other are joined while a journal is read, so the memory depends on the number of
leaders and faults, not of records. `pykraft.local.journal` has the rules. Invariant: a record that a log does
not have because it begins later or ends earlier is not that log's fault.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pykraft.audit.findings import AuditKind, AuditReport
from pykraft.audit.judged import JudgedLog
from pykraft.audit.locate import batch_before
from pykraft.errors import ProtocolError, UsageError
from pykraft.local.journal import Acknowledged, RecordSpan, parse_event
from pykraft.log.fs import Fs
from pykraft.log.scan import REPAIR
from pykraft.text.words import counted
from pykraft.types import Offset


def read_acknowledged(paths: Iterable[Path]) -> list[Acknowledged]:
    """What the nodes acknowledged, joined where it continues. Errors: UsageError for a line that is no event."""
    joined: dict[tuple[bytes, int], Acknowledged] = {}
    done: list[Acknowledged] = []
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    event = parse_event(line)
                except ProtocolError as error:
                    if not line.endswith(b"\n"):
                        continue  # the writer was killed within its last line
                    raise UsageError(f"{path}: line {number}: {error}") from error
                if isinstance(event, Acknowledged):
                    key = event.run, event.epoch
                    last = joined.get(key)
                    if last is None:
                        joined[key] = event
                    elif last.end_sequence == event.first_sequence and last.end_offset == event.base_offset:
                        joined[key] = replace(last, count=last.count + event.count)
                    else:
                        done.append(last)
                        joined[key] = event
    return sorted([*done, *joined.values()], key=lambda one: one.base_offset)


def lost_in(
    acknowledged: Sequence[Acknowledged], spans: Sequence[RecordSpan], start_offset: Offset, end_offset: Offset
) -> Iterator[tuple[Offset, int]]:
    """The first offset of each acknowledged range between these offsets that the spans lack, and how many it has."""
    by_claim: dict[object, list[RecordSpan]] = {}
    for span in spans:
        by_claim.setdefault(span.claim, []).append(span)
    for one in acknowledged:
        at, end = max(one.base_offset, start_offset), min(one.end_offset, end_offset)
        for span in by_claim.get(one.claim, ()):
            if span.shift != one.shift or span.base_offset + span.count <= at:
                continue
            if span.base_offset >= end:
                break
            if span.base_offset > at:
                yield Offset(at), span.base_offset - at
            at = Offset(span.base_offset + span.count)
        if at < end:
            yield Offset(at), end - at


def acknowledged_end(acknowledged: Sequence[Acknowledged]) -> Offset:
    """Everything below this offset was committed."""
    return max((one.end_offset for one in acknowledged), default=Offset(0))


def tell_lost(
    fs: Fs,
    logs: Sequence[JudgedLog],
    spans: Mapping[Path, Sequence[RecordSpan]],
    acknowledged: Sequence[Acknowledged],
    report: AuditReport,
) -> None:
    """Report the acknowledged records that a log lacks between its start and its end, and those above all ends.

    Errors: StorageError.
    """
    report.acknowledged = sum(one.count for one in acknowledged)
    for log in logs:
        for offset, count in lost_in(acknowledged, spans[log.path], log.start_offset, log.end_offset):
            path, base_offset, size_bytes = log.segment_of(offset)
            position, _ = batch_before(fs, log.path, base_offset, offset, size_bytes)
            _lose(report, log, path, position, offset, count)
    # Acknowledged means that a majority had it; above all ends not even one replica has it.
    furthest = max(logs, key=lambda log: log.end_offset)
    own = furthest.end_offset
    count = sum(max(0, one.end_offset - max(own, one.base_offset)) for one in acknowledged)
    if count:
        path, _, size_bytes = furthest.segment_of(own)
        _lose(report, furthest, path, size_bytes, own, count)


def _lose(report: AuditReport, log: JudgedLog, path: Path, position: int, offset: Offset, count: int) -> None:
    report.add(
        AuditKind.LOST,
        log.replica,
        path,
        position,
        expected=f"{counted(count, 'acknowledged record')} from offset {offset} on",
        found="not those records",
        advice=REPAIR,
    )
