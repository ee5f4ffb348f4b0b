"""Every metric of a host in each state, before its start and after its end.

Averages, maxima and rates over sliding samples, and ratios of time, by a hand-moved clock.
"""

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.effects import PlannedBatch
from pykraft.core.leader.pending import Addition, Removal, Upgrade, VoterChange
from pykraft.core.state import Leader
from pykraft.host.metrics import (
    HOST_METRICS,
    SAMPLE_MS,
    SAMPLES,
    STATES,
    Measurements,
    MetricKind,
    Metrics,
    Sensor,
    TimeRatio,
)
from pykraft.types import NO_LISTENERS, ZERO_UUID, Epoch, Io, NodeId, Offset, Uuid, Voter, uuid_text
from tests.core.replicas import key
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import at, config

pytestmark = pytest.mark.conformance(54)

OF_LEADERS = {"number-of-observers", "uncommitted-voter-change"}
NAMES = {metric.name for metric in HOST_METRICS}


def metrics(machine: Machine) -> Metrics:
    """What a machine tells now; the names are checked on the way."""
    told = machine.running.metrics(machine.cluster.now)
    assert set(told) == NAMES - (set() if told["current-state"] == "leader" else OF_LEADERS)
    assert told["current-state"] in STATES
    for metric in HOST_METRICS:
        if metric.name in told:
            assert isinstance(told[metric.name], str) == (metric.kind in (MetricKind.STATE, MetricKind.TEXT)), (
                metric.name
            )
    return told


def directory_id(node_id: int) -> str:
    told = config(node_id).directory_id
    assert told is not None
    return uuid_text(told)


def batch(base_offset: int, end_offset: int) -> PlannedBatch:
    return PlannedBatch(
        base_offset=Offset(base_offset), end_offset=Offset(end_offset), epoch=Epoch(1), timestamp_ms=5, handles=(1,)
    )


def number(told: Metrics, name: str) -> float:
    value = told[name]
    assert isinstance(value, int | float)
    return value


def test_a_node_that_just_started_knows_nobody() -> None:
    told = metrics(Cluster()[1])
    assert told["current-state"] == "unattached"
    assert (told["current-leader"], told["current-vote"], told["current-epoch"]) == (-1, -1, 0)
    assert told["current-vote-directory-id"] == uuid_text(ZERO_UUID)
    assert (told["high-watermark"], told["log-end-offset"], told["log-end-epoch"]) == (-1, 0, 0)
    assert (told["number-of-voters"], told["number-unknown-voter-connections"]) == (3, 0)
    assert told["ignored-static-voters"] == 0
    for name in ("commit", "election"):
        assert isnan(number(told, f"{name}-latency-avg"))
        assert isnan(number(told, f"{name}-latency-max"))
    assert (told["append-records-rate"], told["fetch-records-rate"]) == (0, 0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, 0),
        (
            Addition(
                request_id=1,
                voter=Voter(key=key(4), listeners=NO_LISTENERS),
                ack_when_committed=True,
                deadline_ms=9_000,
            ),
            1,
        ),
        (Removal(request_id=1, deadline_ms=9_000, offset=Offset(4)), 1),
        (Upgrade(request_id=1, deadline_ms=9_000, offset=Offset(4)), 0),
    ],
)
def test_a_leader_tells_that_a_voter_is_being_added_or_removed(change: VoterChange | None, expected: int) -> None:
    leader = Cluster().leader()
    raft = leader.running.raft
    assert raft is not None
    assert isinstance(raft.state, Leader)
    raft.state.change = change
    assert metrics(leader)["uncommitted-voter-change"] == expected


def test_a_leader_and_a_follower_tell_the_same_epoch_and_leader(cluster: Cluster) -> None:
    leader = cluster.leader()
    leader.propose(b"a", b"b", b"c")
    cluster.run_until_committed(4)
    led = metrics(leader)
    assert led["current-state"] == "leader"
    assert (led["current-leader"], led["current-vote"]) == (leader.node_id, leader.node_id)
    assert led["current-vote-directory-id"] == directory_id(leader.node_id)
    assert (led["current-epoch"], led["log-end-epoch"]) == (1, 1)
    assert (led["high-watermark"], led["log-end-offset"]) == (4, 4)
    assert (led["number-of-observers"], led["uncommitted-voter-change"]) == (0, 0)
    assert number(led, "append-records-rate") == pytest.approx(4 / 30, rel=0.2)
    assert led["fetch-records-rate"] == 0
    assert number(led, "commit-latency-max") <= number(led, "batch-commit-latency-max")
    assert number(led, "election-latency-avg") <= number(led, "election-latency-max")
    cluster.run_until_committed(4)
    for follower in cluster.others(leader):
        told = metrics(follower)
        assert (told["current-state"], told["current-leader"]) == ("follower", leader.node_id)
        assert (told["current-epoch"], told["log-end-offset"], told["log-end-epoch"]) == (1, 4, 1)
        assert told["high-watermark"] == 4
        assert number(told, "fetch-records-rate") == pytest.approx(4 / 30, rel=0.2)
        assert told["append-records-rate"] == 0
        assert isnan(number(told, "commit-latency-avg"))


def test_a_voter_that_voted_says_for_whom(cluster: Cluster) -> None:
    told: list[Metrics] = []

    def has_voted() -> bool:
        told[:] = [metrics(machine) for machine in cluster.up]
        return any(one["current-state"] == "unattached-voted" for one in told)

    cluster.run_until(has_voted)
    (candidate,) = (one for one in told if one["current-state"] == "candidate")
    voter = next(one for one in told if one["current-state"] == "unattached-voted")
    assert (candidate["current-leader"], voter["current-leader"]) == (-1, -1)
    assert candidate["current-vote"] == voter["current-vote"] != -1
    assert candidate["current-vote-directory-id"] == directory_id(int(candidate["current-vote"]))
    assert voter["current-vote-directory-id"] == candidate["current-vote-directory-id"]


@pytest.mark.conformance("H1")
def test_a_cut_off_leader_resigns_and_campaigns_and_the_others_measure_an_election(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until(lambda: metrics(leader)["high-watermark"] == 1)
    seen: list[object] = []

    def is_replaced() -> bool:
        state = metrics(leader)["current-state"]
        if state not in seen[-1:]:
            seen.append(state)
        return state == "prospective"

    cluster.cut(leader)
    cluster.run_until(is_replaced)
    assert seen == ["leader", "unattached", "prospective"], "resigned is shown as unattached, as Kafka does"
    told = metrics(leader)
    assert told["current-epoch"] == 2, "it went on in the next epoch"
    cluster.heal()
    newest = cluster.leader()
    cluster.run_until(lambda: metrics(leader)["current-leader"] == newest.node_id)
    assert number(metrics(newest), "election-latency-max") >= 0
    assert metrics(leader)["current-state"] in {"follower", "leader"}


def test_a_resigned_leader_names_itself_and_has_no_vote(cluster: Cluster) -> None:
    leader = cluster.leader()
    leader.running.resign(leader.running.status.epoch, cluster.now)
    told = metrics(leader)
    assert (told["current-state"], told["current-leader"], told["current-vote"]) == ("unattached", leader.node_id, -1)
    assert told["current-vote-directory-id"] == uuid_text(ZERO_UUID)
    assert told["high-watermark"] == -1


def test_observers_are_counted_by_the_leader_and_show_themselves(cluster: Cluster) -> None:
    leader = cluster.leader()
    observer = cluster.add(4, replace(config(4), node_id=NodeId(4), directory_id=Uuid(bytes(15) + b"\x99")))
    cluster.run_until(lambda: metrics(observer)["current-state"] == "observer")
    cluster.run_until(lambda: metrics(leader)["number-of-observers"] == 1)
    assert metrics(observer)["number-of-voters"] == 3
    observer.crash()
    five_minutes_later = at(cluster.now.mono_ms + 300_000)
    assert leader.running.metrics(five_minutes_later)["number-of-observers"] == 0


def test_an_only_voter_leads_at_once() -> None:
    cluster = Cluster(1)
    told = metrics(cluster[1])
    assert (told["current-state"], told["current-epoch"], told["number-of-voters"]) == ("leader", 1, 1)
    cluster.run_until_committed(1)
    told = metrics(cluster[1])
    assert (told["high-watermark"], told["election-latency-max"]) == (1, 0)
    a_minute_later = cluster[1].running.metrics(at(cluster.now.mono_ms + 60_000))
    assert isnan(number(a_minute_later, "commit-latency-avg")), "nothing was committed for a minute"


def test_metrics_are_absent_before_the_start_and_after_the_end() -> None:
    cluster = Cluster(1)
    machine = cluster[1]
    cluster.run_until_committed(1)
    assert metrics(machine)
    machine.running.shutdown(1_000, cluster.now)
    cluster.settle()
    assert machine.stops == [None]
    assert machine.running.metrics(cluster.now) == {}
    host = machine.running
    machine.leave()
    assert host.metrics(cluster.now) == {}


def test_a_stalled_disk_shows_in_the_jobs_and_their_latency() -> None:
    cluster = Cluster(1)
    machine = cluster[1]
    cluster.run_until_committed(1)
    machine.is_disk_stalled = True
    outcomes = machine.propose(b"waits")
    cluster.now = at(cluster.now.mono_ms + 500)
    told = metrics(machine)
    assert (told["storage-unflushed-jobs"], told["undecided-proposals"], outcomes) == (1, 1, [])
    machine.is_disk_stalled = False
    cluster.run_until_committed(2)
    told = metrics(machine)
    assert (told["storage-unflushed-jobs"], told["undecided-proposals"]) == (0, 0)
    assert told["storage-latency-max"] == 500
    assert told["commit-latency-max"] == told["batch-commit-latency-max"] == 500


def test_a_connection_closed_for_nonsense_is_counted(cluster: Cluster) -> None:
    leader = cluster.leader()
    other = cluster.others(leader)[0]
    before = metrics(leader)["closed-for-violation-total"]
    assert before == 0
    connection = cluster.dial(other, leader.node_id)
    cluster.settle()
    leader.running.on_frame(connection, b"\xff" * 20, cluster.now)
    assert metrics(leader)["closed-for-violation-total"] == 1


def test_commit_latency_is_per_record_and_each_batch_is_one_sample() -> None:
    measured = Measurements()
    measured.appended((batch(0, 10), batch(10, 11)), at(100))
    measured.committed(Offset(10), at(150))
    assert (measured.commit_per_record.average(150), measured.commit.average(150)) == (5, 50)
    measured.committed(Offset(11), at(200))
    assert (measured.commit_per_record.average(200), measured.commit.average(200)) == (52.5, 75)
    assert measured.appended_records.rate_per_s(200) == pytest.approx(11 / 30.1)


def test_a_commit_after_the_leadership_was_lost_is_no_latency_of_this_leader() -> None:
    measured = Measurements()
    measured.appended((batch(0, 10),), at(100))
    measured.role_changed("follower", at(150))
    measured.committed(Offset(10), at(200))
    assert isnan(measured.commit.average(200))


def test_an_election_begins_anew_with_each_nomination_and_ends_with_a_known_leader() -> None:
    measured = Measurements()
    measured.role_changed("follower", at(0))
    assert isnan(measured.election.maximum(0))
    measured.role_changed("prospective", at(100))
    measured.role_changed("candidate", at(130))
    measured.role_changed("unattached-voted", at(140))
    measured.role_changed("follower", at(150))
    measured.role_changed("unattached", at(1_000))
    measured.role_changed("follower", at(1_500))
    assert (measured.election.maximum(1_500), measured.election.average(1_500)) == (20, 20)


def test_a_job_is_finished_by_the_report_of_a_later_one() -> None:
    measured = Measurements()
    measured.submitted(Io(1), at(0))
    measured.submitted(Io(2), at(10))
    measured.submitted(Io(3), at(20))
    measured.durable(Io(2), at(30))
    assert (measured.storage.average(30), measured.storage.maximum(30)) == (25, 30)
    measured.durable(Io(3), at(40))
    assert measured.storage.average(40) == pytest.approx(70 / 3)


WINDOW_MS = SAMPLES * SAMPLE_MS


def sensor(*recorded: tuple[float, float]) -> Sensor:
    """A sensor that was given these values, each with its time."""
    made = Sensor()
    for value, now_ms in recorded:
        made.record(value, now_ms)
    return made


def test_nothing_recorded_has_no_average_and_no_maximum_and_a_rate_of_zero() -> None:
    assert isnan(Sensor().average(5))
    assert isnan(Sensor().maximum(5))
    assert Sensor().rate_per_s(5) == 0


def test_average_and_maximum_are_of_all_values_in_the_window() -> None:
    measured = sensor((1, 0), (5, 10), (6, SAMPLE_MS + 10))
    assert measured.average(SAMPLE_MS + 20) == 4
    assert measured.maximum(SAMPLE_MS + 20) == 6


def test_a_sample_counts_until_it_began_a_window_ago() -> None:
    measured = sensor((9, 0), (1, SAMPLE_MS))
    assert measured.maximum(WINDOW_MS - 1) == 9
    assert measured.maximum(WINDOW_MS) == 1
    assert measured.average(WINDOW_MS) == 1
    assert isnan(measured.maximum(SAMPLE_MS + WINDOW_MS))


def test_the_oldest_sample_makes_room() -> None:
    measured = sensor(*((number, number * SAMPLE_MS) for number in range(10)))
    assert measured.average(9 * SAMPLE_MS) == 8.5


def test_a_sample_goes_on_for_its_whole_length() -> None:
    measured = sensor((9, 0), (1, SAMPLE_MS - 1))
    assert isnan(measured.maximum(WINDOW_MS)), "both were in the sample that began at 0"


def test_a_first_burst_is_divided_by_a_whole_sample_at_least() -> None:
    measured = sensor((300, 0))
    assert measured.rate_per_s(0) == 10
    assert measured.rate_per_s(10_000) == 7.5


def test_a_steady_flow_has_its_rate() -> None:
    measured = sensor(*((50, now_ms) for now_ms in range(0, 200_000, 100)))
    assert measured.rate_per_s(200_000) == pytest.approx(500, rel=0.01)


def test_a_rate_falls_to_zero_after_a_silent_window() -> None:
    measured = sensor((300, 0))
    assert measured.rate_per_s(WINDOW_MS - 1) > 0
    assert measured.rate_per_s(WINDOW_MS) == 0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 20_000)), min_size=1, max_size=50), st.floats(0, 100_000))
def test_what_is_told_lies_within_what_was_recorded(steps: list[tuple[float, float]], silence_ms: float) -> None:
    measured, now_ms = Sensor(), 0.0
    for value, after_ms in steps:
        now_ms += after_ms
        measured.record(value, now_ms)
    now_ms += silence_ms
    values = [value for value, _ in steps]
    largest, average = measured.maximum(now_ms), measured.average(now_ms)
    assert isnan(largest) or largest in values
    assert isnan(average) or min(values) - 1e-6 <= average <= largest + 1e-6
    assert 0 <= measured.rate_per_s(now_ms) <= sum(values) / SAMPLE_MS * 1_000 + 1e-6


@pytest.mark.conformance(118)
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([1], id="no piece"),
        pytest.param([(1_000, 1_000), 1, (0, 2_000), 0], id="the first piece only begins the interval"),
        pytest.param([(0, 0), (10, 10), (0, 20), 0.5, (10, 30), 1, (0, 40), 0], id="several"),
        # A piece begins at 30; at 40, within it, is measured; it ends at 45, and counts in the next interval.
        pytest.param([(0, 0), (10, 10), (0, 20), 0.5, (15, 45), 15 / 25], id="a measurement within a piece"),
        pytest.param([(0, 0), (0, 10), 0, 1], id="a second measurement at once has nothing to divide"),
        pytest.param([(0, 0), (50, 10), 1], id="never more than one"),
    ],
)
def test_a_ratio_is_of_the_time_since_the_last_measurement(steps: list[float | tuple[float, float]]) -> None:
    """Pieces are (busy, end) in ms; a number is what is measured there."""
    ratio = TimeRatio()
    for step in steps:
        if isinstance(step, tuple):
            ratio.record(*step)
        else:
            assert ratio.measure() == pytest.approx(step)
