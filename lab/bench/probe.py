"""Asks the leader of a running quorum for its high watermark; the same request for Java nodes and ours.

The request is a Fetch from an offset that no log reaches (2^60), with the leader's epoch as the last epoch. The leader
answers at once that the logs diverge; the answer has its high watermark and no records. With another epoch, or from
another node, the answer names the leader and its epoch for the next request.

It keeps one connection.

Source: KIP-595 §Fetch (diverging epoch, current leader); Kafka's ``KafkaRaftClient.validateFetchOffsetAndEpoch``.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Final

from lab.bench.contender import Watermark
from pykraft.errors import ErrorCode, LocalQuorumError, ProtocolError
from pykraft.local.ports import HOST
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.frame import FrameReader, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body

FAR_OFFSET: Final = 2**60
TOPIC_ID: Final = struct.pack(">qq", 0, 2)
"""The only topic of a raft test server."""
FETCH_VERSION: Final = 17
"""Not negotiated: when we did, the probe got no high watermark from Kafka's test server."""
ANSWER_SIZE_BYTES_MAX: Final = 64 * 1024
ANSWER_TIMEOUT_S: Final = 20.0
"""A leader under an unthrottled load may take long to answer."""
_RECEIVE_SIZE_BYTES: Final = 16 * 1024


class Probe:
    """Asks a quorum, given by the ports of its voters."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = dict(ports)
        self._asked_id = min(ports)
        self._epoch = 0
        self._correlation_id = 0
        self._connection: socket.socket | None = None

    def ask(self) -> Watermark | None:
        """The high watermark; None while no leader that knows it can be reached.

        Errors: LocalQuorumError for a malformed answer.
        """
        for _ in range(len(self._ports) + 1):
            try:
                partition = self._exchange()
            except (OSError, EOFError):
                self._hang_up()
                self._asked_id = self._after(self._asked_id)
                return None
            except ProtocolError as error:
                self._hang_up()
                raise LocalQuorumError(f"node {self._asked_id} sent an invalid Fetch response: {error}") from error
            error_code, told = partition["error_code"], partition["current_leader"]
            if error_code == ErrorCode.NONE:
                return self._watermark(partition)
            if told["leader_id"] in self._ports and (told["leader_id"], told["leader_epoch"]) != self._target:
                self._aim(told["leader_id"], told["leader_epoch"])
            else:
                break
        self._aim(self._after(self._asked_id), self._epoch)
        return None

    def close(self) -> None:
        """Close the connection."""
        self._hang_up()

    @property
    def _target(self) -> tuple[int, int]:
        return self._asked_id, self._epoch

    def _watermark(self, partition: Body) -> Watermark | None:
        offset = partition["high_watermark"]
        if offset < 0:
            return None
        return Watermark(offset=offset, leader_id=self._asked_id, epoch=self._epoch, at_s=time.monotonic())

    def _after(self, node_id: int) -> int:
        """The next voter in turn."""
        ids = sorted(self._ports)
        return ids[(ids.index(node_id) + 1) % len(ids)]

    def _aim(self, node_id: int, epoch: int) -> None:
        if node_id != self._asked_id:
            self._hang_up()
        self._asked_id, self._epoch = node_id, max(epoch, 0)

    def _exchange(self) -> Body:
        """Send one request and read its answer. Errors: OSError, EOFError, ProtocolError."""
        if self._connection is None:
            address = (HOST, self._ports[self._asked_id])
            self._connection = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        self._correlation_id += 1
        parts = encode_request(ApiKey.FETCH, FETCH_VERSION, self._correlation_id, "pykraft-bench", self._question())
        self._connection.sendall(b"".join(frame(parts)))
        reader = FrameReader(ANSWER_SIZE_BYTES_MAX)
        frames = reader.feed(b"")
        while not frames:
            data = self._connection.recv(_RECEIVE_SIZE_BYTES)
            if not data:
                raise EOFError("the node closed the connection")
            frames = reader.feed(data)
        correlation_id, body = decode_response(ApiKey.FETCH, FETCH_VERSION, frames[0])
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"the response has correlation id {correlation_id}, expected {self._correlation_id}")
        if body["error_code"] != ErrorCode.NONE or not body["responses"] or not body["responses"][0]["partitions"]:
            raise ProtocolError(f"error {body['error_code']} without a partition")
        partition: Body = body["responses"][0]["partitions"][0]
        return partition

    def _question(self) -> Body:
        partition = {
            "partition": 0,
            "current_leader_epoch": self._epoch,
            "fetch_offset": FAR_OFFSET,
            "last_fetched_epoch": self._epoch,
            "partition_max_bytes": 0,
        }
        return {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "isolation_level": 0,
            "session_id": 0,
            "topics": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
