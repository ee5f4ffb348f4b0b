"""Every error that pykraft raises, and whose fault it is.

    PykraftError
      ProtocolError            the peer's fault; carries the Kafka error code to answer with
      UsageError               the caller's fault
        ConfigError            a property: key, value, what is allowed
        NotLeaderError         retry at the leader that it names
        BufferFullError        retry later: the leader cannot write as fast as it is asked to
        RecordBatchTooLargeError  the records of one append do not fit into one batch
      LocalQuorumError         processes that were started here did not do what they should
      StorageError             the disk's: path, position, expected and found
        CorruptionError        bytes that are not what was written
        ForeignDirectoryError  a directory of another node or cluster
      FatalError             going on could lose what was acknowledged: the node stops

``AssertionError`` is our own bug and stops the node.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's error codes that the quorum speaks; a code not listed here stays a plain int."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    NETWORK_EXCEPTION = 13
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_RECORD = 87
    INVALID_UPDATE_VERSION = 95
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127


class PykraftError(Exception):
    """Root of all errors that pykraft raises on purpose."""


class ProtocolError(PykraftError):
    """A peer sent what the protocol does not allow; ``code`` is the Kafka error to answer with."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.code = code


class UsageError(PykraftError):
    """The caller asked for what cannot be done; the message says what to do instead."""


class ConfigError(UsageError):
    """A property is missing or has a value that is not allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"property {key} = {value!r}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class NotLeaderError(UsageError):
    """Only the leader takes this; ``leader_id`` is None when no leader is known."""

    def __init__(self, leader_id: int | None, epoch: int) -> None:
        known = "no leader is known" if leader_id is None else f"the leader is node {leader_id}"
        super().__init__(f"this node does not lead: {known} in epoch {epoch}")
        self.leader_id = leader_id
        self.epoch = epoch


class BufferFullError(UsageError):
    """The leader holds as much unwritten work as it may; nothing was appended."""


class RecordBatchTooLargeError(UsageError):
    """The records of one append are one batch, and do not fit into one; nothing was appended."""


class StorageError(PykraftError):
    """A file could not be read or written; a node that writes stops (a failed fsync is never retried)."""

    def __init__(self, path: object, problem: str, *, repair: str | None = None) -> None:
        super().__init__(f"{path}: {problem}" + (f"; {repair}" if repair else ""))
        self.path = str(path)
        self.problem = problem
        self.repair = repair


class CorruptionError(StorageError):
    """Bytes on disk are not what was written: where, what was expected, what was found."""

    def __init__(self, path: object, *, position: int, expected: str, found: str, repair: str | None = None) -> None:
        super().__init__(path, f"at position {position}: expected {expected}, found {found}", repair=repair)
        self.position = position
        self.expected = expected
        self.found = found


class ForeignDirectoryError(StorageError):
    """The directory belongs to another node or cluster."""


class FatalError(PykraftError):
    """Going on could lose what was acknowledged: the node stops. No file and no caller is to blame."""


class LocalQuorumError(PykraftError):
    """Processes of a local quorum did not do what was waited for, or their logs are not what they must be."""
