"""Reports for the operator of a node that takes no part: why it has no leader, and why it is no voter.

No leader: nothing is reported while one is known or was known until a moment ago; the reports then come at growing
intervals, and one more says when it is over. A voter that has lost its majority campaigns and then tries its former
leader again, for ever: it has a leader again only when that one answers.

Voter mismatch: one report when node and voter set do not match, another only when the mismatch changes, and one when
they match again; with what the voter set expects, what this node is, and which commands fix it.

Invariant: no report asks for a wake-up or changes anything, so a node runs the same without them.

Source: ADR 051; KIP-853 §Disk failure, where Kafka reports nothing: such a node fetches for ever without a vote.
"""

from collections.abc import Callable
from os.path import basename
from typing import Final

from pykraft.config import NodeConfig
from pykraft.core.effects import Report
from pykraft.core.status import Status
from pykraft.host.peers import PeerProblem, Peers
from pykraft.host.ports import Ports
from pykraft.text.words import counted
from pykraft.types import Instant, ReplicaKey, ReportKind, Voter, VoterSet, uuid_text


class VoterMismatch:
    """For the node with this key; call `poll` after every step."""

    def __init__(self, ports: Ports, config: NodeConfig, key: ReplicaKey | None) -> None:
        self._ports = ports
        self._config = config
        self._key = key if config.may_vote else None
        self._seen: VoterSet | None = None
        self._due_ms: int | None = None
        """When to report a mismatch with the voter set that was seen last (mono ms); None without one to report."""
        self._reported: str | None = None

    def poll(self, status: Status, now: Instant) -> None:
        """Compare the node with the voter set in force: report a match at once, a mismatch after a fetch timeout."""
        voters = status.voters
        if self._key is None:
            return
        # A voter set is immutable, so another set is another object.
        if voters is not self._seen:
            self._seen = voters
            is_match = voters.is_voter(self._key)
            # A node that fetches the whole log passes through all earlier voter sets within moments, and most of them
            # do not match it. So a mismatch is due only when its voter set has been in force for a while.
            self._due_ms = now.mono_ms + (0 if is_match else self._config.raft.fetch_timeout_ms)
        if self._due_ms is None or now.mono_ms < self._due_ms:
            return
        self._due_ms = None
        told, self._reported = self._reported, self._mismatch(status, self._key)
        if self._reported == told:
            return
        if self._reported is None:
            self._ports.report(Report(text=f"node {self._key.id} is a voter now"))
        else:
            is_alarm = voters.get(self._key.id) is not None
            self._ports.report(Report(text=self._reported, is_alarm=is_alarm))

    def _mismatch(self, status: Status, key: ReplicaKey) -> str | None:
        voters = status.voters
        entry = voters.get(key.id)
        if not len(voters) or voters.is_voter(key):
            return None
        command = f"pykraft quorum --bootstrap-controller {self._bootstrap(voters, key)}"
        add = f"{command} add-controller --command-config FILE, with the properties file of this node"
        if entry is not None:
            return self._replaced(entry, key, f"{command} remove-controller", add)
        what = f"node {key.id} is not among the voters {', '.join(map(str, voters.ids))}: it only observes"
        if status.kraft_version < 1:
            return f"{what}; to make it one, name it in controller.quorum.voters of all nodes"
        if self._config.raft.auto_join:
            return f"{what} until it has joined by itself"
        return f"{what}; to make it one, when it has caught up: {add}"

    def _replaced(self, entry: Voter, key: ReplicaKey, remove: str, add: str) -> str:
        """The report for a voter set that has this id with another directory id."""
        assert entry.key.directory_id is not None, "an entry without one matches any"
        assert key.directory_id is not None
        expected, found = uuid_text(entry.key.directory_id), uuid_text(key.directory_id)
        what = f"the voters expect node {key.id} with directory id {expected}, and its directory has {found}"
        if self._config.raft.auto_join:
            return f"{what}: it only observes until it has replaced the old entry by itself"
        removal = f"{remove} --controller-id {key.id} --controller-directory-id {expected}"
        mend = f"start it on its former directory; or, if that is lost: {removal}; then, when it has caught up: {add}"
        return f"{what}: it only observes; {mend}"

    def _bootstrap(self, voters: VoterSet, key: ReplicaKey) -> str:
        """The endpoint of another voter for the command to ask."""
        others = (voter.listeners for voter in voters.voters if voter.key.id != key.id)
        endpoints = (listeners.get(self._config.default_listener) for listeners in others)
        return next((str(endpoint) for endpoint in endpoints if endpoint is not None), "HOST:PORT")


FIRST_MS: Final = 3_000
"""A leader is elected within less than this if a majority is there; longer election timeouts make it longer."""
INTERVAL_MS_MAX: Final = 300_000
UNANSWERED_MS_MIN: Final = 1_000
PEERS_TOLD_MAX: Final = 10
PROSPECTIVE: Final = "prospective"
"""First word of both names of a replica that asks for pre-votes."""


class LeaderlessReport:
    """For the node with this key; call `poll` about every second, or more often."""

    def __init__(self, ports: Ports, config: NodeConfig, key: ReplicaKey | None, peers: Peers) -> None:
        self._ports = ports
        self._key = key
        self._peers = peers
        self._first_ms = max(FIRST_MS, 3 * config.raft.election_timeout_ms)
        self._since_ms: int | None = None
        """Since when there is no leader (mono ms); None while there is one."""
        self._due_ms = 0
        self._interval_ms = self._first_ms
        self._is_told = False
        self.own_problem: str | None = None
        """What kept this node from voting at the last look, for a client."""

    def poll(self, status: Status, now: Instant) -> None:
        """Note what keeps this node from voting, and report what is due."""
        self.own_problem = own_problem(status, self._key)
        if self._is_led(status, now):
            self._end(status, now)
            return
        if self._since_ms is None:
            self._since_ms = now.mono_ms
            self._interval_ms = self._first_ms
            self._due_ms = now.mono_ms + self._first_ms
        if now.mono_ms < self._due_ms:
            return
        self._interval_ms = min(2 * self._interval_ms, INTERVAL_MS_MAX)
        self._due_ms = now.mono_ms + self._interval_ms
        # An embedded node logs warnings by default: it must not wait in silence for others that never come.
        kind = ReportKind.LEADERLESS if self._is_told else ReportKind.EVENT
        self._is_told = True
        own = own_problem(status, self._key, it="this node", its="this node's", path_of=str)
        reasons = "; ".join([*filter(None, [own]), *self._of_peers(status, now)]) or "no other node was asked yet"
        self._ports.report(Report(text=f"no leader for {_seconds(self._since_ms, now)}: {reasons}", kind=kind))

    def _is_led(self, status: Status, now: Instant) -> bool:
        if status.serving_leader is None or status.role.startswith(PROSPECTIVE):
            return False
        # A campaign that nobody answered ends with the leader that was known before it, though that may be gone.
        is_doubtful = self._since_ms is not None
        return not (is_doubtful and any(each.peer.id == status.leader_id for each in self._lasting_problems(now)))

    def _lasting_problems(self, now: Instant) -> list[PeerProblem]:
        """The problems of peers without those that were asked just now, since they may still answer."""
        return [each for each in self._peers.problems() if now.mono_ms - each.since_ms >= UNANSWERED_MS_MIN]

    def _end(self, status: Status, now: Instant) -> None:
        since_ms, self._since_ms = self._since_ms, None
        if since_ms is None or not self._is_told:
            return
        self._is_told = False
        waited = _seconds(since_ms, now)
        text = f"node {status.leader_id} leads epoch {status.epoch}, after {waited} without a leader"
        self._ports.report(Report(text=text))

    def _of_peers(self, status: Status, now: Instant) -> list[str]:
        """What is wrong with each peer that could help: the voters in force, and the bootstrap servers."""
        told: list[str] = []
        for problem in self._lasting_problems(now):
            peer = problem.peer
            # A voter that was removed cannot help.
            if peer.id >= 0 and peer.id not in status.voters.ids:
                continue
            who = "bootstrap server" if peer.id < 0 else f"voter {peer.id} at"
            told.append(f"{who} {peer.endpoint}: {problem.text}, for {_seconds(problem.since_ms, now)}")
        rest = len(told) - PEERS_TOLD_MAX
        return [*told[:PEERS_TOLD_MAX], f"and {counted(rest, 'more peer')}"] if rest > 0 else told


def own_problem(
    status: Status,
    key: ReplicaKey | None,
    *,
    it: str = "it",
    its: str = "its",
    path_of: Callable[[str], str] = basename,
) -> str | None:
    """What keeps the node with this key from electing or being elected, and what to do; None when nothing does.

    A client is told the name of a damaged file, not in which folder this machine keeps it.
    """
    is_voter = key is not None and status.voters.is_voter(key)
    if status.quarantine is not None:
        damages = status.quarantine.damages
        where = f" at {path_of(damages[0].path)}" if damages else ""
        more = f" and {counted(len(damages) - 1, 'more place')}" if len(damages) > 1 else ""
        what = f"in quarantine, since its log is damaged{where}{more}"
        if is_voter and len(status.voters) == 1:
            return f"{it} is the only voter, and {what}: stop it, and see what pykraft verify advises"
        # It goes on to name a leader that is long gone, since it does not campaign itself.
        until = "does not vote until it has fetched the log again from a leader"
        return f"{it} is {what}, and {until}: check the disk, and start the voters that are down"
    if not status.is_proven and is_voter:
        unproven = f"{its} directory is unproven, so it does not vote until the other voters have answered"
        return f"{unproven}: start those that are down"
    return None


def _seconds(since_ms: int, now: Instant) -> str:
    return f"{(now.mono_ms - since_ms) // 1_000} s"
