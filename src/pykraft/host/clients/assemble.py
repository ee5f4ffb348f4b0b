"""Builds what a node needs to serve Kafka's clients, and recovers the state of their producers from its log.

Invariant: without a listener for clients nothing is built, and nothing is read.

Source: Kafka's ``BrokerServer`` builds the same from a configuration; ``ProducerStateManager`` for the recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykraft.config import NodeConfig
from pykraft.core.log_view import LogView
from pykraft.core.status import Status
from pykraft.host.clients.client_requests import ClientRequests
from pykraft.host.clients.consumer_fetches import ConsumerFetches
from pykraft.host.clients.offset_requests import OffsetRequests
from pykraft.host.clients.produce_requests import ProduceRequests
from pykraft.host.clients.producer_ids import ProducerIds
from pykraft.host.clients.producer_states import ProducerStates
from pykraft.host.clients.records_profile import RecordsProfile
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.clients.voter_endpoints import VoterEndpoints
from pykraft.host.fetch_read import FetchReads, ReadableLog, batches_up_to, read_durable
from pykraft.host.inbox import Inbox
from pykraft.host.ports import Ports
from pykraft.host.producers import Producers

PIECE_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of the log that a start reads at a time."""


def client_requests(
    config: NodeConfig,
    status: Callable[[], Status],
    ports: Ports,
    inbox: Inbox,
    producers: Producers,
    *,
    reads: FetchReads,
    view: LogView,
    log: ReadableLog,
) -> ClientRequests | None:
    """Everything for clients, with the producers that the recovered log shows; None for a node that serves none."""
    if not config.client_listeners:
        return None
    endpoints = VoterEndpoints(ports, config)
    topics = ClientTopics(config=config, status=status, endpoints=endpoints.known)
    states = ProducerStates(producers_max=config.client_producers_max)
    recover(states, view, log)
    profile = RecordsProfile(ports, config)
    return ClientRequests(
        topics,
        states,
        profile=profile,
        endpoints=endpoints,
        fetches=ConsumerFetches(ports, reads, topics),
        offsets=OffsetRequests(reads, view, topics),
        producer_ids=ProducerIds(ports, topics, states),
        produce=ProduceRequests(
            ports=ports,
            inbox=inbox,
            producers=producers,
            states=states,
            topics=topics,
            strict=lambda: profile.strict(status()),
        ),
    )


def recover(states: ProducerStates, view: LogView, log: ReadableLog) -> None:
    """Feed the producers' state with the batch headers of the whole log."""
    offset, end = view.start_offset, view.end_offset
    if offset > 0:
        # A snapshot stands for the records before: whoever wrote them is unknown.
        states.begin_anew(view.epochs[0].epoch if view.epochs else view.last_epoch)
    while offset < end:
        data = read_durable(log, offset, PIECE_SIZE_BYTES_MAX)
        found = [] if data is None or isinstance(data, Exception) else batches_up_to(end, data)
        if not found:
            # Damage, or a file that was just replaced: who wrote there is unknown.
            states.begin_anew(view.last_epoch)
            return
        for header, _ in found:
            states.appended(header)
        offset = found[-1][0].end_offset
