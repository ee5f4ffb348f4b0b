"""Checks a log against a journal.

The check finds whether a log has what its leaders acknowledged: each record exactly once, at its offset, in order. It
trusts neither side. It identifies a record by its content, never by its position, and an acknowledged record counts as
found only at the acknowledged offset. A log is a buffer of whole batches here.

The check works on *spans*: records of one claim whose sequences and offsets both increase by one. So its cost
depends on the number of batches and faults, not of records. For each claim:

1. Its sequences ascend with the offset.
2. Spans cover each acknowledged range at its offsets. Records that only other spans cover are misplaced;
   records that no span covers are missing.
3. Spans that overlap are duplicates, and no record is acknowledged twice.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Final

from pykraft.local.journal import Acknowledged, Claim, RecordSpan
from pykraft.types import Offset

PROBLEMS_MAX: Final = 20
"""Faults that a verdict describes; it counts all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalVerdict:
    """How many acknowledged records a log has. All numbers count records, except ``steps_back``."""

    acknowledged: int = 0
    """Distinct records that were acknowledged."""
    found: int = 0
    """Acknowledged records that are at their offset."""
    misplaced: int = 0
    """Acknowledged records that are only at other offsets."""
    missing: int = 0
    """Acknowledged records that are not in the log."""
    duplicates: int = 0
    """Copies in the log beyond the first, acknowledged or not."""
    steps_back: int = 0
    """Places where a claim's sequence does not ascend."""
    acknowledged_twice: int = 0
    unacknowledged: int = 0
    """In the log without an acknowledgement; allowed, since a node may die between commit and acknowledgement."""
    problems: tuple[str, ...] = ()
    """Descriptions of faults, at most PROBLEMS_MAX of them."""

    @property
    def is_clean(self) -> bool:
        """True when each acknowledged record is in the log exactly once, at its offset, in order."""
        return not self.problems


def check_journal(acknowledgements: Iterable[Acknowledged], log: Iterable[RecordSpan]) -> JournalVerdict:
    """Compare acknowledgements with one log; the module has the rules."""
    said_by_claim: defaultdict[Claim, list[Acknowledged]] = defaultdict(list)
    for said in acknowledgements:
        said_by_claim[said.claim].append(said)
    log_by_claim: defaultdict[Claim, list[RecordSpan]] = defaultdict(list)
    for span in log:
        log_by_claim[span.claim].append(span)
    claims = dict.fromkeys([*log_by_claim, *said_by_claim])
    return _total([_check_claim(said_by_claim[claim], log_by_claim[claim]) for claim in claims])


def _total(verdicts: Sequence[JournalVerdict]) -> JournalVerdict:
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    names = [each.name for each in fields(JournalVerdict) if each.name != "problems"]
    sums = {name: sum(getattr(verdict, name) for verdict in verdicts) for name in names}
    return JournalVerdict(**sums, problems=tuple(problems[:PROBLEMS_MAX]))


def _check_claim(said: Sequence[Acknowledged], in_log: Sequence[RecordSpan]) -> JournalVerdict:
    """The verdict on one claim; ``in_log`` is in log order."""
    # 1. Sequences that do not ascend.
    problems = _steps_back(in_log)
    steps_back = len(problems)
    ascending = _Ascending(in_log)
    # 3. Overlaps: more records than different sequences.
    distinct = _covered(ascending.spans)
    duplicates = sum(span.count for span in in_log) - distinct
    acknowledged = twice = found = missing = said_end = 0
    for one in sorted(said, key=lambda one: one.first_sequence):
        # 3. Do not count sequences again that an earlier acknowledgement covers.
        first = min(max(one.first_sequence, said_end), one.end_sequence)
        said_end = max(said_end, one.end_sequence)
        if first > one.first_sequence:
            problems.append(f"{one.claim}: sequence {one.first_sequence} was acknowledged twice")
        count = one.end_sequence - first
        present = ascending.within(first, one.end_sequence)
        # 2. Covered at the right offsets, or anywhere.
        here = _covered(part for part in present if part.shift == one.shift)
        absent = count - _covered(present)
        if here < count:
            problems.append(
                f"{one.claim}: of sequences {first} to {one.end_sequence - 1}, acknowledged from offset "
                f"{first + one.shift} on, {absent} are missing and {count - here - absent} stand elsewhere"
            )
        acknowledged, twice = acknowledged + count, twice + one.count - count
        found, missing = found + here, missing + absent
    return JournalVerdict(
        acknowledged=acknowledged,
        found=found,
        misplaced=acknowledged - found - missing,
        missing=missing,
        duplicates=duplicates,
        steps_back=steps_back,
        acknowledged_twice=twice,
        unacknowledged=distinct - (acknowledged - missing),
        problems=tuple(problems),
    )


def _steps_back(in_log: Sequence[RecordSpan]) -> list[str]:
    """A sentence for each span that begins at or below an earlier sequence; each duplicate causes one as well."""
    problems: list[str] = []
    highest = -1
    for span in in_log:
        if span.first_sequence <= highest:
            problems.append(
                f"{span.claim}: sequence {span.first_sequence} at offset {span.base_offset} follows {highest}"
            )
        highest = max(highest, span.end_sequence - 1)
    return problems


class _Ascending:
    """The spans of one claim, searchable by sequence."""

    def __init__(self, members: Sequence[RecordSpan]) -> None:
        self.spans = sorted(members, key=lambda span: span.first_sequence)
        self._starts = [span.first_sequence for span in self.spans]
        self._highest_ends = list(accumulate((span.end_sequence for span in self.spans), max))

    def within(self, first: int, end: int) -> list[RecordSpan]:
        """The parts of spans within this range of sequences, ``end`` exclusive, ascending."""
        near = self.spans[bisect_right(self._highest_ends, first) : bisect_left(self._starts, end)]
        return [_cut(span, first, end) for span in near if span.end_sequence > first]


def _cut(span: RecordSpan, first: int, end: int) -> RecordSpan:
    start, stop = max(first, span.first_sequence), min(end, span.end_sequence)
    return RecordSpan(
        claim=span.claim, first_sequence=start, base_offset=Offset(start + span.shift), count=stop - start
    )


def _covered(ascending: Iterable[RecordSpan]) -> int:
    covered = 0
    position: int | None = None
    for span in ascending:
        start = span.first_sequence if position is None else max(position, span.first_sequence)
        covered += max(0, span.end_sequence - start)
        position = max(start, span.end_sequence)
    return covered
