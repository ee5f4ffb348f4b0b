"""Wrong answers are found, and requests without an answer."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.errors import ErrorCode
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import BROKERS
from pykraft.sim.facts.history import Visit, VisitQuestion
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.truth_told import ANSWER_US, OTHER_ANSWERS, ClientsAreToldTheTruth
from pykraft.sim.machine.spoken import LogEnd, SliceAsked, Spoken
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import encoded, entry, node, view, world


def quorum(**changed: Any) -> dict[str, Any]:
    """What leader 1 of epoch 3 says; 2 and 3 vote as well, and 4 observes."""
    rows = [{"replica_id": replica_id, "log_end_offset": end} for replica_id, end in ((1, 9), (2, 7), (3, -1))]
    partition = {
        "error_code": 0,
        "leader_id": 1,
        "leader_epoch": 3,
        "high_watermark": 7,
        "current_voters": rows,
        "observers": [{"replica_id": 4, "log_end_offset": 5}],
        **changed,
    }
    return {"error_code": 0, "topics": [{"partitions": [partition]}]}


def cluster(**changed: Any) -> dict[str, Any]:
    brokers = [{"broker_id": node_id} for node_id in (1, 2, 3)]
    return {"error_code": 0, "endpoint_type": CONTROLLERS, "controller_id": 1, "brokers": brokers, **changed}


class Case:
    """Nodes 1 to 4, of which 1 leads and the others have fetched."""

    def __init__(self) -> None:
        self.world = world()
        self.world.committed.entries += [entry(offset) for offset in range(7)]
        self.nodes = {number: self._node(number) for number in (1, 2, 3, 4)}
        self.world.nodes = self.nodes
        self.made = ClientsAreToldTheTruth(self.world)
        for number, offset in ((2, 7), (4, 5)):
            self.fetches(number, offset)
        self.nodes[4].process.wiretap.fetch_answers[1] = OTHER_ANSWERS + 1

    @staticmethod
    def _node(number: int) -> Any:
        made = node(number, epoch=3, leader_id=1, role="follower", log_end_offset=9)
        made.process.wiretap.fetch_answers = Counter()
        made.process.is_running = True
        made.config.client_listeners = ()
        made.config.operator_listeners = None
        made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
        return made

    def fetches(self, number: int, offset: int) -> None:
        for at in (offset, offset - 1):
            fetched = LogEnd(epoch=3, offset=at)
            self.made.before_send(self.nodes[number], Spoken(epoch=3, fetched=fetched, target_id=1))
        self.made.before_send(self.nodes[number], Spoken(epoch=3, target_id=1))

    def asked(self, question: VisitQuestion) -> Visit:
        visit = Visit(question=question, process=self.nodes[1].process, asked_us=self.world.clock.now_us)
        self.made.visited(self.nodes[1], visit)
        return visit

    def answers(self, question: VisitQuestion, answer: dict[str, Any]) -> None:
        visit = self.asked(question)
        visit.answer = cast(Any, answer)
        self.made.visited(self.nodes[1], visit)


def test_the_truth_is_accepted_and_so_is_an_error() -> None:
    case = Case()
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum())
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(error_code=6))
    case.answers(VisitQuestion.DESCRIBE_CLUSTER, cluster())
    case.answers(VisitQuestion.DESCRIBE_CLUSTER, cluster(error_code=5, brokers=[]))
    for error in (ErrorCode.INVALID_REQUEST, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        case.answers(VisitQuestion.ADD_IMPOSSIBLE_VOTER, {"error_code": error})
    case.nodes[1].is_damaged = True
    case.answers(VisitQuestion.DESCRIBE_CLUSTER, cluster(controller_id=9))
    case.nodes[1].is_damaged = False
    case.world.claims.epochs.add(3)
    case.answers(VisitQuestion.DESCRIBE_CLUSTER, cluster(controller_id=9))


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({"leader_id": 2}, "says of epoch 3 that 2 leads; it is itself in epoch 3"),
        ({"leader_epoch": 2}, "says of epoch 2 that 1 leads"),
        ({"current_voters": []}, "the voters are \\[\\], its log says \\[1, 2, 3\\]"),
        ({"high_watermark": 8}, "that all below 8 is committed"),
        ({"observers": []}, "\\[4\\] fetch from it as well"),
        ({"observers": [{"replica_id": 4, "log_end_offset": 6}]}, "replica 4 is at 6; it is at -1 to 5"),
    ],
)
def test_what_is_not_so_of_the_quorum_is_found(changed: dict[str, Any], seen: str) -> None:
    with pytest.raises(ViolationError, match=seen):
        Case().answers(VisitQuestion.DESCRIBE_QUORUM, quorum(**changed))


def test_a_twin_of_a_voter_is_an_observer_of_which_nothing_is_known() -> None:
    case = Case()
    case.world.claims.twin_ids.add(2)
    rows = [{"replica_id": 4, "log_end_offset": 5}, {"replica_id": 2, "log_end_offset": 8}]
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=rows))


def test_who_has_had_no_answer_need_not_be_listed() -> None:
    case = Case()
    case.nodes[4].process.wiretap.fetch_answers[1] = OTHER_ANSWERS
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    case.nodes[4].status = None
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


def test_who_has_had_only_snapshots_need_not_be_listed() -> None:
    case = Case()
    observer = case.nodes[4]
    asked = SliceAsked(snapshot_id=OffsetAndEpoch(Offset(5), Epoch(2)), position=0)
    for _ in range(OTHER_ANSWERS + 1):
        case.fetches(4, 0)
        observer.process.wiretap.fetch_answers[1] += 1
        case.made.before_send(observer, Spoken(epoch=3, sliced=asked, target_id=1))
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    case.fetches(4, 5)
    observer.process.wiretap.fetch_answers[1] += OTHER_ANSWERS
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    observer.process.wiretap.fetch_answers[1] += 1
    with pytest.raises(ViolationError, match="\\[4\\] fetch from it as well"):
        case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


def test_what_the_leader_answered_before_it_was_followed_does_not_count() -> None:
    case = Case()
    observer = case.nodes[4]
    observer.status = observer.status._replace(leader_id=None)
    for _ in range(OTHER_ANSWERS + 1):
        case.fetches(4, 5)
        observer.process.wiretap.fetch_answers[1] += 1
    observer.status = observer.status._replace(leader_id=1)
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    case.fetches(4, 5)
    case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    observer.process.wiretap.fetch_answers[1] += OTHER_ANSWERS + 1
    with pytest.raises(ViolationError, match="\\[4\\] fetch from it as well"):
        case.answers(VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


@pytest.mark.parametrize("changed", [{"controller_id": 2}, {"brokers": [{"broker_id": 1}]}])
def test_what_is_not_so_of_the_cluster_is_found(changed: dict[str, Any]) -> None:
    with pytest.raises(ViolationError, match="leads the nodes"):
        Case().answers(VisitQuestion.DESCRIBE_CLUSTER, cluster(**changed))


def test_controllers_are_named_to_who_asks_for_them() -> None:
    with pytest.raises(ViolationError, match="names brokers to who asks for controllers"):
        Case().answers(VisitQuestion.DESCRIBE_CLUSTER, cluster(endpoint_type=BROKERS))


def test_brokers_are_named_only_where_clients_are_served() -> None:
    case, question = Case(), VisitQuestion.DESCRIBE_BROKERS
    brokers, refusal = (
        {"error_code": error, "endpoint_type": BROKERS}
        for error in (ErrorCode.NONE, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    )
    case.answers(question, refusal)
    with pytest.raises(ViolationError, match="answers NONE to who asks for brokers; it serves none"):
        case.answers(question, brokers)
    case.nodes[1].config.client_listeners = ("CONTROLLER",)
    case.answers(question, brokers)
    with pytest.raises(ViolationError, match=r"answers MISMATCHED_ENDPOINT_TYPE .* it serves clients"):
        case.answers(question, refusal)


def test_operators_are_refused_where_no_listener_serves_them() -> None:
    case = Case()
    refused = case.asked(VisitQuestion.ADD_IMPOSSIBLE_VOTER)
    refused.is_refused = True
    with pytest.raises(ViolationError, match="closes the connection of ADD_IMPOSSIBLE_VOTER"):
        case.made.visited(case.nodes[1], refused)
    case.nodes[1].config.operator_listeners = ()
    refused = case.asked(VisitQuestion.ADD_IMPOSSIBLE_VOTER)
    refused.is_refused = True
    case.made.visited(case.nodes[1], refused)
    with pytest.raises(ViolationError, match="answers an operator, whom none of its listeners serves"):
        case.answers(VisitQuestion.ADD_IMPOSSIBLE_VOTER, {"error_code": ErrorCode.INVALID_REQUEST})


def fetched(*offsets: int) -> dict[str, Any]:
    records = b"".join(encoded(offset, b"a") for offset in offsets)
    return {"responses": [{"partitions": [{"records": records or None}]}]}


def test_what_is_not_committed_is_not_for_who_wants_committed_records() -> None:
    Case().answers(VisitQuestion.FETCH_COMMITTED, fetched())
    Case().answers(VisitQuestion.FETCH_COMMITTED, fetched(5, 6))
    with pytest.raises(ViolationError, match=r"sends the batch at 7 .* below 7 is committed"):
        Case().answers(VisitQuestion.FETCH_COMMITTED, fetched(6, 7))


def test_a_voter_that_nobody_may_add_is_refused() -> None:
    with pytest.raises(ViolationError, match="answers REQUEST_TIMED_OUT to a voter"):
        Case().answers(VisitQuestion.ADD_IMPOSSIBLE_VOTER, {"error_code": ErrorCode.REQUEST_TIMED_OUT})


def test_a_node_that_stopped_or_whose_disk_stalls_need_not_answer() -> None:
    case = Case()
    case.asked(VisitQuestion.DESCRIBE_QUORUM)
    case.nodes[1].disk.io_errors.stalled_until_us = ANSWER_US
    case.world.clock.now_us = ANSWER_US + 1
    case.made.after_event(case.nodes[1], view("leader"))
    case.made.after_event(case.nodes[2], view())
    case.nodes[1].process.is_running = False
    case.made.after_event(case.nodes[1], view("leader"))


def test_a_question_without_an_answer_is_found() -> None:
    case = Case()
    case.asked(VisitQuestion.DESCRIBE_CLUSTER)
    case.world.clock.now_us = ANSWER_US + 1
    with pytest.raises(ViolationError, match="node 1 has not answered DESCRIBE_CLUSTER"):
        case.made.after_event(case.nodes[1], view("leader"))
