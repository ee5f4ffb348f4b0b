"""Headers as columns are those that the protocol's own reader finds, whatever the bytes are."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, scan
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.data_source.headers import headers_of
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.spark.logs import EPOCH, START_MS, batch

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[2]
OTHERS = sorted((TESTS / "protocol" / "batches").glob("*.bin"))


def control(base_offset: int) -> bytes:
    """A batch with a control record."""
    records = [KRaftVersion(level=1)]
    return encode_control_batch(
        records, base_offset=Offset(base_offset), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    ).data


LOG = b"".join([batch([b"a", b"b"], base_offset=0), control(2), *(batch([b"c"], base_offset=3 + i) for i in range(3))])


def scanned(data: bytes) -> list[tuple[int, BatchHeader]]:
    """What the protocol's own reader finds before it stops."""
    found: list[tuple[int, BatchHeader]] = []
    with suppress(ProtocolError):
        found.extend(scan(data, verify_crc=False))
    return found


@pytest.mark.parametrize("path", OTHERS, ids=[path.stem for path in OTHERS])
def test_batches_of_other_clients(path: Path) -> None:
    data = path.read_bytes()
    found = headers_of(data + LOG)
    pairs = scanned(data + LOG)
    headers = [header for _, header in pairs]
    assert list(found.pairs()) == pairs
    assert [found.pair(index) for index in range(-len(pairs), 0)] == pairs
    assert found.sizes_bytes.tolist() == [header.size_bytes for header in headers]
    assert found.counts.tolist() == [header.records_count for header in headers]
    assert found.last_offsets.tolist() == [header.last_offset for header in headers]
    assert found.codecs.tolist() == [header.compression for header in headers]
    assert found.are_control.tolist() == [header.is_control for header in headers]
    assert found.are_log_append_time.tolist() == [header.is_log_append_time for header in headers]
    assert found.are_compacted.tolist() == [header.records_count != header.last_offset_delta + 1 for header in headers]
    assert found.column("base_timestamp").tolist() == [header.base_timestamp for header in headers]
    assert found.have_crcs_of(data + LOG).all()


@pytest.mark.parametrize("end", [0, 1, HEADER_SIZE_BYTES - 1, HEADER_SIZE_BYTES, len(LOG) - 1, len(LOG)])
def test_a_batch_that_is_cut_is_left_out(end: int) -> None:
    assert list(headers_of(LOG[:end]).pairs()) == scanned(LOG[:end])
    assert list(headers_of(memoryview(LOG)[:end]).pairs()) == scanned(LOG[:end])


EXTREMES = st.sampled_from([b"\xff", b"\x7f", b"\x80", b"\x00"]).flatmap(
    lambda octet: st.integers(1, 8).map(lambda count: octet * count)
)


@given(st.integers(0, len(LOG) - 1), st.one_of(EXTREMES, st.binary(min_size=1, max_size=8)))
def test_any_other_bytes_are_taken_or_refused_as_the_reader_does(at: int, octets: bytes) -> None:
    data = LOG[:at] + octets + LOG[at + len(octets) :]
    found = headers_of(data)
    assert list(found.pairs()) == scanned(data)
    assert found.have_crcs_of(data).tolist() == [is_sound(data, at, header) for at, header in scanned(data)]


def is_sound(data: bytes, position: int, header: BatchHeader) -> bool:
    """Whether the batch has the right CRC."""
    try:
        check_crc(data, position, header)
    except ProtocolError:
        return False
    return True


def test_some_of_them() -> None:
    found, pairs = headers_of(LOG), scanned(LOG)
    assert list(found.at(slice(1, 3)).pairs()) == pairs[1:3]
    assert list(found.at(~found.are_control).pairs()) == [pairs[0], *pairs[2:]]
    assert len(found.at(np.zeros(len(found), dtype=bool))) == 0


def test_data_batches_of_one_epoch_that_follow_each_other_are_a_run() -> None:
    found = headers_of(LOG)
    run = found.at(slice(2, None)).run(1_000)
    assert run is not None
    assert (run.base_offset, run.end_offset, run.epoch) == (3, 6, EPOCH)
    assert [*run.positions] == [1_000 + found.positions[2], 1_000 + len(LOG)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        LOG,
        batch([b"a"], base_offset=0) + batch([b"b"], base_offset=2),
        batch([b"a"], base_offset=0) + batch([b"b"], base_offset=1, epoch=EPOCH + 1),
    ],
    ids=["none", "control", "gap", "epochs"],
)
def test_others_are_no_run(data: bytes) -> None:
    assert headers_of(data).run(0) is None
