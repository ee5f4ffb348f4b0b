"""Voter mismatch: reports when the voter set does not contain this node as it is, and how to fix it.

Invariant: one report when node and voter set do not match, another only when the mismatch changes, and one when they
match again. A node that should not vote gets none. Each report says what the voter set expects, what this node is, and
which commands fix it.

Source: KIP-853 §Disk failure; Kafka reports nothing here, and such a node fetches for ever without a vote.
"""

from __future__ import annotations

from pykraft.config import NodeConfig
from pykraft.core.effects import Report
from pykraft.core.status import Status
from pykraft.host.ports import Ports
from pykraft.types import Instant, ReplicaKey, Voter, VoterSet, uuid_text


class VoterMismatch:
    """For the node with this key; call `look` after every step."""

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
