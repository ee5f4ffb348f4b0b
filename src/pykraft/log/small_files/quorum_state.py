"""``quorum-state``, which stores epoch, leader and vote, and ``quorum-state.check`` beside it.

``quorum-state`` is one line of JSON, the same bytes as Kafka's, replaced by rename (-1 and the zero UUID mean none):

    v0 {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,
        "currentVoters":[{"voterId":1}],"data_version":0}
    v1 {"leaderId":-1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"<UUID>","data_version":1}

``quorum-state.check`` is a `SlotFile` of ours (Java ignores it). It has complete copies, each with a CRC, of the newest
content and of the one before; an empty copy means that there was no file. It is needed because JSON has no checksum,
and a bit flip in the stored vote could make the node vote twice.

One write takes three steps:

1. Overwrite the slot of the content before the previous one with the new content, and sync it.
2. Write and sync ``quorum-state.tmp``, and rename it over ``quorum-state``.
3. Sync the directory.

This never refuses the result of a crash, and never accepts a changed byte:

- A crash within 1 leaves ``quorum-state`` unchanged. The newest whole slot equals it or, if the new slot reached the
  disk, the slot before does.
- A crash within 2 or 3 leaves ``quorum-state`` equal to the newest slot or to the one before.
- A crash leaves nothing else. So any other content of ``quorum-state``, even one flipped bit, and also its absence, is
  damage or the work of another program (a Java node). It is refused with the repair.
- If ``quorum-state`` equals the older slot, the next start finishes the interrupted write. That is safe: the node
  decided the new election but told nobody, so it merely remembers more than it promised. This also repairs a file
  system that loses a synced rename.
- The check file appears whole, by rename, before our first write. If it is absent, only Java wrote here.

Source: KIP-595 §Quorum State, KIP-853; Kafka's ``FileQuorumStateStore``, ``QuorumStateData``.
"""

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import CorruptionError, UsageError
from pykraft.log.fs import Fs, write_atomically
from pykraft.log.small_files.slots import SlotFile
from pykraft.types import ZERO_UUID, Election, Epoch, NodeId, ReplicaKey, Uuid, uuid_parse, uuid_text

FILE_NAME = "quorum-state"
CHECK_NAME = "quorum-state.check"
_NONE = -1
_ID_MAX = 2**31 - 1
REPAIR_FILE = (
    "restore quorum-state from a copy of this replica; or, but never for an only voter, remove the replica from the "
    "quorum and start it anew with an empty directory: a replica that forgets its vote may vote twice"
)
REPAIR_CHECK = (
    "if a Kafka node wrote quorum-state after pykraft did, remove quorum-state.check; "
    "else restore quorum-state from the newest copy in quorum-state.check"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredElection:
    """Content of ``quorum-state``; ``voters`` is empty in data version 1."""

    election: Election
    voters: tuple[NodeId, ...]
    data_version: int


class ElectionStore:
    """Both files of one partition directory. One writer, one thread."""

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs = fs
        self._path = directory / FILE_NAME
        self._check_path = directory / CHECK_NAME
        self._check: SlotFile | None = None
        self._is_loaded = False

    def read(self) -> StoredElection | None:
        """The stored election, durable when it is returned; None when there is none yet.

        It first finishes an interrupted write (see the module).

        Errors: CorruptionError with file, expected, found and repair; the node must not start.
        """
        content = self._fs.read(self._path) if self._fs.exists(self._path) else None
        if self._check is None and self._fs.exists(self._check_path):
            self._check = SlotFile.open(self._fs, self._check_path, repair=REPAIR_CHECK)
        if self._check is not None and self._check.newest.payload != (content or b""):
            # The content must be the older slot: a crash interrupted the write between steps 1 and 3. Finish it.
            self._refuse_unknown(self._check, content or b"")
            content = self._check.newest.payload
            write_atomically(self._fs, self._path, content)
        self._is_loaded = True
        if content is None:
            return None
        stored = parse_quorum_state(self._path, content)
        self._sync()
        return stored

    def write(self, election: Election, *, voters: tuple[NodeId, ...], kraft_version: int) -> None:
        """Replace the election; durable when it returns.

        ``kraft_version`` 0 writes data version 0, which names the voters and drops the directory id of a vote. From 1
        on, data version 1 does the opposite. The module explains the numbered steps.
        """
        if not self._is_loaded:
            self.read()
        if self._check is None:
            before = self._fs.read(self._path) if self._fs.exists(self._path) else b""
            # Our first write: keep what is there (Java's file or nothing), so that a slot has it after a crash in 2.
            self._check = SlotFile.create(self._fs, self._check_path, before)
        content = encode_quorum_state(election, voters=voters, kraft_version=kraft_version)
        # 1. The new content reaches a slot, durably, before quorum-state changes.
        self._check.write(content)
        self._check.sync()
        # 2. and 3. Replace the file and sync the directory.
        write_atomically(self._fs, self._path, content)

    def close(self) -> None:
        if self._check is not None:
            self._check.close()
            self._check = None
            self._is_loaded = False

    def _refuse_unknown(self, check: SlotFile, content: bytes) -> None:
        """Refuse content that is neither the newest nor the previous copy."""
        previous = check.previous
        if previous is not None and content == previous.payload:
            return
        newest = check.newest.payload
        differing = (at for at, (ours, theirs) in enumerate(zip(newest, content, strict=False)) if ours != theirs)
        raise CorruptionError(
            self._path,
            position=next(differing, min(len(newest), len(content))),
            expected=f"{shown(newest)} as in {CHECK_NAME}",
            found=shown(content),
            repair=REPAIR_CHECK,
        )

    def _sync(self) -> None:
        """Make the file durable before use: a killed process may have left it in the page cache only."""
        with closing(self._fs.open(self._path, write=True)) as file:
            file.sync()
        self._fs.sync_dir(self._path.parent)


def encode_quorum_state(election: Election, *, voters: tuple[NodeId, ...], kraft_version: int) -> bytes:
    """The file's bytes, keys in Kafka's order."""
    leader_id = _NONE if election.leader_id is None else election.leader_id
    voted_id = _NONE if election.voted is None else election.voted.id
    fields: dict[str, object]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": election.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters],
            "data_version": 0,
        }
    else:
        directory_id = election.voted.directory_id if election.voted else None
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": election.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_text(directory_id or ZERO_UUID),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_quorum_state(path: Path, content: bytes) -> StoredElection:
    """The election in these bytes; unknown keys are skipped.

    Errors: CorruptionError for anything but a quorum-state of data version 0 or 1.
    """
    try:
        fields = _object(json.loads(content.decode()))
        version = _int(fields, "data_version", 0, 1)
        leader_id = _int(fields, "leaderId", _NONE, _ID_MAX)
        voted_id = _int(fields, "votedId", _NONE, _ID_MAX)
        voters = _voters(fields) if version == 0 else ()
        voted_directory_id = _directory_id(fields) if version == 1 else None
        voted = None if voted_id == _NONE else ReplicaKey(NodeId(voted_id), voted_directory_id)
        return StoredElection(
            election=Election(
                epoch=Epoch(_int(fields, "leaderEpoch", 0, _ID_MAX)),
                leader_id=None if leader_id == _NONE else NodeId(leader_id),
                voted=voted,
            ),
            voters=voters,
            data_version=version,
        )
    except (ValueError, UsageError, RecursionError) as error:
        raise CorruptionError(
            path,
            position=0,
            expected="a quorum-state of data version 0 or 1",
            found=f"{shown(content)} ({error})",
            repair=REPAIR_FILE,
        ) from error


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UsageError("not an object")
    return value


def _int(fields: dict[str, object], key: str, least: int, most: int) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{key} = {value!r}, allowed are {least} to {most}")
    return value


def _voters(fields: dict[str, object]) -> tuple[NodeId, ...]:
    entries = fields.get("currentVoters")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError("currentVoters is not a list of objects")
    return tuple(NodeId(_int(entry, "voterId", 0, _ID_MAX)) for entry in entries)


def _directory_id(fields: dict[str, object]) -> Uuid | None:
    value = fields.get("votedDirectoryId")
    if not isinstance(value, str):
        raise UsageError(f"votedDirectoryId = {value!r}")
    directory_id = uuid_parse(value)
    return None if directory_id == ZERO_UUID else directory_id


def shown(content: bytes) -> str:
    """The beginning of a file, for an error."""
    return repr(content[:300].decode("utf-8", "replace")) if content else "nothing"
