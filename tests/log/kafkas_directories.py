"""Directories as Kafka leaves them, without a recovery point, with every kind of damage; see `damaged_directories`."""

from __future__ import annotations

from tests.log.damaged_directories import (
    DAMAGED,
    LAST,
    NEXT,
    NO_POINT,
    S1,
    SOUND,
    TORN,
    UNPROVEN,
    append,
    cut_at,
    empty_segment,
    epoch_of,
    flip_in,
    row,
    without_batch,
    without_segment,
    zeros_from,
    zeros_in,
)
from tests.log.logs import batch

KAFKAS = [
    row("no recovery point", NO_POINT, verdict=SOUND),
    row("no point, a cut batch", NO_POINT, append(NEXT[:-1]), verdict=TORN),
    row("no point, zeros", NO_POINT, append(bytes(4_000)), verdict=TORN),
    row("no point, a cut log", NO_POINT, cut_at(55, more=0), verdict=SOUND, offset=55),
    row("no point, a cut batch in an older segment", NO_POINT, cut_at(22, more=9), verdict=DAMAGED, offset=22),
    row(
        "no point, a cut batch, then an empty segment",
        NO_POINT,
        append(NEXT[:-1]),
        empty_segment(61),
        verdict=TORN,
    ),
    row("no point, a changed byte", NO_POINT, flip_in(40, 90), verdict=DAMAGED, offset=40),
    row("no point, a changed byte in an older segment", NO_POINT, flip_in(10, 90), verdict=DAMAGED, offset=10),
    row(
        "no point, a changed byte, then a cut batch",
        NO_POINT,
        flip_in(40, 90),
        cut_at(LAST, more=9),
        verdict=DAMAGED,
        offset=40,
    ),
    row("no point, a lost page, then whole batches", NO_POINT, zeros_in(40), verdict=DAMAGED, offset=40),
    row("no point, a changed base offset", NO_POINT, flip_in(40, 7), verdict=DAMAGED, offset=40),
    row("no point, a missing batch", NO_POINT, without_batch(40), verdict=DAMAGED, offset=40),
    row("no point, zeros to the end of an older segment", NO_POINT, zeros_from(20), verdict=DAMAGED, offset=20),
    row(
        "no point, two changed last batches", NO_POINT, flip_in(58, 90), flip_in(LAST, 90), verdict=UNPROVEN, offset=58
    ),
    row(
        "no point, a changed byte, then a batch that cannot follow",
        NO_POINT,
        flip_in(LAST, 90),
        append(batch(40, epoch=2)[1]),
        verdict=UNPROVEN,
        offset=LAST,
    ),
    row("no point, a changed length", NO_POINT, flip_in(50, 10), verdict=DAMAGED, offset=50),
    row("no point, a missing segment", NO_POINT, without_segment(1), verdict=DAMAGED, offset=S1),
    row("no point, an epoch that steps back", NO_POINT, epoch_of(40, 1), verdict=DAMAGED, offset=40),
]
