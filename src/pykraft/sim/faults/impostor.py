"""Faults where nodes prove who they are: somebody with another's id, and a rule that is withdrawn.

The impostor has a stolen certificate of one voter, or none, and poses as another one. It takes that voter's address
while its process is down, and grants every vote that it is asked for there; and it acknowledges in its name whatever
the leader has. Nothing of this may count: two candidates with the same forged vote both lead, and records are
committed that only the leader has. The oracles of every world notice that.

A rule is withdrawn while its holder's connection is open: the next request there is refused already.

Source: ours (ADR 250, ADR 251).
"""

from typing import Final

from pykraft import types
from pykraft.core import messages
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.api import frame as framed
from pykraft.protocol.messages import ApiKey
from pykraft.security.acl_file import parse_acls
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.faults.stranger import Stranger, StrangerAnswer
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.scenario import IMPOSTORS
from pykraft.sim.scenario.settings import ACLS, LISTENER, certificate_of, port_of

IMPOSTOR_ID: Final = 997
"""Node id and port of the impostor, when it has not taken a voter's address."""
GUEST_ID: Final = 996
GUEST: Final = Principal("CN=guest")
FETCH_US: Final = 20_000
"""Time between two acknowledgements in a voter's name."""
LASTS_US: Final = (200_000, 3_000_000)
WITHDRAWN: Final = f"{ACLS}--deny-principal {GUEST} --operation Describe --cluster"
_VERSION: Final = 2
"""Of DescribeQuorum."""


class ImpostorFaults(Family):
    """Both kinds of this family; worlds without certificates have neither."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._impostor: Stranger | None = None
        self._at_address: Stranger | None = None
        self._guest: ForbiddenGuest | None = None
        pose, withdraw = IMPOSTORS
        self.kinds = {pose: self._pose, withdraw: self._withdraw}

    def stop(self) -> None:
        for each in (self._impostor, self._at_address, self._guest):
            if each is not None:
                each.leave()
        self._impostor = self._at_address = self._guest = None

    def _pose(self) -> bool:
        """Pose as a voter for a while, one at a time."""
        facts, rng = self._harm.facts, self._rng
        voters = facts.voters()
        if self._impostor is not None or len(voters) < 2 or voters[0].authorizer is None:
            return False
        posed, owner = rng.sample(voters, 2)
        principal = rng.choice((ANONYMOUS, certificate_of(int(owner.node_id))))
        self._harm.hit("impostor", posed, f"is impersonated with the certificate of {principal}")
        self._impostor = impostor = Stranger(
            facts, self._harm.world.watch, lambda _: None, node_id=IMPOSTOR_ID, principal=principal
        )
        self._take_address(impostor, posed)
        self._acknowledge(impostor, posed)
        self._harm.later(rng.randint(*LASTS_US), self.stop)
        return True

    def _take_address(self, impostor: Stranger, posed: SimulatedNode) -> None:
        """Listen where the voter does, as long as its process is down."""
        if self._impostor is not impostor:
            return
        if posed.process is None and self._at_address is None:
            self._at_address = Stranger(
                self._harm.facts,
                self._harm.world.watch,
                _grant,
                node_id=int(posed.node_id),
                levels=types.KRAFT_VERSIONS,
                port=port_of(posed.config),
                principal=impostor.principal,
            )
        elif posed.process is not None and self._at_address is not None:
            self._at_address.leave()
            self._at_address = None
        self._harm.later(FETCH_US, lambda: self._take_address(impostor, posed))

    def _acknowledge(self, impostor: Stranger, posed: SimulatedNode) -> None:
        """Tell the leader that the voter has all that it has itself."""
        if self._impostor is not impostor:
            return
        leader = self._harm.facts.newest_leader()
        if leader is not None and leader.node_id != posed.node_id and leader.host.raft is not None:
            end, epoch = leader.host.raft.log.end, leader.host.status.epoch
            message = messages.FetchRequest(
                replica=posed.key,
                epoch=epoch,
                fetch_offset=end.offset,
                last_fetched_epoch=end.epoch,
                wait_ms_max=0,
                size_bytes_max=1,
                high_watermark=None,
            )
            impostor.ask(types.NodeId(leader.node_id), message)
        self._harm.later(FETCH_US, lambda: self._acknowledge(impostor, posed))

    def _withdraw(self) -> bool:
        """Let a guest ask a node, withdraw the rule that allows it, and let it ask again."""
        nodes = [node for node in self._harm.facts.nodes.values() if node.process is not None and node.authorizer]
        if self._guest is not None or not nodes:
            return False
        node = self._rng.choice(nodes)
        self._harm.hit("withdrawn rule", node, f"is asked by {GUEST}, which is forbidden then")
        self._guest = ForbiddenGuest(self._harm, node)
        self._harm.later(LASTS_US[0], self._let_guest_go)
        return True

    def _let_guest_go(self) -> None:
        if self._guest is not None:
            self._guest.leave()
            self._guest = None


def _grant(asked: messages.Request) -> StrangerAnswer | None:
    """Every vote is granted, in any epoch; nothing else is answered."""
    if not isinstance(asked, messages.VoteRequest):
        return None
    return messages.VoteResponse(error=ErrorCode.NONE, epoch=asked.epoch, leader_id=None, vote_granted=True), b""


class ForbiddenGuest:
    """Asks one node twice on one connection; between the answers, the rule that allows it is withdrawn."""

    def __init__(self, harm: Harm, node: SimulatedNode) -> None:
        self.node_id = self.port = GUEST_ID
        self.principal = GUEST
        self._harm = harm
        self._node = node
        self._is_withdrawn = False
        harm.facts.network.attach(self)
        endpoint = node.config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        self._connection = harm.facts.network.dial(self, endpoint)

    def leave(self) -> None:
        """The rule counts again."""
        self._harm.facts.network.close(self._connection)
        self._harm.facts.network.detach(self)
        assert self._node.authorizer is not None
        self._node.authorizer.acls = parse_acls(ACLS, "simulated")

    def accepted(self, connection: ConnectionId) -> None:
        """Never called: nobody dials a guest."""
        raise AssertionError(f"somebody dials a guest: {connection}")

    def connected(self, connection: ConnectionId) -> None:
        """Ask for the quorum."""
        partitions = [{"partition_index": 0}]
        body = {"topics": [{"topic_name": self._node.config.topic_name, "partitions": partitions}]}
        self._harm.facts.network.send(connection, framed(encode_request(_KEY, _VERSION, 1, "guest", body)))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The node ended, or its link broke."""

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """Withdraw the rule, or look whether it counts. Errors: ViolationError."""
        self._harm.world.watch.trace.absorb(frame)
        _, body = decode_response(_KEY, _VERSION, frame)
        is_refused = body["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if is_refused != self._is_withdrawn:
            text = f"node {self._node.node_id} answers {GUEST} with {body['error_code']}"
            raise ViolationError("RulesCountAtOnce", f"{text}, and the rule is withdrawn: {self._is_withdrawn}")
        if not self._is_withdrawn:
            self._is_withdrawn = True
            assert self._node.authorizer is not None
            self._node.authorizer.acls = parse_acls(WITHDRAWN, "simulated")
            self.connected(connection)


_KEY: Final = ApiKey.DESCRIBE_QUORUM
