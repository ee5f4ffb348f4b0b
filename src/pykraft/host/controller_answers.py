"""Answers of a voter among Kafka's controllers to what is for their active one, which it never is.

Brokers and controllers ask the leader of the metadata log by themselves. A node of ours leads it for a moment at most,
so it answers NOT_CONTROLLER, and the sender asks the next leader. ApiVersions must name these APIs: a broker of Kafka
4.3.1 that misses one there fails the request, and never looks for another controller again. Nothing in such an answer
depends on the request, so the request is not read and the answers are constants but for the error: throttle time int32
but in Envelope, error int16, the default of each further field, no tagged fields.

Source: KIP-500, KIP-590 (Envelope), KIP-631 (brokers), KIP-858 (directories); Kafka's
``NodeToControllerRequestThread``, which disconnects and repeats the request; seen with Kafka 4.3.1 (ADR 078).
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Versions

_NO_TAGS: Final = b"\0"
_NULL: Final = b"\0"
_EMPTY_ARRAY: Final = b"\1"
_NO_THROTTLE: Final = bytes(4)
_HEADER: Final = struct.Struct(">i")


class ControllerApi(IntEnum):
    """APIs of Kafka's active controller that brokers and other controllers call by themselves."""

    ALTER_PARTITION = 56
    ENVELOPE = 58
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    ALLOCATE_PRODUCER_IDS = 67
    CONTROLLER_REGISTRATION = 70
    ASSIGN_REPLICAS_TO_DIRS = 73


@dataclass(frozen=True, slots=True)
class Constant:
    """The versions of an API, and what is in each answer behind the error and before it."""

    versions: Versions
    after: bytes
    before: bytes = _NO_THROTTLE


ANSWERS: Final[Mapping[int, Constant]] = {
    ControllerApi.ALTER_PARTITION: Constant(Versions(2, 3), _EMPTY_ARRAY),
    ControllerApi.ENVELOPE: Constant(Versions(0, 0), b"", _NULL),
    # Broker epoch -1.
    ControllerApi.BROKER_REGISTRATION: Constant(Versions(0, 4), struct.pack(">q", -1)),
    # Not caught up, fenced, not to shut down.
    ControllerApi.BROKER_HEARTBEAT: Constant(Versions(0, 2), bytes((False, True, False))),
    # No ids: the first is 0, and there are 0.
    ControllerApi.ALLOCATE_PRODUCER_IDS: Constant(Versions(0, 0), struct.pack(">qi", 0, 0)),
    ControllerApi.CONTROLLER_REGISTRATION: Constant(Versions(0, 0), _NULL),
    ControllerApi.ASSIGN_REPLICAS_TO_DIRS: Constant(Versions(0, 0), _EMPTY_ARRAY),
}
SERVED: Final[Mapping[int, Versions]] = {key: constant.versions for key, constant in ANSWERS.items()}


def answer(api_key: int, correlation_id: int, error: ErrorCode = ErrorCode.NOT_CONTROLLER) -> bytes:
    """The whole answer to a request of one of these APIs: response header v1, and the body."""
    constant = ANSWERS[api_key]
    body = constant.before + struct.pack(">h", error) + constant.after + _NO_TAGS
    return _HEADER.pack(correlation_id) + _NO_TAGS + body
