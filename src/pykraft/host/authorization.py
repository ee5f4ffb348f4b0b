"""Who may ask what, and in the name of which node: one table of all APIs, and the guard that applies it.

`NEEDS` has a row for each API that any listener serves; an API without a row is refused. The guard stands before every
handler. It exists only where an authorizer is configured or a listener is protected, so a node without both checks
nothing. Two rules:

1. Whoever asks needs the operation of the row, by the authorizer (`pykraft.security.acls`).
2. A request in the name of a node, and any answer of one, counts only from a principal that may act as that node: one
   of ``pykraft.voter.principals``, or, for a voter that these do not name, a certificate that is valid for the host at
   which the voter set has that voter (ADR 250). A principal without hosts, from SASL or of a client without a
   certificate, is then left to rule 1, and everybody where ``ssl.endpoint.identification.algorithm`` is empty.

Invariant: no decision is kept, so a changed rule or voter set counts from the next request on.

Source: Kafka's ``KafkaApis``, ``ControllerApis`` and ``AuthHelper``; KIP-679 (IdempotentWrite); rule 2 is ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pykraft.config import NodeConfig
from pykraft.core import messages
from pykraft.core.effects import Report
from pykraft.core.messages import Request
from pykraft.errors import ErrorCode
from pykraft.host.controller_answers import ControllerApi
from pykraft.host.ports import Ports
from pykraft.protocol.api import RequestHeader
from pykraft.protocol.messages import APIS, SASL_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.security.acls import CLUSTER_NAME, AclOperation, Authorizer, ResourceType
from pykraft.security.principal import Principal, RemoteEnd
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.text.words import counted
from pykraft.types import ReportKind, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The operations that a request needs on the cluster, on each group, and on each topic that it names."""

    cluster: AclOperation | None = None
    group: AclOperation | None = None
    topic: AclOperation | None = None


NOTHING: Final = Need()
_ACT: Final = Need(cluster=AclOperation.CLUSTER_ACTION)
_ALTER: Final = Need(cluster=AclOperation.ALTER)
_REPLICATE: Final = Need(cluster=AclOperation.CLUSTER_ACTION, topic=AclOperation.READ)
"""For a replica the one, and for whoever only reads the other."""
_DESCRIBE: Final = Need(topic=AclOperation.DESCRIBE)
_DESCRIBE_GROUP: Final = Need(group=AclOperation.DESCRIBE)
_READ_GROUP: Final = Need(group=AclOperation.READ)
NEEDS: Final[Mapping[int, Need]] = {
    ApiKey.API_VERSIONS: NOTHING,
    **dict.fromkeys(SASL_KEYS, NOTHING),  # they come before anybody is known
    ApiKey.VOTE: _ACT,
    ApiKey.BEGIN_QUORUM_EPOCH: _ACT,
    ApiKey.END_QUORUM_EPOCH: _ACT,
    ApiKey.UPDATE_RAFT_VOTER: _ACT,
    ApiKey.FETCH: _REPLICATE,
    ApiKey.FETCH_SNAPSHOT: _REPLICATE,
    ApiKey.FORWARD: _ACT,
    **dict.fromkeys(ControllerApi, _ACT),
    ApiKey.ADD_RAFT_VOTER: _ALTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER,
    ApiKey.UPDATE_FEATURES: _ALTER,
    ApiKey.TRANSFER_LEADERSHIP: _ALTER,
    ApiKey.DESCRIBE_QUORUM: Need(cluster=AclOperation.DESCRIBE),
    ApiKey.DESCRIBE_CLUSTER: Need(cluster=AclOperation.DESCRIBE),
    ApiKey.PRODUCE: Need(topic=AclOperation.WRITE),
    ApiKey.INIT_PRODUCER_ID: Need(cluster=AclOperation.IDEMPOTENT_WRITE, topic=AclOperation.WRITE),
    ApiKey.METADATA: _DESCRIBE,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _DESCRIBE,
    ApiKey.LIST_OFFSETS: _DESCRIBE,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _DESCRIBE,
    ApiKey.DESCRIBE_CONFIGS: Need(
        cluster=AclOperation.DESCRIBE_CONFIGS, group=AclOperation.DESCRIBE_CONFIGS, topic=AclOperation.DESCRIBE_CONFIGS
    ),
    ApiKey.FIND_COORDINATOR: _DESCRIBE_GROUP,
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Need(group=AclOperation.READ, topic=AclOperation.DESCRIBE),
    ApiKey.OFFSET_COMMIT: Need(group=AclOperation.READ, topic=AclOperation.READ),
    ApiKey.OFFSET_FETCH: Need(group=AclOperation.DESCRIBE, topic=AclOperation.DESCRIBE),
    ApiKey.OFFSET_DELETE: Need(group=AclOperation.DELETE, topic=AclOperation.READ),
    ApiKey.DELETE_GROUPS: Need(group=AclOperation.DELETE),
    ApiKey.DESCRIBE_GROUPS: _DESCRIBE_GROUP,
    ApiKey.CONSUMER_GROUP_DESCRIBE: Need(group=AclOperation.DESCRIBE, topic=AclOperation.DESCRIBE),
    ApiKey.LIST_GROUPS: Need(cluster=AclOperation.DESCRIBE, group=AclOperation.DESCRIBE),
}
"""All APIs that a listener may serve."""
_NO_ROWS_VERSION: Final = 13
"""From this version of Fetch on, an error above the partitions stands for all of them, as in Kafka."""


class Asker(Protocol):
    """Whoever asks: the other end of a connection, and the listener to which it was made."""

    @property
    def listener(self) -> str:
        """Name of the listener."""

    @property
    def end(self) -> RemoteEnd:
        """The other end."""


class Guard:
    """Applies both rules for one node."""

    def __init__(
        self,
        report: Callable[[Report], None],
        context: RpcContext,
        voters: Callable[[], VoterSet],
        *,
        authorizer: Authorizer | None = None,
        voter_principals: tuple[tuple[int, str], ...] = (),
        dialed: Security = IN_THE_CLEAR,
    ) -> None:
        """``dialed`` says what the nodes prove that this one dials: with SASL their host, but no principal."""
        self.refusals = 0
        """Number of operations and names that were refused."""
        self._report = report
        self._context = context
        self._voters = voters
        self._authorizer = authorizer
        self._is_tls_dialed = dialed.uses_tls
        self._are_names_dialed = dialed.uses_tls and not dialed.uses_sasl
        # Where certificates may have any name, a name says nothing.
        self._are_hosts_checked = bool(dialed.text("ssl.endpoint.identification.algorithm", "https"))
        self._named: Mapping[int, set[str]] = defaultdict(set)
        for node_id, principal in voter_principals:
            self._named[node_id].add(principal)

    @staticmethod
    def of(
        ports: Ports, config: NodeConfig, voters: Callable[[], VoterSet], authorizer: Authorizer | None
    ) -> Guard | None:
        """The guard of a node; None for one without an authorizer whose listeners are all PLAINTEXT."""
        if authorizer is None and not config.security:
            return None
        return Guard(
            ports.report,
            RpcContext.of(config),
            voters,
            authorizer=authorizer,
            voter_principals=config.voter_principals,
            dialed=config.security_between_nodes,
        )

    def allows(
        self,
        asker: Asker,
        api_key: int,
        operation: AclOperation | None,
        resource: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
        *,
        is_told: bool = True,
    ) -> bool:
        """Whether rule 1 allows this; one that it does not is counted and reported if ``is_told``."""
        if self._authorizer is None:
            return True
        end = asker.end
        if operation is not None and self._authorizer.allows(end.principal, end.address, operation, resource, name):
            return True
        if is_told:
            self.refuse(asker, api_key, in_words(operation, resource, name))
        return False

    def refuse(self, asker: Asker, api_key: int, what: str, count: int = 1) -> None:
        """Count so many things that rule 1 did not allow of one request; ``what``, the first one, is reported."""
        others = f", and {counted(count - 1, 'more name')}" if count > 1 else ""
        self._refuse(asker, f"{what}{others} ({_name(api_key)})", count)

    def admits(self, asker: Asker, api_key: int) -> bool:
        """Whether a request may be read: rule 1 for those that need something on the cluster and nothing else."""
        need = NEEDS.get(api_key)
        if need is None:
            return self.allows(asker, api_key, None)
        is_of_cluster = need.cluster is not None and need.group is None and need.topic is None
        return not is_of_cluster or api_key == ApiKey.DESCRIBE_CLUSTER or self.allows(asker, api_key, need.cluster)

    def checked(self, asker: Asker, header: RequestHeader, message: Request | Refusal) -> Request | Refusal:
        """A request for the core, or the answer that refuses it: rule 2, and rule 1 for those that fetch."""
        node_id = named_node(message)
        if header.api_key in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT) and not self._may_fetch(asker, header, node_id):
            return self._refusal(header)
        if node_id is not None and (problem := self.impostor(asker.end.principal, node_id)) is not None:
            self._refuse(asker, f"{_name(header.api_key)} as node {node_id}: {problem}")
            return self._refusal(header)
        return message

    def impostor(self, principal: Principal, node_id: int, *, is_dialed: bool = False) -> str | None:
        """Why this principal may not act as a node, by rule 2; None if it may."""
        if is_dialed and not self._is_tls_dialed:
            return None
        named = self._named.get(node_id) if self._are_names_dialed or not is_dialed else None
        if named is not None:
            if str(principal) in named:
                return None
            return f"{principal} is not among pykraft.voter.principals of node {node_id}"
        voter = next((each for each in self._voters().voters if each.key.id == node_id), None)
        # Whoever is dialed with TLS has a certificate.
        if voter is None or not (principal.hosts or is_dialed) or not self._are_hosts_checked:
            return None
        hosts = [endpoint.host for _, endpoint in voter.listeners]
        if any(map(principal.is_valid_for, hosts)):
            return None
        shown = ", ".join(principal.hosts) or "no host"
        return (
            f"the certificate of {principal} is for {shown:.200}, and voter {node_id} is at {', '.join(hosts)}; if "
            "it may act as that voter, say so in pykraft.voter.principals"
        )

    def _may_fetch(self, asker: Asker, header: RequestHeader, node_id: int | None) -> bool:
        """ClusterAction, or, for whoever does not replicate under an id, Read on the topic."""
        if self.allows(asker, header.api_key, AclOperation.CLUSTER_ACTION, is_told=node_id is not None):
            return True
        topic = self._context.topic_name
        return node_id is None and self.allows(asker, header.api_key, AclOperation.READ, ResourceType.TOPIC, topic)

    def _refusal(self, header: RequestHeader) -> Refusal:
        body = refused_body(header.api_key)
        if header.api_key == ApiKey.FETCH and header.api_version < _NO_ROWS_VERSION:
            part = {"partition_index": 0, "error_code": body["error_code"], "high_watermark": -1, "records": b""}
            body["responses"] = [{"topic": self._context.topic_name, "partitions": [part]}]
        return Refusal(body["error_code"], body)

    def _refuse(self, asker: Asker, what: str, count: int = 1) -> None:
        self.refusals += count
        end = asker.end
        text = f"refused {end.principal} at {end.address or 'an unknown address'} on {asker.listener}: {what}"
        self._report(Report(text=text, kind=ReportKind.CONNECTION))


def in_words(operation: AclOperation | None, resource: ResourceType, name: str) -> str:
    """What somebody wanted to do."""
    return "an API without a rule" if operation is None else f"{operation.value} on {resource.value}:{name:.100}"


def named_node(message: Request | Refusal) -> int | None:
    """The node in whose name a request is, if it is in the name of one."""
    match message:
        case messages.VoteRequest():
            return message.candidate.id
        case messages.BeginQuorumEpochRequest() | messages.EndQuorumEpochRequest():
            return message.leader_id
        case messages.FetchRequest() | messages.FetchSnapshotRequest():
            return None if message.replica is None else message.replica.id
        case messages.UpdateVoterRequest():
            return message.voter.id
        case _:
            return None


def refused_body(api_key: int) -> Body:
    """The body of an answer CLUSTER_AUTHORIZATION_FAILED above all else."""
    body: Body = {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    if any(field.name == "error_message" for field in APIS[api_key].response.body.fields):
        body["error_message"] = "this principal lacks a permission on the cluster"
    return body


def _name(api_key: int) -> str:
    kinds: tuple[type[ApiKey | ControllerApi], ...] = (ApiKey, ControllerApi)
    return next((kind(api_key).name for kind in kinds if api_key in list(kind)), str(api_key))
