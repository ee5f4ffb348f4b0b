"""The search for the leader starts at any node, skips dead and wrong ones, and ends; so do questions to voters."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from pykraft.client.remote import admin as admin_module
from pykraft.client.remote.admin import NEVER_MADE, Admin, NodeKind, epochs_of, problem_with
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.quorum import Role, VoterProblem
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.errors import (
    ErrorCode,
    ForeignClusterError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import API_VERSIONS, APIS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.rpc.context import RpcContext
from pykraft.types import Endpoint, NodeId, ReplicaKey, Uuid
from tests.client.logs import HASTY, PATIENT
from tests.client.quorums import CLUSTER_ID, cluster_body, quorum_body, refusal
from tests.client.scripted import HANG_UP, SILENCE, Answer, Script, ScriptedNode


def dead() -> Endpoint:
    [port] = free_ports(1)
    return Endpoint(HOST, port)


class Three:
    """Nodes 1 to 3; each says that ``leader_id`` leads, and only that one answers for the quorum."""

    def __init__(self) -> None:
        self.leader_id = 2
        self.named = dict.fromkeys((1, 2, 3), 2)
        self.nodes = {i: ScriptedNode(self._scripts(i)) for i in (1, 2, 3)}

    def _scripts(self, node_id: int) -> dict[ApiKey, Script]:
        def quorum(_: Body) -> Body:
            return quorum_body(node_id) if node_id == self.leader_id else refusal()

        return {
            ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(self.named[node_id], self.endpoints),
            ApiKey.DESCRIBE_QUORUM: quorum,
        }

    @property
    def endpoints(self) -> dict[int, Endpoint]:
        return {i: node.endpoint for i, node in self.nodes.items()}

    async def start(self, stack: AsyncExitStack) -> None:
        for node in self.nodes.values():
            await stack.enter_async_context(node)


@asynccontextmanager
async def three_nodes() -> AsyncIterator[Three]:
    three = Three()
    async with AsyncExitStack() as stack:
        await three.start(stack)
        yield three


async def test_any_node_leads_to_the_leader() -> None:
    async with three_nodes() as three:
        async with Admin([three.nodes[1].endpoint], patience=PATIENT) as admin:
            found = await admin.describe_quorum()
        assert (found.cluster_id, found.leader_id, found.epoch, found.high_watermark) == (CLUSTER_ID, 2, 4, 10)
        assert [each.role for each in found.replicas] == [Role.LEADER, Role.FOLLOWER, Role.FOLLOWER, Role.OBSERVER]
        assert str(found.voters[0].listeners.get("CONTROLLER")) == "[::1]:9001"
        [asked] = three.nodes[1].requests(ApiKey.DESCRIBE_CLUSTER)
        assert asked["endpoint_type"] == NodeKind.CONTROLLER.value
        assert not three.nodes[1].requests(ApiKey.DESCRIBE_QUORUM)


async def test_dead_nodes_are_passed_by_and_connections_are_kept() -> None:
    async with three_nodes() as three:
        async with Admin([dead(), three.nodes[2].endpoint], patience=PATIENT) as admin:
            await admin.describe_quorum()
            await admin.describe_quorum()
        assert len(three.nodes[2].requests(ApiKey.API_VERSIONS)) == 1
        assert len(three.nodes[2].requests(ApiKey.DESCRIBE_QUORUM)) == 2


async def test_a_node_that_names_a_former_leader_is_asked_last_the_next_time() -> None:
    async with three_nodes() as three:
        three.leader_id = 3
        three.named |= {2: 3, 3: 3}
        async with Admin([three.nodes[1].endpoint], patience=PATIENT) as admin:
            found = await admin.describe_quorum()
            assert found.leader_id == 3
            await admin.describe_quorum()
        assert len(three.nodes[1].requests(ApiKey.DESCRIBE_CLUSTER)) == 1


async def test_an_election_is_waited_for() -> None:
    async with three_nodes() as three:
        three.named = dict.fromkeys(three.named, -1)
        answers = iter([-1] * 5)
        three.nodes[3].scripts[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster_body(next(answers, 2), three.endpoints)
        async with Admin([three.nodes[1].endpoint, three.nodes[3].endpoint], patience=PATIENT) as admin:
            assert (await admin.describe_quorum()).leader_id == 2


async def test_a_node_that_refuses_for_want_of_a_leader_is_waited_for_and_the_wait_is_told() -> None:
    told: list[str | None] = []
    electing = {"error_code": ErrorCode.LEADER_NOT_AVAILABLE, "error_message": "it knows no leader"}
    async with three_nodes() as three:
        node = three.nodes[1]
        led, answers = node.scripts[ApiKey.DESCRIBE_CLUSTER], iter([electing] * 3)
        node.scripts[ApiKey.DESCRIBE_CLUSTER] = lambda body: next(answers, None) or led(body)
        async with Admin([node.endpoint], patience=replace(PATIENT, on_waiting=told.append)) as admin:
            assert (await admin.describe_quorum()).leader_id == 2
        assert told == [f"{node.endpoint}: it knows no leader"] * 3 + [None]


async def test_an_election_without_an_end_is_told_after_the_time() -> None:
    async with three_nodes() as three:
        three.named = dict.fromkeys(three.named, -1)
        async with Admin([three.nodes[1].endpoint], patience=HASTY) as admin:
            with pytest.raises(QuorumUnavailableError, match=r"no leader within 0.6 s: .*it knows no leader"):
                await admin.describe_quorum()


async def test_nodes_that_die_while_an_election_is_waited_for_do_not_end_the_wait() -> None:
    async with three_nodes() as three:
        three.named = dict.fromkeys(three.named, -1)
        answered = three.nodes[1].scripts[ApiKey.DESCRIBE_CLUSTER]

        def once(body: Body) -> Answer:
            return answered(body) if len(three.nodes[1].requests(ApiKey.DESCRIBE_CLUSTER)) == 1 else HANG_UP

        three.nodes[1].scripts[ApiKey.DESCRIBE_CLUSTER] = once
        await three.nodes[2].stop()
        await three.nodes[3].stop()
        async with Admin([three.nodes[1].endpoint], patience=HASTY) as admin:
            with pytest.raises(QuorumUnavailableError, match=r"no leader within 0\.6 s"):
                await admin.describe_quorum()


async def test_a_leader_that_dies_is_asked_no_more_when_another_leads() -> None:
    async with three_nodes() as three, Admin([three.nodes[1].endpoint], patience=PATIENT) as admin:
        await admin.describe_quorum()
        await three.nodes[2].stop()
        three.leader_id = 1
        three.named = {1: 1, 3: 1}
        assert (await admin.describe_quorum()).leader_id == 1


async def test_when_nobody_answers_it_is_said_at_once_and_of_each() -> None:
    first, second = dead(), dead()
    async with Admin([first, second], patience=PATIENT) as admin:
        with pytest.raises(QuorumUnavailableError) as caught:
            await admin.describe_quorum()
    refused = "connection refused"
    assert str(caught.value) == f"no node answers: {first}: {refused}; {second}: {refused}"


LEADER_PROBLEMS: dict[str, tuple[Script, str]] = {
    "silence": (lambda _: SILENCE, "did not answer DescribeQuorum within 0.5 s"),
    "not a quorum": (lambda _: refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "UNKNOWN_TOPIC_OR_PARTITION"),
    "refused": (lambda _: {"error_code": 31}, "CLUSTER_AUTHORIZATION_FAILED"),
    "nonsense": (lambda _: quorum_body(-1), "describes a quorum without a leader"),
}


@pytest.mark.parametrize(("script", "words"), LEADER_PROBLEMS.values(), ids=LEADER_PROBLEMS)
async def test_a_leader_that_cannot_answer_is_told(script: Script, words: str) -> None:
    async with three_nodes() as three:
        three.nodes[2].scripts[ApiKey.DESCRIBE_QUORUM] = script
        async with Admin([three.nodes[1].endpoint], patience=HASTY) as admin:
            with pytest.raises(QuorumUnavailableError, match=words):
                await admin.describe_quorum()


NODE_PROBLEMS: dict[str, tuple[Body, str]] = {
    "an error": ({"error_code": -1}, "it answers DescribeCluster with UNKNOWN_SERVER_ERROR"),
    "a leader without an address": (cluster_body(2, {}), "it does not know the address of its leader, node 2"),
    "a leader nobody can dial": (
        cluster_body(2, {2: Endpoint("x", 99_999)}),
        "it does not know the address of its leader, node 2",
    ),
}


@pytest.mark.parametrize(("body", "words"), NODE_PROBLEMS.values(), ids=NODE_PROBLEMS)
async def test_a_node_that_does_not_know_its_cluster_is_told(body: Body, words: str) -> None:
    async with (
        ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: body}) as node,
        Admin([node.endpoint], patience=HASTY) as admin,
    ):
        with pytest.raises(QuorumUnavailableError, match=words):
            await admin.describe_quorum()


async def test_nodes_of_two_clusters_are_never_mixed() -> None:
    async with three_nodes() as three:
        other = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(-1, {}, cluster_id="other")})
        async with other:
            async with Admin([other.endpoint, three.nodes[1].endpoint], patience=PATIENT) as admin:
                with pytest.raises(ForeignClusterError, match=f"belongs to cluster {CLUSTER_ID}, not to other"):
                    await admin.describe_quorum()
            async with Admin([three.nodes[1].endpoint], cluster_id="wanted", patience=PATIENT) as admin:
                with pytest.raises(ForeignClusterError, match="not to wanted"):
                    await admin.describe_quorum()


async def test_brokers_are_asked_themselves() -> None:
    scripts: dict[ApiKey, Script] = {
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(7, {}),
        ApiKey.DESCRIBE_QUORUM: lambda _: quorum_body(2),
    }
    async with ScriptedNode(scripts) as node, Admin([node.endpoint], kind=NodeKind.BROKER, patience=PATIENT) as admin:
        assert (await admin.describe_quorum()).leader_id == 2
        [asked] = node.requests(ApiKey.DESCRIBE_CLUSTER)
        assert asked["endpoint_type"] == NodeKind.BROKER.value


@pytest.mark.parametrize("kind", NodeKind)
async def test_the_other_kind_of_node_is_the_callers_mistake(kind: NodeKind) -> None:
    mismatch: Body = {"error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE, "cluster_id": ""}
    async with (
        ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: mismatch}) as node,
        Admin([node.endpoint], kind=kind, patience=PATIENT) as admin,
    ):
        with pytest.raises(UsageError, match=f"is not a {kind.name.lower()}: bootstrap from it as a"):
            await admin.describe_quorum()


def test_a_list_without_nodes_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="the bootstrap list is empty"):
        Admin([])


@asynccontextmanager
async def changing_nodes(script: Script) -> AsyncIterator[Three]:
    """Three nodes that answer a transfer of the leadership in this way while they lead."""
    async with three_nodes() as three:
        for node in three.nodes.values():
            node.scripts[ApiKey.TRANSFER_LEADERSHIP] = script
        yield three


IN_DOUBT: dict[str, Script] = {
    "the answer is lost": lambda _: HANG_UP,
    "no answer": lambda _: SILENCE,
    "the leader resigned": lambda _: {"error_code": ErrorCode.LEADER_NOT_AVAILABLE, "error_message": None},
    "of a later version": lambda _: {"error_code": 999, "error_message": "refused"},
}


@pytest.mark.parametrize("script", IN_DOUBT.values(), ids=IN_DOUBT)
async def test_a_change_that_may_be_made_yet_is_no_refusal(script: Script) -> None:
    async with changing_nodes(script) as three, Admin([three.nodes[1].endpoint], patience=HASTY) as admin:
        with pytest.raises(OutcomeUnknownError, match="transferring the leadership to node 3 may still take effect"):
            await admin.transfer_leadership(3, timeout_ms=0)


async def test_a_refusal_after_a_lost_answer_proves_nothing() -> None:
    answers: list[Answer] = [HANG_UP, {"error_code": 126, "error_message": "it is a voter already"}]
    async with (
        changing_nodes(lambda _: answers.pop(0)) as three,
        Admin([three.nodes[1].endpoint], patience=PATIENT) as admin,
    ):
        with pytest.raises(OutcomeUnknownError, match="it is a voter already"):
            await admin.transfer_leadership(3)


async def test_a_change_that_is_made_after_a_lost_answer_is_made() -> None:
    answers: list[Answer] = [HANG_UP, {"error_code": 0, "leader_id": 3, "leader_epoch": 7}]
    async with (
        changing_nodes(lambda _: answers.pop(0)) as three,
        Admin([three.nodes[1].endpoint], patience=PATIENT) as admin,
    ):
        assert await admin.transfer_leadership(3) == 7


async def test_a_change_that_no_leader_was_asked_for_is_not_in_doubt() -> None:
    async with changing_nodes(lambda _: HANG_UP) as three:
        three.named = dict.fromkeys(three.named, -1)
        async with Admin([three.nodes[1].endpoint], patience=HASTY) as admin:
            with pytest.raises(QuorumUnavailableError):
                await admin.transfer_leadership(3, timeout_ms=0)


async def test_a_transfer_that_is_given_up_is_refused() -> None:
    async with (
        changing_nodes(lambda _: {"error_code": 7, "error_message": "try again"}) as three,
        Admin([three.nodes[1].endpoint], patience=PATIENT) as admin,
    ):
        with pytest.raises(RefusedError, match="REQUEST_TIMED_OUT: try again"):
            await admin.transfer_leadership(3)


OPEN = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
)


def removed(three: Three, *codes: ErrorCode, text: str | None = None) -> Callable[[Admin], Awaitable[None]]:
    """Nodes that answer the removal of a voter with one of these after the other; the call that removes one."""
    left = list(codes)
    for node in three.nodes.values():
        node.scripts[ApiKey.REMOVE_RAFT_VOTER] = lambda _: {"error_code": left.pop(0), "error_message": text}
    return lambda admin: admin.remove_voter(ReplicaKey(NodeId(3), Uuid(bytes(15) + b"3")))


@pytest.mark.parametrize("text", [None, "", "refused"])
@pytest.mark.parametrize("code", OPEN)
async def test_a_code_other_than_of_a_first_check_leaves_the_outcome_open(code: ErrorCode, text: str | None) -> None:
    async with three_nodes() as three, Admin([three.nodes[1].endpoint], patience=PATIENT) as admin:
        with pytest.raises(OutcomeUnknownError, match="removing voter 3 may still take effect"):
            # A node that does not lead is asked again, when it does: the voter is not there any more.
            await removed(three, code, ErrorCode.VOTER_NOT_FOUND, text=text)(admin)


@pytest.mark.parametrize("code", sorted(NEVER_MADE - {ErrorCode.BROKER_NOT_AVAILABLE}))
async def test_a_code_of_a_first_check_is_a_refusal_whatever_its_text(code: ErrorCode) -> None:
    async with three_nodes() as three, Admin([three.nodes[1].endpoint], patience=PATIENT) as admin:
        with pytest.raises(RefusedError, match=code.name):
            await removed(three, code, text="it may still take effect")(admin)


async def test_a_leader_that_shuts_down_has_not_begun() -> None:
    async with three_nodes() as three, Admin([three.nodes[1].endpoint], patience=PATIENT) as admin:
        with pytest.raises(RefusedError, match="VOTER_NOT_FOUND"):
            await removed(three, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.VOTER_NOT_FOUND)(admin)


LIMITS = Patience(timeout_ms=10_000, request_timeout_ms=2_000, retry_backoff_ms=10)
OWN = "it is in quarantine"
KAFKA = {"api_keys": [each for each in api_key_bodies(API_VERSIONS) if each["api_key"] < 1_000]}


def test_only_a_refused_connection_tells_that_nobody_is_there() -> None:
    refused, lost = UnreachableError("a:1", "no"), UnreachableError("a:1", "no")
    refused.__cause__ = ConnectionRefusedError()
    assert problem_with(refused) == VoterProblem(text="a:1: no", is_refused=True)
    assert problem_with(lost) == VoterProblem(text="a:1: no")


async def test_each_follower_is_asked_once_and_the_leader_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six voters 1 leads; 2 is well, 3 cannot vote, 4 knows no leader, 5 is silent, 6 is dead, 7 is Kafka's."""
    monkeypatch.setattr(admin_module, "VOTER_TIMEOUT_MS", 200)
    nodes: dict[int, ScriptedNode] = {}
    [dead] = free_ports(1)

    def endpoints() -> dict[int, Endpoint]:
        return {i: node.endpoint for i, node in nodes.items()} | {6: Endpoint(HOST, dead)}

    def described(node_id: int) -> Answer:
        body = cluster_body(1, endpoints())
        return {
            3: {**body, "error_message": OWN},
            4: {**body, "error_code": ErrorCode.LEADER_NOT_AVAILABLE},
            5: SILENCE,
        }.get(node_id, body)

    def quorum(_: Body) -> Body:
        body = quorum_body(1, (1, 2, 3, 4, 5, 6, 7))
        for node in body["nodes"]:
            at = endpoints()[node["node_id"]]
            node["listeners"] = [{"name": "CONTROLLER", "host": at.host, "port": at.port}]
        return body

    def scripts(node_id: int) -> dict[ApiKey, Script]:
        return {ApiKey.DESCRIBE_CLUSTER: lambda _: described(node_id), ApiKey.DESCRIBE_QUORUM: quorum}

    nodes |= {i: ScriptedNode(scripts(i)) for i in (1, 2, 3, 4, 5, 7)}
    nodes[7].scripts[ApiKey.API_VERSIONS] = lambda _: KAFKA
    async with AsyncExitStack() as stack:
        for node in nodes.values():
            await stack.enter_async_context(node)
        async with Admin([nodes[1].endpoint], patience=LIMITS) as admin:
            found = await admin.describe_quorum(ask_voters=True)
            assert not (await admin.describe_quorum()).problems
        assert found.problems == {
            3: VoterProblem(text=OWN, is_own=True),
            4: VoterProblem(text="it knows no leader", is_own=True),
            5: VoterProblem(
                text=f"{nodes[5].endpoint}: it accepts connections, but did not answer DescribeCluster within 0.2 s"
            ),
            6: VoterProblem(text=f"{HOST}:{dead}: connection refused", is_refused=True),
        }
        assert [len(nodes[i].requests(ApiKey.DESCRIBE_CLUSTER)) for i in (1, 2, 7)] == [2, 1, 0]


async def test_voters_of_kafka_that_were_seen_are_shown_when_there_is_no_leader_any_more() -> None:
    """Its controllers name only those that are registered: here 1 and 2, of voters 1 to 3, of which 3 is dead."""
    names = {"leader": 1}
    nodes: dict[int, ScriptedNode] = {}
    voters: dict[int, Endpoint] = {3: dead()}

    def quorum(_: Body) -> Body:
        body = quorum_body(1)
        for node in body["nodes"]:
            at = voters[node["node_id"]]
            node["listeners"] = [{"name": "CONTROLLER", "host": at.host, "port": at.port}]
        return body

    def cluster(_: Body) -> Body:
        return cluster_body(names["leader"], {i: node.endpoint for i, node in nodes.items()})

    scripts: dict[ApiKey, Script] = {
        ApiKey.API_VERSIONS: lambda _: KAFKA,
        ApiKey.DESCRIBE_CLUSTER: cluster,
        ApiKey.DESCRIBE_QUORUM: quorum,
    }
    nodes |= {1: ScriptedNode(scripts), 2: ScriptedNode(scripts)}
    stories = asyncio.Queue[str | None]()
    patience = replace(PATIENT, on_waiting=stories.put_nowait)
    async with nodes[1], nodes[2], Admin([nodes[1].endpoint], patience=patience) as admin:
        voters |= {i: node.endpoint for i, node in nodes.items()}
        await admin.describe_quorum()
        assert await stories.get() is None
        names["leader"] = -1
        looking = asyncio.create_task(admin.describe_quorum())
        story = await stories.get()
        looking.cancel()
        await asyncio.wait([looking])
    assert story == (
        f"2 of 3 voters answer, but none leads yet; voter 1 at {voters[1]}: it knows no leader; "
        f"voter 2 at {voters[2]}: it knows no leader; voter 3 at {voters[3]}: connection refused"
    )


async def test_voters_behind_brokers_are_not_asked() -> None:
    node = ScriptedNode(
        {
            ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(1, {1: node.endpoint}),
            ApiKey.DESCRIBE_QUORUM: lambda _: quorum_body(1),
        }
    )
    async with node, Admin([node.endpoint], kind=NodeKind.BROKER, patience=LIMITS) as admin:
        assert not (await admin.describe_quorum(ask_voters=True)).problems


CONTEXT = RpcContext(
    cluster_id=None, topic_name=METADATA_TOPIC_NAME, topic_id=Uuid(METADATA_TOPIC_ID), default_listener="CONTROLLER"
)


def fenced(epoch: int) -> Body:
    part = {
        "partition_index": 0,
        "error_code": ErrorCode.FENCED_LEADER_EPOCH,
        "high_watermark": -1,
        "records": None,
        "current_leader": {"leader_id": 2, "leader_epoch": epoch},
    }
    return {"responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [part]}]}


async def test_each_voter_tells_its_epoch_or_why_not() -> None:
    async with AsyncExitStack() as stack:
        [dead] = free_ports(1)
        old = await stack.enter_async_context(ScriptedNode({ApiKey.FETCH: lambda _: fenced(5)}))
        refused: Body = {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "responses": []}
        other = await stack.enter_async_context(ScriptedNode({ApiKey.FETCH: lambda _: refused}))
        voters = {1: old.endpoint, 2: other.endpoint, 3: Endpoint(HOST, dead)}
        epochs = await epochs_of({NodeId(id_): each for id_, each in voters.items()}, CONTEXT)
        assert epochs[NodeId(1)] == 5
        assert "another cluster" in str(epochs[NodeId(2)])
        assert isinstance(epochs[NodeId(3)], UnreachableError)


def unregistering(*codes: int) -> ScriptedNode:
    """A leading controller of Kafka 4.4 that answers with these codes, then with success."""
    left = list(codes)
    api_keys = api_key_bodies({ApiKey(key): api.request.versions for key, api in APIS.items()})
    node = ScriptedNode(
        {
            ApiKey.API_VERSIONS: lambda _: {"api_keys": api_keys},
            ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(1, {1: node.endpoint}),
            ApiKey.UNREGISTER_CONTROLLER: lambda _: {"error_code": left.pop(0) if left else 0, "error_message": "why"},
        }
    )
    return node


async def test_the_leader_forgets_a_controller_also_one_that_leads_later() -> None:
    async with (
        unregistering(ErrorCode.NOT_CONTROLLER) as node,
        Admin([dead(), node.endpoint], patience=PATIENT) as admin,
    ):
        await admin.unregister_controller(NodeId(3))
        assert node.requests(ApiKey.UNREGISTER_CONTROLLER) == [{"controller_id": 3}] * 2


@pytest.mark.parametrize(("code", "name"), [(136, "CONTROLLER_ID_NOT_REGISTERED"), (42, "INVALID_REQUEST")])
async def test_a_controller_that_is_not_forgotten_has_the_leaders_reason(code: int, name: str) -> None:
    async with unregistering(code) as node, Admin([node.endpoint], patience=PATIENT) as admin:
        with pytest.raises(RefusedError, match=f"unregistering controller 3 was refused: {name}: why"):
            await admin.unregister_controller(NodeId(3))


async def test_only_controllers_of_kafka_unregister() -> None:
    async with three_nodes() as three, Admin([three.nodes[2].endpoint], patience=PATIENT) as admin:
        with pytest.raises(UsageError, match=r"does not offer UnregisterController: only Kafka's controllers do"):
            await admin.unregister_controller(NodeId(3))
