"""A leader for tests of client requests: a status, a configuration, batches in memory, and a core of lists.

`Leader.decide` plays the core: it accepts what was proposed, and the host's part encodes it.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

from crc32c import crc32c

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, NodeConfig
from pykraft.core.effects import NotifyLeaderChange, PlannedBatch
from pykraft.core.events import Proposed
from pykraft.core.log_view import LogView
from pykraft.core.status import Status
from pykraft.errors import ProtocolError
from pykraft.host.authorization import Guard
from pykraft.host.clients.client_requests import ClientRequests
from pykraft.host.delivery import Delivery
from pykraft.host.fetch_read import FetchReads, HeaderAndBytes, RecentBatches
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.inbox import Inbox
from pykraft.host.ports import ConnectionId
from pykraft.host.producers import Producers
from pykraft.protocol.api import decode_response, encode_response
from pykraft.protocol.batch import EncodedBatch, place_batch, read_header
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.protocol.schema import Body
from pykraft.security.acl_file import parse_acls
from pykraft.security.acls import Authorizer, AuthorizerSettings
from pykraft.security.principal import KnownEnd, Principal
from pykraft.types import Buffer, Epoch, NodeId, Offset, Uuid
from tests.host.fakes import CONTEXT, LISTENER, TOPIC_ID, TOPIC_NAME, FakePorts, at, listeners
from tests.host.fakes import config as node_config

AFTER_CRC = struct.Struct(">hiqqqhii")
AFTER_CRC_FIELDS = (
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
)
CRC = struct.Struct(">I")
LEADS = Status(
    role="leader",
    epoch=Epoch(4),
    leader_id=NodeId(1),
    leader_listeners=listeners(1),
    high_watermark=Offset(0),
    voters=node_config(1).voters,
)
FOLLOWS = LEADS._replace(role="follower", leader_id=NodeId(2), leader_listeners=listeners(2))


def config(**changes: Any) -> NodeConfig:
    """A node of three that serves clients on its one listener."""
    return replace(
        node_config(1), **{"client_listeners": (LISTENER,), "topic_name": TOPIC_NAME, "client_records": "any"} | changes
    )


def batch_of(
    values: Sequence[bytes] = (b"a",),
    *,
    at: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    timestamp_ms: int = 7,
) -> HeaderAndBytes:
    """A batch of a client, perhaps with a producer, at this offset of epoch 4."""
    encoded = encode_batch(values, base_offset=Offset(at), epoch=Epoch(4), timestamp_ms=timestamp_ms)
    if producer_id < 0:
        return encoded
    return with_header(encoded.data, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)


def with_header(data: Buffer, **changes: Any) -> EncodedBatch:
    """The batch with other fields behind its CRC, and a CRC that is right."""
    raw = resealed(data, **changes)
    return EncodedBatch(read_header(raw), raw)


def resealed(data: Buffer, **changes: Any) -> bytes:
    """The bytes of the batch with other fields behind its CRC, and a CRC that is right; they may break every rule."""
    raw = bytearray(data)
    fields = dict(zip(AFTER_CRC_FIELDS, AFTER_CRC.unpack_from(raw, 21), strict=True)) | changes
    AFTER_CRC.pack_into(raw, 21, *fields.values())
    CRC.pack_into(raw, 17, crc32c(bytes(raw[21:])))
    return bytes(raw)


class Log:
    """Reads nothing: every batch is in memory."""

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        """See `pykraft.host.fetch_read.ReadableLog`."""
        raise AssertionError((offset, size_bytes_max))

    def views(self) -> tuple[()]:
        """See `pykraft.host.fetch_read.ReadableLog`."""
        return ()


class Leader:
    """One node with its parts; ``status`` is what its core says."""

    def __init__(self, status: Status = LEADS, *, acls: str | None = None, **changes: Any) -> None:
        """With ``acls``, an authorizer has these rules; whoever asks is ``User:client``."""
        self.authorizer = None if acls is None else Authorizer(AuthorizerSettings(), parse_acls(acls, "test"))
        self.status = status
        self.ports = FakePorts()
        self.inbox = Inbox()
        self.producers = Producers(batch_size_bytes_max=100_000)
        self.recent = RecentBatches(end_offset=Offset(0))
        self.view = LogView(start_offset=Offset(0), end_offset=Offset(0), epochs=())
        self.answers: list[Body | None] = []
        self.closed: list[ProtocolError] = []
        self.requesters: dict[int, SimpleNamespace] = {}
        self.is_there = True
        self.reads = FetchReads(self.ports, Log(), self.recent, lambda *_: None)
        opening: Any = SimpleNamespace(files=None)
        self.delivery = Delivery(self.ports, Log(), self.recent, Offset(0), lambda *_: None, opening)
        leads = NotifyLeaderChange(epoch=Epoch(4), leader_id=NodeId(1), epoch_start_offset=Offset(-1))
        self.delivery.leader_changed(leads)
        self.groups = GroupLog(
            self.inbox, self.producers, self.delivery, lambda: self.status, config(**changes), first_offset=None
        )
        self.groups.poll(at(0))
        self.clients = ClientRequests(
            config(**changes),
            lambda: self.status,
            ports=self.ports,
            inbox=self.inbox,
            producers=self.producers,
            groups=self.groups,
            reads=self.reads,
            view=self.view,
            log=Log(),
            rng=Random(1),
            guard=None
            if self.authorizer is None
            else Guard(self.ports.report, CONTEXT, lambda: self.status.voters, authorizer=self.authorizer),
        )

    def ask(self, key: ApiKey, version: int, body: Body, *, connection: int = 1) -> None:
        """One request; what is answered is encoded and decoded, so that it fits its table."""
        fresh = SimpleNamespace(
            connection=ConnectionId(connection),
            listener=LISTENER,
            is_trusted=None,
            client_id="a-client",
            end=KnownEnd(Principal("client")),
        )
        requester = self.requesters.setdefault(connection, fresh)

        def answered(told: Body | ProtocolError | None) -> None:
            if isinstance(told, ProtocolError):
                self.closed.append(told)
                return
            if told is not None:
                raw = b"".join(bytes(part) for part in encode_response(key, version, 1, told))
                _, told = decode_response(key, version, raw)
            self.answers.append(told)

        self.on_gone = self.clients.handle(key, version, body, requester, lambda: self.is_there, answered)

    def answer(self) -> Any:
        """The only answer since the last one was taken."""
        [told], self.answers = self.answers, []
        return told

    def append(self, *batches: HeaderAndBytes, is_committed: bool = True) -> None:
        """These batches are in the log, one after the other."""
        for header, data in batches:
            placed = place_batch(header, data, base_offset=self.recent.end_offset, epoch=self.status.epoch)
            self.view.append(
                base_offset=placed.header.base_offset, end_offset=placed.header.end_offset, epoch=self.status.epoch
            )
            self.recent.append([placed])
            self.groups.appended([placed])
            self.clients.appended([placed])
        self.status = self.status._replace(log_end_offset=self.recent.end_offset)
        if is_committed:
            self.commit()

    def commit(self) -> None:
        """Everything is committed."""
        self.status = self.status._replace(high_watermark=self.recent.end_offset)
        self.producers.committed(self.recent.end_offset)
        self.delivery.committed(self.recent.end_offset)
        self.groups.after_step(self.status)
        self.clients.after_step(self.status)

    def take(self) -> None:
        """The next proposal is in the log, and everything is committed."""
        self.decide()
        self.commit()

    def decide(self) -> None:
        """The core accepts the next proposal, and it is in the log."""
        arrival = self.inbox.take()
        assert arrival is not None
        proposed = arrival.event
        assert isinstance(proposed, Proposed)
        assert proposed.is_batch
        self.producers.accepted(proposed.handle, self.recent.end_offset)
        plan = PlannedBatch(
            base_offset=self.recent.end_offset,
            end_offset=Offset(self.recent.end_offset + proposed.count),
            epoch=proposed.epoch,
            timestamp_ms=1,
            handles=(proposed.handle,),
        )
        self.append(self.producers.encode(plan), is_committed=False)

    def reject(self, error: Exception) -> None:
        """The core rejects the next proposal."""
        arrival = self.inbox.take()
        assert arrival is not None
        assert isinstance(arrival.event, Proposed)
        self.producers.reject(arrival.event.handle, error)

    def lose(self) -> None:
        """Another node leads the next epoch."""
        self.status = FOLLOWS._replace(epoch=Epoch(5), log_end_offset=self.status.log_end_offset)
        self.producers.lost(None)
        self.groups.after_step(self.status)
        self.clients.after_step(self.status)


def produce(records: Buffer | None, *, name: str = TOPIC_NAME, index: int = 0, **changes: Any) -> Body:
    """The body of a Produce request, of any version."""
    topic_id = {TOPIC_NAME: TOPIC_ID, METADATA_TOPIC_NAME: METADATA_TOPIC_ID}.get(name, bytes(range(16)))
    topic = {"name": name, "topic_id": topic_id, "partition_data": [{"index": index, "records": records}]}
    return {"transactional_id": None, "acks": -1, "timeout_ms": 1, "topic_data": [topic]} | changes


def fetch(offset: int, *, topic: str = TOPIC_NAME, partition: int = 0, epoch: int = -1, **changes: Any) -> Body:
    """The body of a consumer's Fetch request, as decoded."""
    wanted = {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "partition_max_bytes": 1_000_000,
    }
    return {
        "replica_id": -1,
        "replica_state": {"replica_id": -1, "replica_epoch": -1},
        "cluster_id": None,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "topic_id": Uuid(bytes(16)), "partitions": [wanted]}],
    } | changes
