"""Sends drawn requests of every API to one node in this process, on a listener for clients, and looks what they cost.

A request is one for our own topic, with its schema's fields at their edges, its batch changed under a right CRC, its
bytes changed, or it is nothing but random bytes. One seed gives one sequence. A node without others leads; one of three
never hears from the others. A new node takes over after every INPUTS_OF_A_NODE inputs.

    python -m tests.host.clients.fuzz --inputs 1000000 --seed 7
    python -m tests.host.clients.fuzz --inputs 1000000 --groups

Oracles: nothing raises; no request takes more than four times its frame while it is handled, plus its answer three
times and a fixed amount; one with compressed records, four times the largest batch, if that is more; the node serves
on: it appends and returns a record after all of them; and the full reader takes every batch in its log. What is
measured is the whole process: also what its other threads and finalizers take. So requests are measured in a process of
their own.
"""

import argparse
import gzip
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import cramjam

from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.host.clients.producer_states import COUNTER_BITS
from pykraft.host.host import Host
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import (
    ApiKey,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.messages import APIS, CLIENT_KEYS, GROUP_KEYS
from pykraft.protocol.records import decode_records, encode_batch, scan
from pykraft.protocol.schema import Array, Body, Kind
from pykraft.types import Epoch, Offset
from tests.disks import ScriptedDisk
from tests.host.clients.world import resealed
from tests.host.fakes import LISTENER, FakePorts, at, config
from tests.processes.rpc_edges import places, plain, put

INPUTS_OF_A_NODE: Final = 2_500
BATCH_SIZE_BYTES_MAX: Final = 64 * 1024
COST_FACTOR_MAX: Final = 4
COST_BYTES_MIN: Final = 512 * 1024
"""What a request may take besides: the answer (of an OffsetFetch for 100 groups, say), a step of the core, and a node's
own tables as they grow."""
OTHER_CLIENT_KEYS: Final = (ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER)
CLIENT_KEYS_IN_ORDER: Final = (*[ApiKey.PRODUCE] * 4, *sorted(CLIENT_KEYS), *OTHER_CLIENT_KEYS)
OTHER_KEYS: Final = tuple(key for key in ApiKey if key not in CLIENT_KEYS_IN_ORDER)
RECORDS: Final = bytes(encode_batch([b"a", b"b" * 40], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0).data)
CODECS: Final[tuple[Any, ...]] = (
    bytes,
    gzip.compress,
    cramjam.snappy.compress_raw,
    cramjam.lz4.compress,
    cramjam.zstd.compress,
)
PRODUCER_IDS: Final = (-1, -1, 0, 1, (1 << COUNTER_BITS) + 1, (9 << COUNTER_BITS) + 1, 2**63 - 1)


def a_batch(source: Random) -> bytes:
    """A client's batch: any codec, some fields and bytes changed, with a CRC that is right."""
    codec = source.randrange(len(CODECS))
    values = [source.randbytes(source.choice((1, 1, 30))) for _ in range(source.choice((1, 1, 2, 20)))]
    encoded = encode_batch(values, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=source.choice((0, 7)))
    records = bytes(encoded.data[HEADER_SIZE_BYTES:])
    if source.random() < 0.3:
        records = changed(source, records)
    body = bytes(CODECS[codec](records))
    if source.random() < 0.1:
        body = changed(source, body)
    raw = bytearray(encoded.data[:HEADER_SIZE_BYTES]) + body
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    fields: dict[str, Any] = {"attributes": codec}
    producer_id = source.choice(PRODUCER_IDS)
    if producer_id >= 0:
        fields |= {"producer_id": producer_id, "producer_epoch": source.choice((0, 1)), "base_sequence": 0}
    if source.random() < 0.2:
        name = source.choice(("attributes", "last_offset_delta", "records_count", "base_sequence", "max_timestamp"))
        fields[name] = source.choice((-1, 0, 1, 2**15 - 1))
    return resealed(bytes(raw), **fields)


def changed(source: Random, data: bytes) -> bytes:
    """The same with a few bytes changed, taken out or put in."""
    raw = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        at_byte = source.randrange(len(raw) + 1)
        match source.randrange(5):
            case 0:
                raw[at_byte : at_byte + 1] = bytes([source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))])
            case 1 if at_byte < len(raw):  # one bit: the next number, or a negative one, is most like what is right
                raw[at_byte] ^= 1 << source.choice((0, 0, 1, 7))
            case 2:
                del raw[at_byte : at_byte + source.choice((1, 4, 100))]
            case 3:
                raw[at_byte:at_byte] = source.randbytes(source.choice((1, 4, 60)))
            case _:
                raw[at_byte : at_byte + 4] = source.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"))
    return bytes(raw)


def an_input(source: Random, keys: Sequence[ApiKey]) -> bytes:
    """One frame without its size; most are for these APIs."""
    if source.random() < 0.03:
        return source.randbytes(source.choice((0, 1, 8, 100, 4_000)))
    key = source.choice(keys if source.random() < 0.85 else OTHER_KEYS)
    versions = APIS[key].request.versions
    version = source.randint(versions.min, versions.max)
    body = plain(APIS[key].request.body, version)
    found = list(places(APIS[key].request.body, version))
    for place, kind in source.sample(found, min(len(found), source.choice((0, 0, 1, 1, 2, 4)))):
        # Thousands of elements are sent one by one by `tests.processes.rpc_edges`; here they would take all the time.
        put(body, place, kind, source.randrange(4 if isinstance(kind, Array) else 100))
    for place, kind in found:
        if kind is Kind.RECORDS and source.random() < 0.7:
            _set(body, place, a_batch(source))
    frame = b"".join(bytes(part) for part in encode_request(key, version, 7, "fuzz", body))
    return changed(source, frame) if source.random() < 0.3 else frame


def _set(body: Body, place: tuple[str | int, ...], value: bytes) -> None:
    holder: Any = body
    for step in place[:-1]:
        if not holder[step]:
            return
        holder = holder[step]
    holder[place[-1]] = value


class Node(FakePorts):
    """A host with a disk in memory; time passes when it has nothing else to do."""

    def __init__(self, voters: int, rng: Random) -> None:
        super().__init__()
        own = config(1, voters=voters, batch_size_bytes_max=BATCH_SIZE_BYTES_MAX)
        own = replace(own, client_listeners=(LISTENER,), topic_name=TEST_TOPIC_NAME, topic_id=TEST_TOPIC_ID)
        self.now = at(0)
        self.voters = voters
        self.connection = ConnectionId(1)
        self.host = Host.open(ScriptedDisk(rng), self, own, rng=rng)
        self.host.start(self.now)
        self.host.on_accepted(self.connection, LISTENER, self.now)
        self.settle()

    def close(self, connection: ConnectionId) -> None:
        """A new connection takes the place of one that the host closes."""
        assert connection == self.connection, "it closed another one"
        self.connection = ConnectionId(connection + 1)
        self.host.on_accepted(self.connection, LISTENER, self.now)

    def take(self, frame: bytes, *, is_patient: bool) -> None:
        """Handle one request; one that is not answered is given up."""
        self.sent.clear()
        self.reports.clear()
        self.kinds.clear()
        connection = self.connection
        self.host.on_frame(connection, frame, self.now)
        self.settle()
        if is_patient:
            self.pass_time()
        if connection == self.connection and not self.sent:
            self.host.on_closed(connection, self.now)
            self.close(connection)
        assert not self.stops, self.stops

    def settle(self) -> None:
        """Let happen whatever happens without time."""
        while self.jobs or self.reads:
            while self.reads:
                self.finish_read()
            jobs, self.jobs = self.jobs, []
            if jobs:
                self.host.on_io(self.host.lane.perform(jobs), self.now)
        # Dials fail: nobody is there.
        dialed, self.dialed = self.dialed, []
        for connection, _ in dialed:
            self.host.on_closed(connection, self.now, is_refused=True)

    def dial(self, endpoint: Any) -> ConnectionId:
        """Numbers that no accepted connection has."""
        connection = ConnectionId(1_000_000_000 + self.now.mono_ms * 100 + len(self.dialed))
        self.dialed.append((connection, endpoint))
        return connection

    def pass_time(self) -> None:
        """Until the next deadline."""
        self.now = at(max(self.now.mono_ms + 1, self.wake_ms or 0))
        self.host.on_tick(self.now)
        self.settle()

    def ask(self, key: ApiKey, version: int, body: Body) -> Body:
        """A request that is answered."""
        self.take(b"".join(bytes(part) for part in encode_request(key, version, 1, None, body)), is_patient=False)
        [(_, raw)] = self.sent
        return decode_response(key, version, raw)[1]

    def check_serves(self) -> None:
        """A leader appends and returns a record; the other node still says what it serves."""
        assert self.ask(ApiKey.API_VERSIONS, 4, {})["error_code"] == 0
        if self.voters > 1:
            return
        for _ in range(1_000):
            if self.host.status.leads:
                break
            self.pass_time()
        parts = [{"index": 0, "records": RECORDS}]
        wanted: Body = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": TEST_TOPIC_NAME, "partition_data": parts}]}
        [topic] = self.ask(ApiKey.PRODUCE, 9, wanted)["responses"]
        [part] = topic["partition_responses"]
        assert part["error_code"] == 0, part
        assert self.fetched(part["base_offset"])[61:] == RECORDS[61:]
        offset = 0
        while records := self.fetched(offset):
            for position, header in scan(records):
                if not header.is_control:
                    decode_records(records[position : position + header.size_bytes])
                offset = header.last_offset + 1

    def fetched(self, offset: int) -> bytes:
        """The batches from here on."""
        parts = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": BATCH_SIZE_BYTES_MAX}]
        wanted: Body = {"max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic": TEST_TOPIC_NAME, "partitions": parts}]}
        [topic] = self.ask(ApiKey.FETCH, 11, wanted)["responses"]
        [part] = topic["partitions"]
        assert part["error_code"] == 0, part
        return bytes(part["records"])


def nodes(seed: int) -> Iterator[tuple[Node, Random]]:
    """One node after the other, each with what draws its inputs: leaders twice as often as the others."""
    while True:
        source = Random(seed)
        yield Node((1, 1, 3)[seed % 3], source), source
        seed += 1


def _counted_bytes(frame: bytes) -> int:
    """Its size; with records that may be compressed, at least that of the largest batch."""
    return max(len(frame), BATCH_SIZE_BYTES_MAX) if frame[:2] == b"\0\0" else len(frame)


def compile_all() -> None:
    """Make the reader and writer of each API and version, which stay for ever."""
    for key, api in APIS.items():
        for version in range(api.request.versions.min, api.request.versions.max + 1):
            frame = b"".join(encode_request(key, version, 7, None, plain(api.request.body, version)))
            decode_request_body(decode_request_header(frame), frame)
            encode_response(key, version, 7, plain(api.response.body, version))


def fuzz(inputs: int, seed: int, *, measures: bool, keys: Sequence[ApiKey] = CLIENT_KEYS_IN_ORDER) -> dict[str, int]:
    """Play so many inputs; returns how many were answered. Errors: AssertionError, with the input.

    If it ``measures``, it does so at every second node: that takes longer than what is measured.
    """
    played = answered = 0
    frame = b""
    compile_all()
    for number, (node, source) in enumerate(nodes(seed)):
        is_measured = measures and number % 2 == 0
        if is_measured:
            tracemalloc.start()
        try:
            for _ in range(min(INPUTS_OF_A_NODE, inputs - played)):
                frame = an_input(source, keys)
                _take(node, frame, is_patient=source.random() < 0.1, is_measured=is_measured)
                answered += bool(node.sent)
                played += 1
            node.check_serves()
        except BaseException as error:
            error.add_note(f"input {played} of seed {seed} (node {seed + number}): {frame.hex()[:4_000]}")
            raise
        finally:
            tracemalloc.stop()
        if played >= inputs:
            break
    return {"played": played, "answered": answered}


def _take(node: Node, frame: bytes, *, is_patient: bool, is_measured: bool) -> None:
    before_bytes = 0
    if is_measured:
        tracemalloc.reset_peak()
        before_bytes, _ = tracemalloc.get_traced_memory()
    node.take(frame, is_patient=is_patient)
    if is_measured:
        cost_bytes = tracemalloc.get_traced_memory()[1] - before_bytes
        # An answer that repeats names of the request is there in parts, as a whole, and as what was sent here.
        answer_bytes = 3 * sum(len(raw) for _, raw in node.sent)
        most_bytes = COST_FACTOR_MAX * _counted_bytes(frame) + answer_bytes + COST_BYTES_MIN
        assert cost_bytes <= most_bytes, f"it takes {cost_bytes} bytes"


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", action="store_true", help="most requests are those of groups and offsets")
    chosen = parser.parse_args()
    keys = sorted(GROUP_KEYS) if chosen.groups else CLIENT_KEYS_IN_ORDER
    print(json.dumps(fuzz(chosen.inputs, chosen.seed, measures=True, keys=keys)))


if __name__ == "__main__":
    main()
