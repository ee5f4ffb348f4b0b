"""The components of a node around its core, built once.

Invariant: a component knows only those in its constructor; everything else goes through an effect or the inbox.

Source: Kafka's ``KafkaRaftManager`` builds the same from a configuration.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from pykraft.config import NodeConfig
from pykraft.core.log_view import LogView
from pykraft.core.status import Status
from pykraft.host.authorization import Guard
from pykraft.host.clients.client_requests import ClientRequests
from pykraft.host.delivery import Delivery
from pykraft.host.describe_cluster import describe_cluster
from pykraft.host.fetch_read import FetchReads, ReadableLog, RecentBatches
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.inbound import Inbound
from pykraft.host.inbox import HeldMessages, Inbox, PendingReads, PendingRequests
from pykraft.host.leaderless import VoterMismatch
from pykraft.host.metrics import Measurements
from pykraft.host.peers import Peers
from pykraft.host.ports import ConnectionId, Dialer, Ports
from pykraft.host.producers import Producers
from pykraft.host.scrubbing import FileRemoval, Scrubbing
from pykraft.host.snapshots.creation import SnapshotCreation
from pykraft.host.snapshots.files import SnapshotFiles
from pykraft.host.snapshots.store import SnapshotStore
from pykraft.log.scrub import ScrubbableLog
from pykraft.protocol.schema import Body
from pykraft.rpc.context import RpcContext
from pykraft.security.acls import Authorizer
from pykraft.types import KRAFT_VERSIONS, Offset, ReplicaKey


class SharedLog(ReadableLog, ScrubbableLog, Protocol):
    """The part of the log that the host's thread and the bulk lane use while the ordered lane writes it."""

    def commit_to(self, offset: Offset) -> None:
        """Everything below is committed."""


@dataclass(slots=True)
class Ending:
    """How the node left: None before that, False when its shutdown timed out."""

    is_graceful: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """One of each component."""

    ports: Ports
    status: Callable[[], Status]
    clients: ClientRequests | None
    inbox: Inbox
    log: SharedLog
    held: HeldMessages
    recent: RecentBatches
    reads: FetchReads
    guard: Guard | None
    inbound: Inbound
    peers: Peers
    producers: Producers
    pending_requests: PendingRequests = field(default_factory=PendingRequests)
    pending_reads: PendingReads = field(default_factory=PendingReads)
    delivery: Delivery
    groups: GroupLog
    scrubbing: Scrubbing
    snapshots: SnapshotStore
    removal: FileRemoval
    snapshot_creation: SnapshotCreation
    measurements: Measurements = field(default_factory=Measurements)
    voter_mismatch: VoterMismatch
    ending: Ending = field(default_factory=Ending)

    def dialer(self, connection: ConnectionId) -> Dialer | None:
        """The component that dialed this connection; None if none of this node did."""
        clients = self.clients
        for dialer in () if clients is None else clients.dialers:
            if dialer.owns(connection):
                return dialer
        return self.peers if self.peers.owns(connection) else None


def assemble(  # noqa: PLR0913 - what a node is made of
    ports: Ports,
    config: NodeConfig,
    *,
    key: ReplicaKey | None,
    log: SharedLog,
    snapshot_files: SnapshotFiles,
    view: LogView,
    status: Callable[[], Status],
    own_problem: Callable[[], str | None] = lambda: None,
    groups_from: Offset | None = None,
    rng: Random,
    authorizer: Authorizer | None = None,
) -> Components:
    """Build the components of a node whose recovered log is in ``view``; ``own_problem`` says why it cannot vote."""
    inbox, held = Inbox(), HeldMessages()
    guard = Guard.of(ports, config, lambda: status().voters, authorizer)
    recent = RecentBatches(end_offset=view.end_offset, size_bytes_max=config.log.recent_size_bytes_max)
    scrubbing = Scrubbing(ports, inbox, log, config.log)
    producers = Producers(batch_size_bytes_max=config.raft.batch_size_bytes_max)
    reads = FetchReads(ports, log, recent, scrubbing.suspect)
    snapshots = SnapshotStore(ports, inbox, snapshot_files, log, fetch_timeout_ms=config.raft.fetch_timeout_ms)
    delivery = Delivery(ports, log, recent, view.start_offset, scrubbing.suspect, snapshots.reading)
    groups = GroupLog(inbox, producers, delivery, status, config, first_offset=groups_from)
    creation = SnapshotCreation(ports, inbox, snapshot_files, log, recent, snapshots.troubles.writing, hold=groups.hold)
    clients = None
    if config.client_listeners:
        clients = ClientRequests(
            config, status, ports, inbox, producers, groups, rng, reads=reads, view=view, log=log, guard=guard
        )
    return Components(
        ports=ports,
        clients=clients,
        status=status,
        inbox=inbox,
        log=log,
        held=held,
        recent=recent,
        reads=reads,
        guard=guard,
        inbound=_inbound(ports, inbox, held, config, status, own_problem, clients, guard),
        peers=Peers(
            ports,
            inbox,
            held,
            context=RpcContext.of(config),
            client_id=f"raft-client-{-1 if key is None else key.id}",
            request_timeout_ms=config.raft.request_timeout_ms,
            find_batch=partial(_find_batch, view, reads),
            on_pykraft=(lambda _: None) if clients is None else clients.profile.found_pykraft,
            guard=guard,
        ),
        producers=producers,
        delivery=delivery,
        groups=groups,
        scrubbing=scrubbing,
        snapshots=snapshots,
        removal=_removal(ports, config, snapshot_files, view),
        snapshot_creation=creation,
        voter_mismatch=VoterMismatch(ports, config, key),
    )


def _inbound(  # noqa: PLR0917 - as of Inbound
    ports: Ports,
    inbox: Inbox,
    held: HeldMessages,
    config: NodeConfig,
    status: Callable[[], Status],
    own_problem: Callable[[], str | None],
    clients: ClientRequests | None,
    guard: Guard | None,
) -> Inbound:
    return Inbound(
        ports,
        inbox,
        held,
        context=RpcContext.of(config),
        node_id=-1 if config.node_id is None else config.node_id,
        describe_cluster=_description(config, status, own_problem),
        kraft_versions=KRAFT_VERSIONS if config.may_vote else None,
        kraft_version=lambda: status().kraft_version,
        operator_listeners=config.operator_listeners,
        clients=clients,
        client_listeners=config.client_listeners,
        refuses_controller_requests=config.may_vote and config.is_kafkas_log,
        controller_listeners=[name.upper() for name in config.controller_listener_names],
        serves_produce=config.serves_produce,
        sasl_listeners=config.sasl_listeners,
        guard=guard,
    )


def _description(
    config: NodeConfig, status: Callable[[], Status], own_problem: Callable[[], str | None]
) -> Callable[[Body, str], Body]:
    return lambda request, listener: describe_cluster(
        request, cluster_id=config.cluster_id, listener=listener, status=status(), own_problem=own_problem()
    )


def _removal(ports: Ports, config: NodeConfig, snapshot_files: SnapshotFiles, view: LogView) -> FileRemoval:
    return FileRemoval(
        ports,
        snapshot_files.fs,
        snapshot_files.directory,
        delay_ms=config.log.delete_delay_ms,
        # A log that starts above 0 gave way to a snapshot, perhaps in this start, and its files may still linger.
        is_to_look=view.start_offset > 0,
    )


def _find_batch(view: LogView, reads: FetchReads, offset: Offset, then: Callable[[Offset | None], None]) -> None:
    """Find the start of the batch that contains this offset; an offset outside the log is returned unchanged."""
    if view.start_offset < offset < view.end_offset:
        reads.find_batch(offset, then)
    else:
        then(offset)
