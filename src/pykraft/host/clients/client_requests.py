"""Requests of Kafka's own clients: one object that answers them all, on the listeners that the properties name.

It exists only on nodes that serve clients (``pykraft.client.listeners``); without it the host does nothing of this.
Fetch is for replicas and for consumers, which have no id. Invariant: each request gets one answer, now or later, except
Produce with acks 0.

Source: Kafka's ``KafkaApis``; ours (ADR 065).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykraft.core.messages import FetchRequest
from pykraft.core.status import Status
from pykraft.host.clients import metadata_answers
from pykraft.host.clients.consumer_fetches import ConsumerFetches
from pykraft.host.clients.offset_requests import OffsetRequests
from pykraft.host.clients.produce_requests import ClientAnswer, ProduceRequests
from pykraft.host.clients.producer_ids import ProducerIds
from pykraft.host.clients.producer_states import ProducerStates
from pykraft.host.clients.records_profile import RecordsProfile
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.clients.voter_endpoints import VoterEndpoints
from pykraft.host.inbound import Requester
from pykraft.host.recent_batches import HeaderAndBytes
from pykraft.protocol.messages import CLIENT_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Epoch, Offset


class ClientRequests:
    """All that a node does for clients."""

    def __init__(
        self,
        topics: ClientTopics,
        states: ProducerStates,
        *,
        profile: RecordsProfile,
        endpoints: VoterEndpoints,
        fetches: ConsumerFetches,
        offsets: OffsetRequests,
        produce: ProduceRequests,
        producer_ids: ProducerIds,
    ) -> None:
        self.listeners = topics.config.client_listeners
        """Names of the listeners that serve clients, in upper case."""
        self._topics = topics
        self._states = states
        self.profile = profile
        """What clients may write; hears which software each replica is."""
        self._fetches = fetches
        self._offsets = offsets
        self._produce = produce
        self._endpoints = endpoints
        self.producer_ids = producer_ids
        self.dialers = (producer_ids, endpoints)
        """They own the connections to the leader that clients' questions need."""

    def serves(self, api_key: int, body: Body) -> bool:
        """True for a request of a client, false for one of a replica."""
        if api_key != ApiKey.FETCH:
            return api_key in CLIENT_KEYS
        if body["replica_id"] >= 0 or body["replica_state"]["replica_id"] >= 0:
            return False
        # An observer without an id tells the epoch of its last record; the core refuses one that does not.
        told = [part["last_fetched_epoch"] for topic in body["topics"] for part in topic["partitions"]]
        if all(epoch < 0 for epoch in told):
            return True
        # So does kafka-python's consumer. But a replica knows no sessions and leaves min_bytes 0, or names its cluster.
        return body["cluster_id"] is None and (body["session_epoch"] >= 0 or body["min_bytes"] > 0)

    def handle(
        self,
        api_key: int,
        version: int,
        body: Body,
        requester: Requester,
        is_wanted: Callable[[], bool],
        answer: ClientAnswer,
    ) -> None:
        """Answer one request of a client."""
        listener = requester.listener
        match api_key:
            case ApiKey.FETCH:
                self._fetches.handle(body, version, listener, is_wanted, answer)
            case ApiKey.PRODUCE:
                self._produce.handle(body, version, requester, answer)
            case ApiKey.LIST_OFFSETS:
                self._offsets.list_offsets(body, version, is_wanted, answer)
            case ApiKey.OFFSET_FOR_LEADER_EPOCH:
                answer(self._offsets.ends_of_epochs(body))
            case ApiKey.METADATA:
                answer(metadata_answers.metadata(body, version, listener, self._topics))
            case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
                answer(metadata_answers.describe_topic_partitions(body, listener, self._topics))
            case ApiKey.DESCRIBE_CONFIGS:
                answer(metadata_answers.describe_configs(body, self._topics))
            case ApiKey.FIND_COORDINATOR:
                answer(metadata_answers.find_coordinator(body, version))
            case ApiKey.LIST_GROUPS:
                answer({})
            case _:
                assert api_key == ApiKey.INIT_PRODUCER_ID, f"`serves` passed API {api_key}"
                self.producer_ids.handle(body, listener, is_wanted, answer)

    def describe_brokers(self, listener: str) -> Body:
        """Answer DescribeCluster for a client."""
        return metadata_answers.describe_brokers(listener, self._topics)

    def replica_fetched(self, request: FetchRequest, software: str | None) -> None:
        """A replica fetches from this node; ``software`` is its name in ApiVersions."""
        self.profile.replica_fetched(request, software)

    def appended(self, batches: Sequence[HeaderAndBytes]) -> None:
        """The log grew by these batches."""
        for header, _ in batches:
            self._states.appended(header)

    def truncated(self, end_offset: Offset) -> None:
        """The log was truncated."""
        self._states.truncate_to(end_offset)

    def begun_anew(self, epoch: Epoch) -> None:
        """A snapshot that ends in this epoch replaced the log."""
        self._states.begin_anew(epoch)

    def look(self, status: Status) -> None:
        """After a step: answer what waited for it."""
        self.profile.look(status)
        self._endpoints.look(status)
        self._produce.poll(status)
        self._produce.committed()
        self._fetches.look()
        self.producer_ids.look()

    def poll(self, mono_ms: int) -> None:
        """Advance to this time."""
        self.profile.poll(mono_ms)
        self._endpoints.poll(mono_ms)
        self._fetches.poll(mono_ms)
        self.producer_ids.poll(mono_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        parts = (self._fetches, self.producer_ids, self._endpoints)
        found = (each.next_deadline_ms for each in parts)
        return min((each for each in found if each is not None), default=None)
