"""The page of a run: one file without links, in which every oracle and message is explained in words."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import ErrorCode
from pykraft.protocol.api import encode_request, encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.sim.invariants import ALL
from pykraft.sim.machine.trace import NodeState, Recorder
from pykraft.sim.page.render import UNREADABLE, MessageText, Words, explain, render
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario
from pykraft.types import Epoch, Offset
from tests.browser import OpenPage
from tests.sim.mutants import MUTANTS, planted

SEEDS = range(40)
THREE = Scenario(cluster=ClusterSettings(voters=(3,), observers=(0,)))
BUG = "leader_counts_what_it_has_not_flushed"
EVENTS = 10_000


def follower(*, log_end: int) -> NodeState:
    return NodeState(
        role="follower",
        epoch=1,
        leader_id=2,
        vote=2,
        disk_epoch=1,
        log_end=log_end,
        flushed=log_end,
        high_watermark=None,
    )


def small_run() -> Recorder:
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True, 3: False}
    recorder.state(1, 1, follower(log_end=1))
    arrives, is_lost, is_under_way = (recorder.sent(at_us, 1, 2, b"") for at_us in (2, 3, 4))
    recorder.arrived(5, 2, arrives)
    recorder.fault(6, None, "split <b>")
    recorder.note(7, 2, "</script>")
    recorder.under_way = frozenset({is_under_way})
    assert is_lost not in recorder.under_way
    return recorder


def recording_in(page: str) -> dict[str, list[list[object]]]:
    found = re.search(r'<script type="application/json" id="recording">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    recording: dict[str, list[list[object]]] = json.loads(found[1])
    return recording


def test_messages_have_both_ends_or_a_fate() -> None:
    recording = recording_in(render(small_run(), title="t", replay="r", reason=None))
    assert [event[:3] for event in recording["events"]] == [
        [1, 1, "c"],
        [2, 1, "s"],
        [3, 1, "s"],
        [4, 1, "s"],
        [5, 2, "a"],
        [6, 0, "f"],
        [7, 2, "n"],
    ]
    assert [message[4:] for message in recording["messages"]] == [[1, 4], [2, -2], [3, -1]]


def test_what_a_world_says_cannot_end_the_script() -> None:
    page = render(small_run(), title="<i>", replay="<u>", reason="ValueError: <script>")
    assert page.count("</script>") == 2
    assert "<i>" not in page
    assert "<u>" not in page


def test_the_page_names_no_address() -> None:
    page = render(small_run(), title="t", replay="r", reason="ViolationError: OneVote: node 2 votes for 1")
    assert not re.search(r"https?:|src=|@import|url\(", page)
    assert "default-src 'none'" in page


def test_an_arrival_of_what_is_not_kept_any_more_is_left_out() -> None:
    recorder = Recorder(events_max=1)
    recorder.arrived(2, 2, recorder.sent(1, 1, 2, b""))
    page = render(recorder, title="t", replay="r", reason=None)
    assert recording_in(page)["events"] == []
    assert "t (the last 1 of 2 events)" in page


@pytest.fixture(scope="module")
def caught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in which a planted bug is noticed after more than a few steps."""
    path = tmp_path_factory.mktemp("page") / "mutant.html"
    with planted(MUTANTS[BUG]):
        for seed in SEEDS:
            recorder = Recorder()
            failure = simulate(seed, scenario=THREE, recorder=recorder)
            if isinstance(failure, Failure) and len(recorder.events) > 200:
                path.write_text(render(recorder, title="a mutant", replay="again", reason=failure.reason))
                return path
    raise AssertionError(f"no seed of {SEEDS} notices {BUG}")


@pytest.mark.sim
def test_the_page_of_a_caught_bug_is_stepped_through(open_page: OpenPage, caught: Path) -> None:
    page = open_page(caught)

    def selected() -> int:
        return int(page.evaluate("document.body.dataset.selected"))

    last = selected()
    assert "was violated" in page.inner_text("#violation-title")
    assert "majority" in page.inner_text("#violation-rule").lower()
    assert "high watermark" in page.inner_text("#violation-before")
    assert page.inner_text("#selected-lines").startswith("broken:")
    assert page.locator("#nodes .card").count() == 3
    assert page.locator(".card .role", has_text="leader").count() == 1
    page.set_checked("#show-fetches", True)
    page.keyboard.press("ArrowUp")
    assert selected() == last - 1
    page.keyboard.press("Home")
    assert selected() == 0
    assert page.inner_text("#position") == f"event 1 of {last + 1}"
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    assert selected() == 30
    page.keyboard.press("n")
    assert selected() > 30
    page.click("#jump")
    assert selected() == last


@pytest.mark.sim
def test_filters_leave_what_was_asked_for(open_page: OpenPage, caught: Path) -> None:
    page = open_page(caught)
    before = page.inner_text("#position")
    page.set_checked("#show-fetches", False)
    page.uncheck("#show-node-1")
    assert page.inner_text("#position") != before
    for _ in range(10):
        page.keyboard.press("ArrowUp")
        assert "Fetch" not in page.inner_text("#selected-lines")
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    page.keyboard.press("Space")


def test_a_node_in_quarantine_is_shown_as_such(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True}
    for at_us, is_damaged in enumerate((False, True, False)):
        recorder.state(at_us, 1, replace(follower(log_end=9), is_damaged=is_damaged))
    path = tmp_path / "damaged.html"
    path.write_text(render(recorder, title="damaged", replay="again", reason=None))
    page = open_page(path)
    seen = []
    for _ in range(3):
        seen.append((page.locator(".card .damaged").is_visible(), page.inner_text("#selected-lines")))
        page.keyboard.press("ArrowDown")
    assert [is_shown for is_shown, _ in seen] == [False, True, False]
    assert (seen[1][1], seen[2][1]) == ("in quarantine", "out of quarantine")


def test_the_last_step_before_is_one_of_the_node_that_is_blamed(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True}
    recorder.state(1_000, 1, follower(log_end=7))
    recorder.state(2_000, 2, follower(log_end=8))
    path = tmp_path / "blamed.html"
    reason = "ViolationError: OneVote: node 1 did it"
    path.write_text(render(recorder, title="blamed", replay="again", reason=reason))
    assert open_page(path).inner_text("#violation-before").startswith("at 1.000 ms, node 1 (follower)")


def test_ten_thousand_events_are_stepped_through(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True, 3: True}
    for at_us in range(0, EVENTS, 4):
        source_id, target_id = 1 + at_us % 3, 1 + (at_us + 1) % 3
        number = recorder.sent(at_us, source_id, target_id, b"")
        recorder.note(at_us + 1, source_id, "a note")
        recorder.arrived(at_us + 2, target_id, number)
        recorder.state(at_us + 3, target_id, follower(log_end=at_us))
    path = tmp_path / "long.html"
    path.write_text(render(recorder, title="long", replay="again", reason=None))
    page = open_page(path)
    assert page.inner_text("#position") == f"event 1 of {EVENTS}"
    page.keyboard.press("End")
    assert page.inner_text("#position") == f"event {EVENTS} of {EVENTS}"
    assert page.evaluate("document.querySelectorAll('*').length") < 300
    page.mouse.click(400, 400)
    assert page.inner_text("#position") != f"event {EVENTS} of {EVENTS}"


NAMES = (*(oracle.__name__ for oracle in ALL), "Liveness")


@pytest.mark.parametrize("name", NAMES)
def test_an_oracle_is_explained(name: str) -> None:
    explained = explain(f"ViolationError: {name}: node 2 speaks of epoch 3: its disk knows 2, node 2 and leader 1")
    assert explained.title == f"{name} was violated"
    assert explained.seen == "node 2 speaks of epoch 3: its disk knows 2, node 2 and leader 1"
    assert explained.nodes == (2, 1)
    for text in (explained.rule, explained.why, explained.source):
        assert len(text) > 3
        assert "\n" not in text
        assert "`" not in text


def test_an_error_of_the_code_is_explained_as_one() -> None:
    explained = explain("AssertionError: offsets have a gap: 3 after 1")
    assert explained.title == "A node failed with AssertionError"
    assert explained.seen == "offsets have a gap: 3 after 1"
    assert explained.nodes == ()


def test_an_oracle_that_nobody_knows_is_no_error() -> None:
    assert explain("ViolationError: Unheard: of").rule


TOPIC = "topic"
NO_ID = bytes(16)


def request(api_key: ApiKey, version: int, body: dict[str, Any], correlation_id: int = 7) -> bytes:
    return b"".join(encode_request(api_key, version, correlation_id, "client", body))


def answer(api_key: ApiKey, version: int, body: dict[str, Any], correlation_id: int = 7) -> bytes:
    return b"".join(encode_response(api_key, version, correlation_id, body))


def vote(*, pre_vote: bool) -> bytes:
    partition = {
        "partition_index": 0,
        "replica_epoch": 4,
        "replica_id": 1,
        "replica_directory_id": NO_ID,
        "voter_directory_id": NO_ID,
        "last_offset_epoch": 3,
        "last_offset": 55,
        "pre_vote": pre_vote,
    }
    topics = [{"topic_name": TOPIC, "partitions": [partition]}]
    return request(ApiKey.VOTE, 2, {"cluster_id": "c", "voter_id": 2, "topics": topics})


def vote_answer(*, granted: bool, leader_id: int = -1, error_code: int = 0) -> bytes:
    partition = {
        "partition_index": 0,
        "error_code": error_code,
        "leader_id": leader_id,
        "leader_epoch": 4,
        "vote_granted": granted,
    }
    topics = [{"topic_name": TOPIC, "partitions": [partition]}]
    return answer(ApiKey.VOTE, 2, {"error_code": 0, "topics": topics, "node_endpoints": []})


def begin_or_end(api_key: ApiKey) -> bytes:
    partition: dict[str, Any] = {"partition_index": 0, "leader_id": 3, "leader_epoch": 9}
    body: dict[str, Any] = {"cluster_id": "c", "leader_endpoints": []}
    if api_key is ApiKey.BEGIN_QUORUM_EPOCH:
        partition["voter_directory_id"] = NO_ID
        body["voter_id"] = 2
    else:
        partition |= {"preferred_successors": [], "preferred_candidates": []}
    return request(api_key, 1, {**body, "topics": [{"topic_name": TOPIC, "partitions": [partition]}]})


def fetch() -> bytes:
    partition = {
        "partition": 0,
        "current_leader_epoch": 4,
        "fetch_offset": 97,
        "last_fetched_epoch": 3,
        "log_start_offset": -1,
        "partition_max_bytes": 0,
        "replica_directory_id": NO_ID,
        "high_watermark": 93,
    }
    body = {"cluster_id": "c", "replica_state": {"replica_id": 2, "replica_epoch": -1}, "max_wait_ms": 5}
    body |= {"min_bytes": 0, "max_bytes": 9, "isolation_level": 0, "session_id": 0, "session_epoch": -1}
    topics = [{"topic_id": NO_ID, "partitions": [partition]}]
    return request(ApiKey.FETCH, 18, {**body, "topics": topics, "forgotten_topics_data": [], "rack_id": ""})


def fetch_answer(**given: Any) -> bytes:
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 93,
        "last_stable_offset": -1,
        "log_start_offset": 0,
        "diverging_epoch": {"epoch": -1, "end_offset": -1},
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
        "snapshot_id": {"end_offset": -1, "epoch": -1},
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
        **given,
    }
    responses = [{"topic_id": NO_ID, "partitions": [partition]}]
    body = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": responses, "node_endpoints": []}
    return answer(ApiKey.FETCH, 18, body)


def batch(base_offset: int, epoch: int) -> bytes:
    return encode_batch([b"a", b"b"], base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0).data


@pytest.mark.parametrize(
    ("frame", "kind", "text"),
    [
        (vote(pre_vote=False), "Vote", "node 1 asks, in epoch 4; its log ends at 55, epoch 3"),
        (vote(pre_vote=True), "PreVote", "node 1 asks, in epoch 4; its log ends at 55, epoch 3"),
        (begin_or_end(ApiKey.BEGIN_QUORUM_EPOCH), "BeginQuorumEpoch", "node 3 leads epoch 9"),
        (begin_or_end(ApiKey.END_QUORUM_EPOCH), "EndQuorumEpoch", "node 3 gives up epoch 9"),
        (fetch(), "Fetch", "from 97 on, last epoch 3; in epoch 4, high watermark 93"),
    ],
)
def test_requests_say_what_they_ask(frame: bytes, kind: str, text: str) -> None:
    assert Words().describe(1, 2, frame) == MessageText(kind=kind, text=text)


@pytest.mark.parametrize(
    ("asked", "frame", "kind", "text"),
    [
        (
            vote(pre_vote=False),
            vote_answer(granted=True),
            "Vote answer",
            "granted; I am in epoch 4, whose leader I do not know",
        ),
        (
            vote(pre_vote=True),
            vote_answer(granted=False, leader_id=3),
            "PreVote answer",
            "denied; I am in epoch 4, led by node 3",
        ),
        (
            vote(pre_vote=False),
            vote_answer(granted=False, error_code=ErrorCode.FENCED_LEADER_EPOCH),
            "Vote answer",
            "FENCED_LEADER_EPOCH; I am in epoch 4, whose leader I do not know",
        ),
        (fetch(), fetch_answer(), "Fetch answer", "nothing new; high watermark 93"),
        (
            fetch(),
            fetch_answer(records=batch(97, 4), high_watermark=-1),
            "Fetch answer",
            "97 to 98 of epoch 4; high watermark unknown",
        ),
        (
            fetch(),
            fetch_answer(records=batch(97, 4) + batch(99, 6)),
            "Fetch answer",
            "97 to 100 of epochs 4 to 6; high watermark 93",
        ),
        (
            fetch(),
            fetch_answer(diverging_epoch={"epoch": 2, "end_offset": 40}),
            "Fetch answer",
            "your log is another one: epoch 2 ends at 40 here",
        ),
        (
            fetch(),
            fetch_answer(error_code=6, current_leader={"leader_id": 1, "leader_epoch": 5}),
            "Fetch answer",
            "NOT_LEADER_OR_FOLLOWER; I am in epoch 5, led by node 1",
        ),
        (fetch(), fetch_answer(error_code=31_999), "Fetch answer", "error 31999"),
    ],
)
def test_answers_are_told_with_what_they_answer(asked: bytes, frame: bytes, kind: str, text: str) -> None:
    words = Words()
    words.describe(1, 2, asked)
    assert words.describe(2, 1, frame) == MessageText(kind=kind, text=text)


@pytest.mark.parametrize("frame", [b"", b"abc", vote_answer(granted=True), vote(pre_vote=True)[:30], b"\xff" * 20])
def test_what_cannot_be_read_is_told_as_such(frame: bytes) -> None:
    assert Words().describe(1, 2, frame).kind == UNREADABLE
