"""Compares this replica with the others, while the program runs, and ends a node whose state machine parts from them.

1. After ``check_every`` commands the leader writes a CHECK. Every replica takes a digest of its state and sessions when
   it applies that record: all of them have applied the same records then.
2. Every voter writes what it found into the log: the digest of the state, and that of each command since the last
   CHECK.
3. A node whose digests differ from those on which a majority of the voters agrees stops, with a report. If there is
   no such majority by the next CHECK, the largest group of two or more counts, and of two equal ones the one that came
   first. If no two replicas agree, nobody can say who is right, and all may be: `snapshot` may write what differs
   between processes, such as the order of a set. Then each logs it, and goes on.
4. The digests of the commands name the first one that had another answer here. With ``check_every=1`` they include the
   state, so the first command that led to another state is named, too.

Invariant: replicas that applied the same records and agree are never stopped, and digests of two kinds, or of replicas
with another `StateMachine.snapshot_version`, are never compared.

Source: ours (ADR 092); PostgreSQL's and FoundationDB's consistency checks compare replicas as well.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations
from typing import Any, Final
from zlib import crc32

from pykraft.errors import ReplicasPartedError
from pykraft.machine.records import COMMAND_DIGEST_SIZE_BYTES, CheckRecord, CommandRecord, DigestRecord
from pykraft.machine.replica import CommandAnswer, MachineReplica
from pykraft.text.words import counted

COMMANDS_KEPT: Final = 8_192
"""Commands since the last CHECK that can be named; a DIGEST of so many fits into a forwarded request."""
CHECK_EVERY_MAX: Final = 4_096
PIECE_RECORDS: Final = 200
"""Records of the state that are digested before other tasks of the loop run."""
STATE_SIZE_BYTES: Final = 16
SHOWN_BYTES: Final = 200
"""Bytes of a command and of its answer in a report."""
_SIZE: Final = COMMAND_DIGEST_SIZE_BYTES


@dataclass(frozen=True, slots=True)
class _Seen:
    """A command as this replica carried it out."""

    offset: int
    command: bytes
    answer: bytes
    digest: bytes


class StateCheck:
    """The comparison of one replica."""

    def __init__(
        self,
        replica: MachineReplica[Any, Any],
        every: int,
        voters: Callable[[], Iterable[int]],
        on_undecided: Callable[[ReplicasPartedError], object],
    ) -> None:
        """``voters`` tells the ids of the present voters; ``on_undecided`` is called when no two replicas agree."""
        self.every = every
        self.moved = asyncio.Event()
        """Set when there may be something to write."""
        self.count = 0
        """Commands since the last CHECK."""
        self.found: DigestRecord | None = None
        """What this replica found at the last CHECK."""
        self._replica = replica
        self._voters = voters
        self._on_undecided = on_undecided
        machine = replica.machine
        self._kind = crc32(f"{type(machine).__qualname__} {machine.snapshot_version} {every == 1}".encode())
        self._commands: deque[_Seen] = deque(maxlen=COMMANDS_KEPT)
        self._is_loaded = False
        """A snapshot was loaded since the last CHECK."""
        self._at_check: tuple[list[_Seen], bool] = ([], False)
        """The commands before the last CHECK, and whether a snapshot was loaded before it."""
        self._told: dict[int, DigestRecord] = {}
        """What voters found at the last CHECK, by node, in the order of the log."""
        replica.on_carried_out = self._carried_out

    def is_told(self, node_id: int) -> bool:
        """Whether the log has what this node found at the last CHECK."""
        return node_id in self._told

    def has_found(self, record: DigestRecord) -> bool:
        """True when this replica found just that at the last CHECK."""
        found = self.found
        return found is not None and record == replace(found, node_id=record.node_id, time_ms=record.time_ms)

    def loaded(self) -> None:
        """The replica has loaded a snapshot: what it applied before counts no more."""
        self._commands.clear()
        self.count, self.found, self._is_loaded = 0, None, True
        self._told = {}

    async def met(self, record: CheckRecord | DigestRecord, offset: int) -> None:
        """The replica applies a CHECK or a DIGEST. Errors: ReplicasPartedError."""
        if isinstance(record, CheckRecord):
            self._judge(is_last=True)
            await self._on_check(offset)
            return
        found = self.found
        if found is None or record.offset != found.offset or record.kind != found.kind:
            return
        self._told.setdefault(record.node_id, record)
        self._judge(is_last=False)

    async def _on_check(self, offset: int) -> None:
        # 1. A digest here, where all replicas have applied the same records.
        seen, self._at_check = list(self._commands), (list(self._commands), self._is_loaded)
        self._commands.clear()
        self._told, self._is_loaded, self.count = {}, False, 0
        digest = StateDigest()
        for number, part in enumerate(self._replica.save(), 1):
            digest.add(part)
            if number % PIECE_RECORDS == 0:
                await asyncio.sleep(0)
        commands = b"".join(one.digest for one in seen)
        # 2. `pykraft.machine.replicated` brings it into the log.
        self.found = DigestRecord(0, -1, offset, self._kind, digest.value(), commands)
        self.moved.set()

    def _carried_out(self, record: CommandRecord, offset: int, answer: CommandAnswer) -> None:
        digest = blake2b(answer.verdict.value.encode() + b" " + answer.value, digest_size=_SIZE)
        if self.every == 1:
            # 4. Each command with its state: for tests and small states.
            state = StateDigest()
            for part in self._replica.machine.snapshot():
                state.add(part)
            digest.update(state.value())
        seen = _Seen(offset, record.command[:SHOWN_BYTES], answer.value[:SHOWN_BYTES], digest.digest())
        self._commands.append(seen)
        self.count += 1
        if self.count % self.every == 0:
            self.moved.set()

    def _judge(self, *, is_last: bool) -> None:
        """Errors: ReplicasPartedError when others agree with each other, and not with this replica."""
        mine, told = self.found, list(self._told.values())
        if mine is None:
            return
        # 3. A majority of the voters decides at once, and the largest group at the next CHECK.
        majority = len(list(self._voters())) // 2 + 1
        ours = [rank for rank, one in enumerate(told) if _agree(one, mine)] or [len(told)]
        for rank, other in enumerate(told):
            if _agree(other, mine):
                continue
            theirs = [one for one in told if _agree(one, other)]
            is_larger = len(theirs) > len(ours) or (len(theirs) == len(ours) and rank < ours[0])
            if len(theirs) >= majority or (is_last and is_larger and len(theirs) > 1):
                raise self._parted(mine, other, [one.node_id for one in theirs])
        others = [one for one in told if not _agree(one, mine)]
        if is_last and others and not any(_agree(one, each) for one, each in combinations(told, 2)):
            self._on_undecided(self._parted(mine, others[0], [one.node_id for one in others]))

    def _parted(self, mine: DigestRecord, other: DigestRecord, nodes: list[int]) -> ReplicasPartedError:
        others = f"node {nodes[0]}" if len(nodes) == 1 else "nodes " + ", ".join(map(str, nodes))
        seen, is_loaded = self._at_check
        count = min(len(mine.commands), len(other.commands)) // _SIZE
        advice = "apply and snapshot may depend on the state, the command and the context alone"
        for one, theirs in zip(seen[len(seen) - count :], _digests(other.commands, count), strict=True):
            if one.digest != theirs:
                what = "gave another result" + (", or led to another state," if self.every == 1 else "")
                text = f"{what} here than on {others}: {_shown(one.command)}, answered with {_shown(one.answer)}"
                return ReplicasPartedError(
                    one.offset, f"the replicas have parted: the command at offset {one.offset} {text}; {advice}"
                )
        first = seen[-count].offset if count else mine.offset
        text = f"the state at offset {mine.offset} is another one here than on {others}, and all answers were alike"
        where = f"in one of the {counted(count, 'command')} from offset {first} on" if count else "before"
        if is_loaded:
            where += ", or with the snapshot that was loaded before it"
        hint = "" if self.every == 1 else "; check_every=1 names the first command"
        return ReplicasPartedError(first, f"the replicas have parted: {text}: it happened {where}{hint}; {advice}")


class StateDigest:
    """A digest of records in any order: equal states may be saved in different orders."""

    def __init__(self) -> None:
        self._total = 0

    def add(self, record: bytes) -> None:
        """Add a record."""
        self._total += int.from_bytes(blake2b(record, digest_size=STATE_SIZE_BYTES).digest())

    def value(self) -> bytes:
        """The digest of all records."""
        return (self._total % (1 << 8 * STATE_SIZE_BYTES)).to_bytes(STATE_SIZE_BYTES)


def _agree(one: DigestRecord, other: DigestRecord) -> bool:
    """Equal states, and equal answers to the commands that both have seen: the last ones."""
    count = min(len(one.commands), len(other.commands)) // _SIZE
    return one.state == other.state and _digests(one.commands, count) == _digests(other.commands, count)


def _digests(commands: bytes, count: int) -> list[bytes]:
    begin = len(commands) - count * _SIZE
    return [commands[at : at + _SIZE] for at in range(begin, len(commands), _SIZE)]


def _shown(data: bytes) -> str:
    return repr(data)[1:] if len(data) < SHOWN_BYTES else repr(data)[1:] + "…"
