"""What the oracles of clients and producers report, and what they accept."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.core.state import Follower, Leader
from pykraft.errors import ErrorCode
from pykraft.host.delivery import CommittedBatch
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import BROKERS
from pykraft.sim.clients.others import producer_batch
from pykraft.sim.facts import history
from pykraft.sim.invariants import ViolationError, clients
from pykraft.sim.machine.spoken import LogEnd, SliceAsked, Spoken
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import appends, batch, encoded, entry, node, operation, truncates, view, world


# acknowledged: An acknowledged value that is missing, or is another one, is found.
def acknowledged() -> history.Operation:
    return operation(1, b"a", b"b", answer=history.OperationOutcome.COMMITTED, base_offset=4)


@pytest.mark.parametrize("is_told_first", [True, False])
def test_what_is_there_is_accepted(is_told_first: bool) -> None:
    made = clients.AcknowledgedIsCommitted(world())
    for step in (0, 1) if is_told_first else (1, 0):
        if step:
            made.committed(4, [b"a", b"b"])
        else:
            made.decided(acknowledged())
            made.decided(operation(2, b"c", answer=history.OperationOutcome.UNKNOWN))
    made.ended()


def test_another_value_is_found_in_either_order() -> None:
    made = clients.AcknowledgedIsCommitted(world())
    made.decided(acknowledged())
    with pytest.raises(ViolationError, match="the value b was acknowledged at offset 5, x is committed there"):
        made.committed(4, [b"a", b"x"])
    made = clients.AcknowledgedIsCommitted(world())
    made.committed(4, [b"a", b"x"])
    with pytest.raises(ViolationError, match="the value b was acknowledged at offset 5"):
        made.decided(acknowledged())


def test_what_is_not_there_at_the_end_is_found() -> None:
    made = clients.AcknowledgedIsCommitted(world())
    made.decided(acknowledged())
    made.committed(4, [b"a"])
    with pytest.raises(ViolationError, match="acknowledged at offset 5 is not there"):
        made.ended()


# decided: A client that waits too long or gets two answers is found.
def oracle(now_us: int = 9_000_000, **host: Any) -> clients.EveryProposalIsDecided:
    """One that watches a world of one node, which leads epoch 1 unless something else is said."""
    where = world(now_us=now_us)
    where.nodes = {1: node(**{"role": "leader", "high_watermark": 10, **host})}
    return clients.EveryProposalIsDecided(where)


def test_answers_in_time_new_calls_and_dead_processes_are_accepted() -> None:
    made = oracle()
    answered = operation(1)
    for each in (answered, operation(2, invoked_us=8_000_000), operation(3, is_alive=lambda: False)):
        made.proposed(each)
    made.decided(answered)
    made.ended()


def test_whoever_waits_too_long_for_an_offset_is_found() -> None:
    made = oracle()
    made.changed(node(), view("leader", high_watermark=9), view("leader", high_watermark=10))
    made.proposed(operation(1))
    with pytest.raises(
        ViolationError,
        match=r"operation 1, proposed at node 1 at 0.000 ms, has no answer at 9000.000 ms: "
        r"it has had no offset for 9000.000 ms",
    ):
        made.ended()


def test_whoever_waits_behind_a_leader_that_commits_nothing_is_found() -> None:
    made = oracle()
    made.facts.clock.now_us = 5_999_000
    made.changed(node(), view("leader", high_watermark=9), view("leader", high_watermark=10))
    made.facts.clock.now_us = 9_000_000
    made.changed(node(), view("leader", high_watermark=10), view("leader", high_watermark=10, has_fetched=True))
    made.changed(node(), view("leader", high_watermark=10), view("follower", high_watermark=11))
    made.proposed(operation(1, base_offset=10))
    with pytest.raises(ViolationError, match=r"its leader has committed nothing for 3001.000 ms"):
        made.ended()


def test_who_waits_for_a_long_log_before_its_own_records_is_accepted() -> None:
    made = oracle()
    made.facts.clock.now_us = 6_001_000
    made.changed(node(), view("leader", high_watermark=9), view("leader", high_watermark=10))
    made.facts.clock.now_us = 9_000_000
    made.proposed(operation(1, base_offset=10))
    made.ended()


def test_an_answer_is_due_as_soon_as_the_high_watermark_is_beyond() -> None:
    made = oracle(high_watermark=11)
    made.proposed(operation(1, base_offset=10, invoked_us=9_000_000))
    with pytest.raises(ViolationError, match=r"the high watermark is 11, beyond its end 11"):
        made.ended()


def test_a_leader_that_knows_no_high_watermark_owes_no_answer_yet() -> None:
    made = oracle(high_watermark=None)
    made.proposed(operation(1, base_offset=10, invoked_us=9_000_000))
    made.ended()


@pytest.mark.parametrize("host", [{"role": "follower"}, {"epoch": 2}])
def test_an_answer_is_due_as_soon_as_the_leadership_is_over(host: dict[str, Any]) -> None:
    made = oracle(**host)
    made.proposed(operation(1, invoked_us=9_000_000))
    with pytest.raises(ViolationError, match=r"the node does not lead epoch 1 any more"):
        made.ended()


def test_a_second_answer_is_found() -> None:
    made, asked = clients.EveryProposalIsDecided(world()), operation(1)
    made.proposed(asked)
    made.decided(asked)
    with pytest.raises(ViolationError, match="operation 1 of node 1 is answered twice"):
        made.decided(asked)


# duplicates: A value at two offsets is found.
def test_a_value_at_one_offset_is_accepted_and_at_two_found() -> None:
    made = clients.NoDuplicates(world())
    made.committed(3, [b"a", b"b"])
    made.committed(3, [b"a"])
    with pytest.raises(ViolationError, match="the value b is committed at offset 4, and at 7 again"):
        made.committed(6, [b"c", b"b"])


# linearizable: A history that is not linearizable is found: of registers, and of offsets.
def write(number: int, begin_us: int, end_us: int, *, base_offset: int) -> history.Operation:
    told: dict[str, Any] = {"invoked_us": begin_us, "answered_us": end_us, "base_offset": base_offset}
    return operation(number, history.value_of(number, b"w", 0), answer=history.OperationOutcome.COMMITTED, **told)


def read(number: int, begin_us: int, end_us: int, found: int) -> history.Operation:
    return operation(number, history.value_of(number, b"r", 0), invoked_us=begin_us, read=found, read_us=end_us)


def check_linearizable(*operations: history.Operation) -> None:
    where = world()
    where.history.operations = list(operations)
    clients.Linearizable(where).ended()


def test_a_history_with_an_order_is_accepted() -> None:
    check_linearizable(
        write(4, 0, 10, base_offset=0), read(8, 20, 30, 4), write(12, 25, 50, base_offset=2), read(16, 30, 40, 12)
    )


def test_a_stale_read_is_found() -> None:
    with pytest.raises(ViolationError, match="register 0"):
        check_linearizable(write(4, 0, 10, base_offset=0), write(8, 20, 30, base_offset=1), read(12, 40, 50, 4))


def test_offsets_against_the_order_of_time_are_found() -> None:
    with pytest.raises(ViolationError, match="offsets"):
        check_linearizable(write(4, 0, 10, base_offset=5), write(5, 20, 30, base_offset=3))


# linger: A proposal that lingers too long while the disk is idle is found.
def lingered(ms: int, *, idle_since_ms: int = 0, epoch: int = 1) -> None:
    made = clients.LingerIsBounded(world(now_us=ms * 1_000))
    made.started(node())
    made.persisted(node(ms=idle_since_ms))
    made.accepted(operation(1, base_offset=5, epoch=epoch))
    made.submitted(node(ms=ms), appends(encoded(5, b"a")))


@pytest.mark.parametrize(("ms", "idle_since_ms"), [(10, 0), (13, 0), (60, 58)])
def test_the_linger_time_and_a_busy_disk_are_accepted(ms: int, idle_since_ms: int) -> None:
    lingered(ms, idle_since_ms=idle_since_ms)


def test_of_a_former_term_nothing_is_expected() -> None:
    lingered(60, epoch=9)
    clients.LingerIsBounded(world()).submitted(node(), truncates(0))


@pytest.mark.conformance("H32")
def test_a_longer_time_is_found() -> None:
    with pytest.raises(ViolationError, match="let operation 1 linger for 10 ms and 50 more"):
        lingered(60)


def test_what_is_only_prepared_may_linger_as_long_as_it_likes() -> None:
    made = clients.LingerIsBounded(world(now_us=60_000))
    made.started(node())
    made.persisted(node(ms=0))
    made.accepted(operation(1, base_offset=5, is_prepared=True))
    made.submitted(node(ms=60), appends(encoded(5, b"a")))


# phantoms: A value that nobody proposed is found.
def test_proposed_values_are_accepted_and_others_are_found() -> None:
    made = clients.NoPhantoms(world())
    made.proposed(operation(1, b"a", b"b"))
    made.committed(3, [b"b", b"a"])
    with pytest.raises(ViolationError, match="offset 6 holds b'c', which nobody proposed"):
        made.committed(5, [b"a", b"c"])


# producer_answers: Acknowledgments before the commit, ids that are issued twice, and errors without a reason are found.
def answer(error: ErrorCode = ErrorCode.NONE, *, offset: int = 0, is_next: bool = True) -> history.ProducerAnswer:
    return history.ProducerAnswer(
        node_id=1,
        operation=operation(1, b"a", b"b"),
        producer_id=5,
        producer_epoch=0,
        base_sequence=3,
        error=error,
        base_offset=offset,
        is_next=is_next,
    )


def producer_answers_oracle(*, records_between: int = 0, remembered_max: int = 10) -> clients.ProducersAreToldTheTruth:
    where: Any = world()
    where.committed.entries = [entry(0, count=4)]
    where.records_between = records_between
    where.nodes = {1: SimpleNamespace(config=SimpleNamespace(client_producers_max=remembered_max))}
    return clients.ProducersAreToldTheTruth(where)


def test_a_committed_batch_may_be_acknowledged_and_no_other() -> None:
    made = producer_answers_oracle()
    made.produced(answer(offset=2))
    with pytest.raises(ViolationError, match=r"NONE .* at offset 3; all below 4 is committed"):
        made.produced(answer(offset=3))


def test_an_id_is_issued_once() -> None:
    made = producer_answers_oracle()
    made.id_issued(history.IssuedId(node_id=1, producer_id=5))
    made.id_issued(history.IssuedId(node_id=1, producer_id=6))
    with pytest.raises(ViolationError, match="node 2 issues producer id 5 once more"):
        made.id_issued(history.IssuedId(node_id=2, producer_id=5))


@pytest.mark.parametrize("error", clients.NEVER)
def test_a_correct_batch_gets_none_of_these_errors(error: ErrorCode) -> None:
    with pytest.raises(ViolationError, match=error.name):
        producer_answers_oracle().produced(answer(error))


def test_the_next_batch_is_in_order() -> None:
    made = producer_answers_oracle()
    made.produced(answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, is_next=False))
    made.produced(answer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(ViolationError, match="the next one after what was acknowledged"):
        made.produced(answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))


def test_a_producer_is_unknown_only_where_somebody_may_have_forgotten_it() -> None:
    unknown = answer(ErrorCode.UNKNOWN_PRODUCER_ID)
    producer_answers_oracle(records_between=30).produced(unknown)
    small = producer_answers_oracle(remembered_max=1)
    for producer_id in (1, 2):
        with pytest.raises(ViolationError, match="no node has forgotten any"):
            small.produced(unknown)
        small.id_issued(history.IssuedId(node_id=1, producer_id=producer_id))
    small.produced(unknown)


# producer_order: Gaps, repeats and old epochs in the committed batches of a producer are found.
def produced(offset: int, sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 9) -> CommittedBatch:
    values = [b"v"] * count
    data = producer_batch(values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, timestamp_ms=0)
    return replace(batch(offset, *values), data=data[:0] + offset.to_bytes(8, "big") + data[8:])


@pytest.mark.parametrize(("sequence", "epoch"), [(0, 1), (3, 1), (5, 0), (1, 2)])
def test_a_gap_a_repeat_an_old_epoch_and_a_new_one_that_goes_on_are_found(sequence: int, epoch: int) -> None:
    made = clients.ProducersKeepOrder(world())
    made.delivered(node(1), [produced(0, 0, epoch=1), produced(1, 1, epoch=1)])
    with pytest.raises(ViolationError, match=r"at offset 2; the next one is \d of epoch"):
        made.delivered(node(1), [produced(2, sequence, epoch=epoch)])


def test_a_producer_begins_at_0() -> None:
    with pytest.raises(ViolationError, match="the next one is 0 of epoch 0"):
        clients.ProducersKeepOrder(world()).delivered(node(1), [produced(2, 1)])


# rejected: A value that is both rejected and committed is found, in either order.
REJECTED = operation(1, b"a", answer=history.OperationOutcome.REJECTED)


def test_it_is_found_in_either_order() -> None:
    made = clients.RejectedStaysOut(world())
    made.decided(REJECTED)
    with pytest.raises(ViolationError, match="the value a was rejected and is committed"):
        made.committed(0, [b"a"])
    made = clients.RejectedStaysOut(world())
    made.committed(0, [b"a"])
    with pytest.raises(ViolationError, match="the value a was rejected"):
        made.decided(REJECTED)


# room: An append that is rejected for a full buffer although there is room is found.
def decided(waiting: int, *, is_leader: bool = True, is_prepared: bool = False, lacked_room: bool = True) -> None:
    state: Any = object.__new__(Leader if is_leader else Follower)
    if is_leader:
        state.accumulation = SimpleNamespace(waiting_count=waiting)
    where = world()
    where.nodes = {1: node(1, raft=SimpleNamespace(state=state))}
    asked = operation(1, is_prepared=is_prepared)
    asked.lacked_room = lacked_room
    clients.RoomIsUsed(where).decided(asked)


def test_a_full_buffer_is_a_reason_and_one_batch_may_be_gone_since() -> None:
    decided(10)
    decided(9)


def test_other_answers_and_what_is_only_prepared_are_no_matter() -> None:
    decided(0, lacked_room=False)
    decided(0, is_prepared=True)
    decided(0, is_leader=False)


def test_a_buffer_with_room_is_no_reason() -> None:
    with pytest.raises(ViolationError, match="no room for operation 1, and 8 batches in a buffer of 10"):
        decided(8)


# truth_told: Wrong answers are found, and requests without an answer.
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
        self.made = clients.ClientsAreToldTheTruth(self.world)
        for number, offset in ((2, 7), (4, 5)):
            self.fetches(number, offset)
        self.nodes[4].process.wiretap.fetch_answers[1] = clients.OTHER_ANSWERS + 1

    @staticmethod
    def _node(number: int) -> Any:
        raft = SimpleNamespace(log=SimpleNamespace(snapshots=(), start_offset=0))
        made = node(number, epoch=3, leader_id=1, role="follower", log_end_offset=9, raft=raft)
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

    def asked(self, question: history.VisitQuestion) -> history.Visit:
        visit = history.Visit(question=question, process=self.nodes[1].process, asked_us=self.world.clock.now_us)
        self.made.visited(self.nodes[1], visit)
        return visit

    def answers(self, question: history.VisitQuestion, answer: dict[str, Any]) -> None:
        visit = self.asked(question)
        visit.answer = cast(Any, answer)
        self.made.visited(self.nodes[1], visit)


def test_the_truth_is_accepted_and_so_is_an_error() -> None:
    case = Case()
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum())
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(error_code=6))
    case.answers(history.VisitQuestion.DESCRIBE_CLUSTER, cluster())
    case.answers(history.VisitQuestion.DESCRIBE_CLUSTER, cluster(error_code=5, brokers=[]))
    for error in (ErrorCode.INVALID_REQUEST, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        case.answers(history.VisitQuestion.ADD_IMPOSSIBLE_VOTER, {"error_code": error})
    case.nodes[1].is_damaged = True
    case.answers(history.VisitQuestion.DESCRIBE_CLUSTER, cluster(controller_id=9))
    case.nodes[1].is_damaged = False
    case.world.claims.epochs.add(3)
    case.answers(history.VisitQuestion.DESCRIBE_CLUSTER, cluster(controller_id=9))


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
        Case().answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(**changed))


def test_a_twin_of_a_voter_is_an_observer_of_which_nothing_is_known() -> None:
    case = Case()
    case.world.claims.twin_ids.add(2)
    rows = [{"replica_id": 4, "log_end_offset": 5}, {"replica_id": 2, "log_end_offset": 8}]
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=rows))


def test_who_has_had_no_answer_need_not_be_listed() -> None:
    case = Case()
    case.nodes[4].process.wiretap.fetch_answers[1] = clients.OTHER_ANSWERS
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    case.nodes[4].status = None
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


def test_who_has_had_only_snapshots_need_not_be_listed() -> None:
    case = Case()
    observer = case.nodes[4]
    asked = SliceAsked(snapshot_id=OffsetAndEpoch(Offset(5), Epoch(2)), position=0)
    for _ in range(clients.OTHER_ANSWERS + 1):
        case.fetches(4, 0)
        observer.process.wiretap.fetch_answers[1] += 1
        case.made.before_send(observer, Spoken(epoch=3, sliced=asked, target_id=1))
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    case.fetches(4, 5)
    observer.process.wiretap.fetch_answers[1] += clients.OTHER_ANSWERS
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    observer.process.wiretap.fetch_answers[1] += 1
    with pytest.raises(ViolationError, match="\\[4\\] fetch from it as well"):
        case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


@pytest.mark.parametrize("snapshots", [(), (OffsetAndEpoch(Offset(5), Epoch(2)),)])
def test_an_empty_replica_without_room_for_the_snapshot_need_not_be_listed(snapshots: Any) -> None:
    case = Case()
    case.nodes[1].host.raft.log.snapshots = snapshots
    for _ in range(clients.OTHER_ANSWERS + 1):
        case.made.before_send(case.nodes[4], Spoken(epoch=3, fetched=LogEnd(epoch=0, offset=0), target_id=1))
        case.nodes[4].process.wiretap.fetch_answers[1] += 1
    if not snapshots:
        with pytest.raises(ViolationError, match="\\[4\\] fetch from it as well"):
            case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    else:
        case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


def test_what_the_leader_answered_before_it_was_followed_does_not_count() -> None:
    case = Case()
    observer = case.nodes[4]
    observer.status = observer.status._replace(leader_id=None)
    for _ in range(clients.OTHER_ANSWERS + 1):
        case.fetches(4, 5)
        observer.process.wiretap.fetch_answers[1] += 1
    observer.status = observer.status._replace(leader_id=1)
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    case.fetches(4, 5)
    case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))
    observer.process.wiretap.fetch_answers[1] += clients.OTHER_ANSWERS + 1
    with pytest.raises(ViolationError, match="\\[4\\] fetch from it as well"):
        case.answers(history.VisitQuestion.DESCRIBE_QUORUM, quorum(observers=[]))


@pytest.mark.parametrize("changed", [{"controller_id": 2}, {"brokers": [{"broker_id": 1}]}])
def test_what_is_not_so_of_the_cluster_is_found(changed: dict[str, Any]) -> None:
    with pytest.raises(ViolationError, match="leads the nodes"):
        Case().answers(history.VisitQuestion.DESCRIBE_CLUSTER, cluster(**changed))


def test_controllers_are_named_to_who_asks_for_them() -> None:
    with pytest.raises(ViolationError, match="names brokers to who asks for controllers"):
        Case().answers(history.VisitQuestion.DESCRIBE_CLUSTER, cluster(endpoint_type=BROKERS))


def test_brokers_are_named_only_where_clients_are_served() -> None:
    case, question = Case(), history.VisitQuestion.DESCRIBE_BROKERS
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
    refused = case.asked(history.VisitQuestion.ADD_IMPOSSIBLE_VOTER)
    refused.is_refused = True
    with pytest.raises(ViolationError, match="closes the connection of ADD_IMPOSSIBLE_VOTER"):
        case.made.visited(case.nodes[1], refused)
    case.nodes[1].config.operator_listeners = ()
    refused = case.asked(history.VisitQuestion.ADD_IMPOSSIBLE_VOTER)
    refused.is_refused = True
    case.made.visited(case.nodes[1], refused)
    with pytest.raises(ViolationError, match="answers an operator, whom none of its listeners serves"):
        case.answers(history.VisitQuestion.ADD_IMPOSSIBLE_VOTER, {"error_code": ErrorCode.INVALID_REQUEST})


def fetched(*offsets: int) -> dict[str, Any]:
    records = b"".join(encoded(offset, b"a") for offset in offsets)
    return {"responses": [{"partitions": [{"records": records or None}]}]}


def test_what_is_not_committed_is_not_for_who_wants_committed_records() -> None:
    Case().answers(history.VisitQuestion.FETCH_COMMITTED, fetched())
    Case().answers(history.VisitQuestion.FETCH_COMMITTED, fetched(5, 6))
    with pytest.raises(ViolationError, match=r"sends the batch at 7 .* below 7 is committed"):
        Case().answers(history.VisitQuestion.FETCH_COMMITTED, fetched(6, 7))


def test_a_voter_that_nobody_may_add_is_refused() -> None:
    with pytest.raises(ViolationError, match="answers REQUEST_TIMED_OUT to a voter"):
        Case().answers(history.VisitQuestion.ADD_IMPOSSIBLE_VOTER, {"error_code": ErrorCode.REQUEST_TIMED_OUT})


def test_a_node_that_stopped_or_whose_disk_stalls_need_not_answer() -> None:
    case = Case()
    case.asked(history.VisitQuestion.DESCRIBE_QUORUM)
    case.nodes[1].disk.io_errors.stalled_until_us = clients.ANSWER_US
    case.world.clock.now_us = clients.ANSWER_US + 1
    case.made.after_event(case.nodes[1], view("leader"))
    case.made.after_event(case.nodes[2], view())
    case.nodes[1].process.is_running = False
    case.made.after_event(case.nodes[1], view("leader"))


def test_a_question_without_an_answer_is_found() -> None:
    case = Case()
    case.asked(history.VisitQuestion.DESCRIBE_CLUSTER)
    case.world.clock.now_us = clients.ANSWER_US + 1
    with pytest.raises(ViolationError, match="node 1 has not answered DESCRIBE_CLUSTER"):
        case.made.after_event(case.nodes[1], view("leader"))
