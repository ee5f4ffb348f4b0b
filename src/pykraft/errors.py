"""Every error that pykraft raises, and whose fault it is.

    PykraftError
      ProtocolError            the peer's fault; carries the Kafka error code to answer with
        AuthenticationError    the other end has not proven who it is, or refuses what this one proves
        TooManyElementsError   an array of a message with more elements than any correct sender needs
      UsageError               the caller's fault
        ConfigError            a property: key, value, what is allowed
          AddressInUseError    another process listens there: retry when it has ended
        NotLeaderError         retry at the leader that it names
        BufferFullError        retry later: the leader cannot write fast enough
          LeadershipTransferError  retry in a moment: the leader hands over
        RecordBatchTooLargeError  the records of one append do not fit into one batch
        SnapshotTooLargeError  the application's state does not fit into a snapshot
        CompactedError         changes that the key-value store no longer keeps: the oldest revision that it has
        TruncatedLogError      a reader has read further than the log reaches now, or other records than it has now
        ForeignClusterError    nodes of another cluster than expected
      NotRunningError          the node is not started yet, or has ended
      OutcomeUnknownError      the request may have taken effect: the leadership, the node or the connection was lost
      NotAppliedError          a command was certainly not applied, and never will be
      CommandRejectedError     the state machine rejected a command: everywhere, and for good
      LeaseLostError           a lease may have ended before its holder was done: others may hold what it held
      RefusedError             the leader rejected the request: the Kafka error code, and why
      ShutdownTimeoutError     no other node took over in time; the node has left anyway
      ReplicasPartedError      this node's state machine gave another result, or has another state, than most others
      CodeVersionError         the quorum has agreed on commands that this node's code does not know
      DeserializeError         the application's serde cannot read a committed record: its offset
      UnknownRecordError       a committed record that this version of `pykraft.machine` cannot read
        ForeignRecordError     the same, of no version: somebody else wrote it
      UnreachableError         one node is down, does not answer, or is not a node of a quorum
      QuorumUnavailableError   no known node answers, or none leads
      LocalQuorumError         processes of a local quorum did not do what they should
      StorageError             the disk's fault: path, position, expected and found
        CorruptionError        bytes that differ from what was written
          ReadError            bytes that the disk cannot read
        SnapshotFailedError    a snapshot file that cannot be written or read; the node goes on
        ForeignDirectoryError  a directory of another node or cluster
        UnusableLogError       files that are sound, but cannot be the whole log of a replica

``AssertionError`` is our own bug and stops the node.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from pykraft.text.secrets import MASK, is_secret


class ErrorCode(IntEnum):
    """Kafka's error codes that the quorum speaks; a code not listed here stays a plain int."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELECTION_NOT_NEEDED = 84
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    INVALID_UPDATE_VERSION = 95
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_CLUSTER_ID = 104
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    CONTROLLER_ID_NOT_REGISTERED = 136


def error_name(code: int) -> str:
    """Kafka's name of a code, or the number alone."""
    known = code in ErrorCode._value2member_map_
    return ErrorCode(code).name if known else f"error {code}"


class PykraftError(Exception):
    """Root of all errors that pykraft raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        """For errors of worker processes: Python would make them anew with the message as the only argument."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


class ProtocolError(PykraftError):
    """A peer sent what the protocol does not allow; ``code`` is the Kafka error to answer with."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.code = code


class AuthenticationError(ProtocolError):
    """The other end has not proven who it is; ``told`` is the reason that it may learn, None for no particular one."""

    def __init__(self, message: str, told: str | None = None) -> None:
        super().__init__(message, ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.told = told


class TooManyElementsError(ProtocolError):
    """An array of a message has more elements than any correct sender needs."""


class UsageError(PykraftError):
    """The caller asked for something impossible; the message says what to do instead."""


class ConfigError(UsageError):
    """A property is missing or has an invalid value; ``origin`` says where the value comes from, if that is known.

    An option that stands for a property, such as an address, is named as it is. The value of a secret is not kept.
    """

    def __init__(self, key: str, value: object, allowed: str, *, origin: str = "") -> None:
        where = f"{origin}: " if origin else ""
        value = MASK if value and is_secret(key) else value
        self.is_missing = allowed.startswith("is required")
        given = "" if self.is_missing else f" = {value!r}:"
        what = key if key.startswith("--") else f"property {key}"
        super().__init__(f"{where}{what}{given} {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed
        self.origin = origin


class AddressInUseError(ConfigError):
    """Another process listens on an address that a property gives; starting again later may succeed."""


class NotLeaderError(UsageError):
    """Only the leader accepts this; ``leader_id`` is None if no leader is known."""

    def __init__(self, leader_id: int | None, epoch: int) -> None:
        known = "no leader is known" if leader_id is None else f"the leader is node {leader_id}"
        super().__init__(f"this node does not lead: {known} in epoch {epoch}")
        self.leader_id = leader_id
        self.epoch = epoch


class BufferFullError(UsageError):
    """The leader has as much unwritten data as it may; nothing was appended."""


class LeadershipTransferError(BufferFullError):
    """The leader hands over to ``target_id`` and accepts nothing until that is over; nothing was appended."""

    def __init__(self, target_id: int) -> None:
        super().__init__(f"the leadership is being transferred to node {target_id}: propose again in a moment")
        self.target_id = target_id


class RecordBatchTooLargeError(UsageError):
    """The records of one append form one batch, and do not fit into it; nothing was appended."""


class SnapshotTooLargeError(UsageError):
    """A snapshot would be larger than this node may write; it was removed."""


class TruncatedLogError(UsageError):
    """A reader has read further than the log now reaches, or the log has other records there."""


class NotRunningError(PykraftError):
    """The node cannot do this now: it is not initialized yet, or it has ended."""


class CompactedError(UsageError):
    """The changes from this revision on are no longer kept: read the keys, and watch from ``oldest_revision`` on."""

    def __init__(self, revision: int, oldest_revision: int) -> None:
        super().__init__(f"revision {revision} is no longer kept: the oldest one is {oldest_revision}")
        self.revision = revision
        self.oldest_revision = oldest_revision


class OutcomeUnknownError(PykraftError):
    """The request may or may not have taken effect, and may still do so: no answer came that decides it.

    For an append, ``count`` records are at ``base_offset`` in the log of the node that led ``epoch``. The next leader
    keeps all of them or none; a listener that keeps reading learns which. These fields are None for everything else.

    For a command of a state machine, ``command`` is for `pykraft.machine.Replicated.resume`; None where nobody can know
    any more.
    """

    def __init__(
        self, story: str, *, base_offset: int | None = None, epoch: int | None = None, count: int | None = None
    ) -> None:
        super().__init__(story)
        self.base_offset = base_offset
        self.epoch = epoch
        self.count = count
        self.command: UnfinishedCommand | None = None


class UnfinishedCommand(NamedTuple):
    """A command whose outcome is unknown: what another call, on any node, needs to learn it. It can be pickled."""

    session_id: int
    sequence: int
    data: bytes


class NotAppliedError(PykraftError):
    """A command of a state machine did not reach the log, and never will: it can be executed again."""


class CommandRejectedError(PykraftError):
    """The state machine rejected a command: its ``apply`` raises this, and the caller gets it."""


class LeaseLostError(PykraftError):
    """A lease could not be kept in time: it has ended, or may end before its holder hears of it."""


class ShutdownTimeoutError(PykraftError, TimeoutError):
    """The node led, and no other node took over within the shutdown timeout. It has left anyway."""


class DeserializeError(PykraftError):
    """The application's serde cannot read a committed record; the cause is the serde's exception."""

    def __init__(self, offset: int, epoch: int, problem: str) -> None:
        super().__init__(f"the record at offset {offset} (epoch {epoch}) cannot be read: {problem}")
        self.offset = offset
        self.epoch = epoch


class CodeVersionError(PykraftError):
    """The quorum has agreed on commands of a newer version of the state machine than this node's code knows."""

    def __init__(self, known: int, agreed: int) -> None:
        super().__init__(
            f"this node has version {known} of the state machine's code, and the quorum has agreed on version {agreed}:"
            " start it with the newer code, and it goes on where it was"
        )
        self.known = known
        self.agreed = agreed


class UnknownRecordError(PykraftError):
    """This version of `pykraft.machine` does not know a committed record: a newer one wrote it."""


class ForeignRecordError(UnknownRecordError):
    """A committed record that no version of `pykraft.machine` writes or reads: another program appended it."""


class ReplicasPartedError(PykraftError):
    """The state machine of this node gave another result, or has another state, than those of most nodes.

    ``offset`` is that of the first command after which they are known to differ.
    """

    def __init__(self, offset: int, story: str) -> None:
        super().__init__(story)
        self.offset = offset


class RefusedError(PykraftError):
    """The leader of a quorum rejected a request: ``code`` is Kafka's error, and the text says why."""

    def __init__(self, what: str, code: int, text: str | None) -> None:
        super().__init__(f"{what} was refused: {error_name(code)}" + (f": {text}" if text else ""))
        self.code = code
        self.text = text


class StorageError(PykraftError):
    """A file could not be read or written; a node that cannot write stops (a failed fsync is never retried)."""

    def __init__(self, path: object, problem: str, *, repair: str | None = None) -> None:
        super().__init__(f"{path}: {problem}" + (f"; {repair}" if repair else ""))
        self.path: str = str(path)
        self.problem = problem
        self.repair = repair


class CorruptionError(StorageError):
    """Bytes on disk differ from what was written: where, what was expected, what was found."""

    def __init__(self, path: object, *, position: int, expected: str, found: str, repair: str | None = None) -> None:
        super().__init__(path, f"at position {position}: expected {expected}, found {found}", repair=repair)
        self.position = position
        self.expected = expected
        self.found = found


class ReadError(CorruptionError):
    """The disk cannot read these bytes; readers treat them like other damage."""


class SnapshotFailedError(StorageError):
    """A snapshot file cannot be written or read now; nothing was promised on it, and the node goes on without it."""

    @classmethod
    def of(cls, error: StorageError) -> SnapshotFailedError:
        """The same problem; what repairs a node that has ended is left out."""
        return cls(error.path, error.problem)


class ForeignDirectoryError(StorageError):
    """The directory belongs to another node or cluster."""


class UnusableLogError(StorageError):
    """No start can go on with the files of a log, though none is damaged: some are missing, or Kafka must mend them."""


class LocalQuorumError(PykraftError):
    """Processes of a local quorum did not do what was expected within the timeout, or their logs are wrong."""


class ForeignClusterError(UsageError):
    """Nodes belong to another cluster than expected."""


class UnreachableError(PykraftError):
    """One node gave no usable answer: it is down, does not answer, or is not a node of a quorum.

    ``has_answered``: it is a node of a quorum, and only does not lead.
    """

    def __init__(self, endpoint: object, problem: str, *, has_answered: bool = False) -> None:
        super().__init__(f"{endpoint}: {problem}")
        self.endpoint = endpoint
        self.problem = problem
        self.has_answered = has_answered


class QuorumUnavailableError(PykraftError):
    """No known node could answer within the timeout: all are unreachable, or none leads. Try again later.

    ``story`` says what was wrong with each node, if that is known.
    """

    def __init__(self, text: str, story: str = "") -> None:
        super().__init__(f"{text}: {story}" if story else text)
        self.story = story
