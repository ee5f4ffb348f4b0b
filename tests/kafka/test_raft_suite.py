"""Kafka's own tests of its raft client pass, but for those decided otherwise; the shim between has no rule of Raft.

By hand: ``python -m tests.kafka.raft_suite``, which also writes the page.
"""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.protocol import api
from pykraft.protocol.messages import ApiKey
from pykraft.types import Endpoint, Listeners, Uuid
from tests.kafka.raft_suite.decided import DECIDED, MOST, decision_on, listed_in_vain
from tests.kafka.raft_suite.liberties import NOBODY, Claim, Question, refused_epoch
from tests.kafka.raft_suite.mutants import PLANTED, RESULTS
from tests.kafka.raft_suite.older import translated
from tests.kafka.raft_suite.page import PAGE, page_of, sum_of
from tests.kafka.raft_suite.suite import (
    CLASSES,
    SHIM,
    SIMULATIONS,
    TESTS,
    Outcome,
    Part,
    Suite,
    python_process,
    read_report,
)
from tests.kafka.raft_suite.tries import DEFAULT, with_tries
from tests.kafka.raft_suite.wire import Did, Link, Reader, Writer
from tests.sim.mutants import MUTANTS

TESTS_COUNT = 505
"""Of Kafka 4.3.1."""
TENTH = 10
"""Tries of each simulated property: a tenth of Kafka's."""
PASSED = Outcome(test_class="KafkaRaftClientTest", method="testA", parameters="a=true", problem=None)

ALLOWED = (
    r"[\w.()]+ [!=]= null",
    r"left != 0",
    r"buffer\.get\(\) != 0",
    r"read\.sizeInBytes\(\) != 0",
    r"value == PykraftLink\.NONE",
    r"code != PykraftLink\.APPEND_AS_LEADER",
    r"error == Errors\.NONE",
    r"told == status\.metrics",
    r"each\.getValue\(\) == listener",
    r"time\.milliseconds\(\) < status\.sleepsUntilMs",
    r"status\.get\(\)\.state\.equals\(state\)",
    r"name\.equals\(wanted\)",
    r"snapshots\.contains\(each\)",
)
"""What the shim may compare: whether something is there, ends of lists, kinds of messages, times, its own objects."""
OPERAND = r"[\w.]+(?:\(\)[\w.]*)*"
COMPARISON = re.compile(
    rf"{OPERAND} (?:==|!=|<=|>=|<|>) {OPERAND}|[\w.()]*\b(?:equals|compareTo|compare|contains|min|max)\([^)]*\)"
)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


@pytest.fixture(scope="module")
def suite() -> Suite:
    """The tests of Kafka 4.3.1; a machine that cannot run them fails the tests that ask for it."""
    return Suite.find()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_pass_but_those_that_are_decided_otherwise(suite: Suite) -> None:
    outcomes = suite.run_beside(TESTS)
    failed = [each for each in outcomes if each.problem is not None and decision_on(each) is None]
    assert not failed, "\n".join(map(str, failed))
    assert len(outcomes) == TESTS_COUNT
    assert listed_in_vain(outcomes) == []
    assert sum(each.problem is not None for each in outcomes) <= MOST
    assert sum_of(outcomes) in PAGE.read_text(), "python -m tests.kafka.raft_suite --write"


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(900)
def test_simulated_clusters_keep_kafkas_invariants(suite: Suite) -> None:
    outcomes = suite.run_beside(SIMULATIONS, options=["--simulation"], tries=TENTH)
    assert [each for each in outcomes if each.problem is not None] == []
    assert len(outcomes) == 9


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(900)
def test_without_the_python_process_every_test_fails(suite: Suite, tmp_path: Path) -> None:
    with python_process(tmp_path / "socket") as path:
        pass
    path.unlink()
    outcomes = suite.run(Part(classes=CLASSES), socket=path)
    assert len(outcomes) == TESTS_COUNT
    assert [each for each in outcomes if each.problem is None] == []


def java_sources() -> Iterator[tuple[str, str]]:
    """Name and text of each file of the shim, without comments and words."""
    for path in sorted(SHIM.rglob("*.java")):
        yield path.name, TEXT.sub('""', COMMENT.sub("", path.read_text()))


def comparisons_in(source: str) -> list[str]:
    """What is compared there, but for what may be."""
    return [found for found in COMPARISON.findall(source) if not any(re.fullmatch(each, found) for each in ALLOWED)]


@pytest.mark.parametrize(("name", "source"), list(java_sources()), ids=lambda value: value if len(value) < 40 else "")
def test_the_shim_compares_no_epochs_offsets_or_votes(name: str, source: str) -> None:
    assert comparisons_in(source) == [], name


@pytest.mark.parametrize(
    "rule", ["if (epoch > quorum.epoch()) {", "offset >= highWatermark", "voted.equals(candidate)", "Math.max(a, b)"]
)
def test_a_rule_in_the_shim_would_be_found(rule: str) -> None:
    assert comparisons_in(rule)


def test_older_releases_need_other_names_of_which_none_is_forgotten() -> None:
    known = {path.name: path.read_text() for path in SHIM.rglob("*.java")}
    assert translated(known, "4.3.1") == known
    for version in ("4.1.1", "4.2.0"):
        assert "ReplicatedLog log" in translated(known, version)["KafkaRaftClient.java"]
    with pytest.raises(ValueError, match="no source of the shim has"):
        translated({"A.java": ""}, "4.2.0")


def test_a_decided_test_must_fail_and_only_as_listed() -> None:
    name = "KafkaRaftClientTest.testObserverReplication"
    passed = replace(PASSED, method="testObserverReplication", parameters="withKip853Rpc=true, canBecomeVoter=false")
    failed = replace(passed, problem="expected: <0> but was: <2>")
    assert decision_on(failed) is DECIDED[name]
    assert decision_on(passed) is None
    assert decision_on(replace(failed, parameters="withKip853Rpc=false, canBecomeVoter=true")) is None
    assert decision_on(replace(failed, method="testOther")) is None
    assert listed_in_vain([passed]) == [name]
    assert listed_in_vain([passed, failed]) == []
    assert listed_in_vain([]) == []


def test_the_page_has_each_test_once() -> None:
    failed = replace(PASSED, parameters="a=false", problem="no")
    page = page_of([PASSED, failed], [failed, replace(PASSED, problem="no")])
    assert "2 tests: 1 passed, 0 decided, 0 not applicable, 1 failed." in page
    assert "| `testA` | a=true | passed, with a liberty |" in page
    assert "| `testA` | a=false | failed |" in page
    assert "| `testA` | a=true | passed |" in page_of([PASSED], [PASSED])


def test_the_planted_bugs_are_those_of_the_simulator_and_were_all_played() -> None:
    assert MUTANTS.keys() >= set(PLANTED)
    assert len(set(PLANTED)) == 20
    assert RESULTS.read_text().count(":") == len(PLANTED)


def test_a_report_is_read_with_parameters_and_problems(tmp_path: Path) -> None:
    path = tmp_path / "TEST-junit-jupiter.xml"
    path.write_text(
        '<testsuite><testcase name="testB(boolean)[2]" classname="org.apache.kafka.raft.SomeTest">'
        '<failure message="x\ny"/>'
        "<system-out>unique-id: []\ndisplay-name: [2] withKip853Rpc=false\n</system-out></testcase>"
        '<testcase name="testC()" classname="SomeTest"><system-out>display-name: testC()\n</system-out></testcase>'
        '<testcase name="testD" classname="SomeTest"><skipped/></testcase></testsuite>'
    )
    found = read_report(path)
    assert [(each.name, each.parameters) for each in found] == [
        ("SomeTest.testB", "withKip853Rpc=false"),
        ("SomeTest.testC", ""),
        ("SomeTest.testD", ""),
    ]
    assert [each.problem is None for each in found] == [False, True, False]


def test_tries_are_a_constant_of_the_class_file() -> None:
    text, wide, number = b"\1\0\4abcd", b"\5" + bytes(8), b"\3" + DEFAULT.to_bytes(4)
    head = b"\xca\xfe\xba\xbe\0\0\0\x3d"
    source = head + (5).to_bytes(2) + text + wide + number + b"rest"
    assert with_tries(source, 7) == source.replace(number, b"\3" + (7).to_bytes(4))
    with pytest.raises(ValueError, match="no constant 100"):
        with_tries(head + (2).to_bytes(2) + text, 7)


def test_values_are_as_java_writes_them() -> None:
    listeners = Listeners((("A", Endpoint("host", 9)),))
    writer = Writer(Did.DONE).flag(value=True).code(3).int32(5, None).int64(2**40).text("é").double(0.5)
    frame = writer.listeners(listeners).frame()
    reader = Reader(frame[4:])
    assert reader.byte() == Did.DONE
    assert (reader.flag(), reader.byte(), reader.int32(), reader.int32()) == (True, 3, 5, -1)
    assert (reader.int64(), reader.text()) == (2**40, "é")
    reader.int64()
    assert reader.listeners() == listeners


def test_a_draw_is_answered_within_a_call_and_effects_come_before_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = Link(ours)

        def shim() -> None:
            theirs.sendall((4).to_bytes(4) + (6).to_bytes(4))

        answering = threading.Thread(target=shim)
        answering.start()
        link.write(Writer(Did.FLUSH))
        assert link.draw(9) == 6
        answering.join()
        assert theirs.recv(99) == Writer(Did.FLUSH).frame() + Writer(Did.DRAW).int32(9).frame()
        theirs.close()
        with suppress(OSError):
            assert link.read() is None


def test_a_voter_confirms_what_its_request_claimed() -> None:
    voted = {"topics": [{"topic_name": "t", "partitions": [_vote_partition()]}]}
    request = b"".join(api.encode_request(ApiKey.VOTE, 1, 3, "x", {"cluster_id": "c", "voter_id": 1, **voted}))
    refused = b"".join(api.encode_response(ApiKey.VOTE, 1, 3, _vote_answer(8)))
    claim = refused_epoch(request, refused)
    assert claim == Claim(sender_id=2, epoch=7, leader_id=NOBODY)
    granted = b"".join(api.encode_response(ApiKey.VOTE, 1, 3, _vote_answer(0)))
    assert refused_epoch(request, granted) is None
    asked = b"".join(api.encode_request(ApiKey.FETCH, 17, 4, "x", {"topics": []}))
    header = api.decode_request_header(asked)
    answer = Question(header=header, topic_name="t", topic_id=Uuid(bytes(16))).answer(claim)
    [topic] = api.decode_response(ApiKey.FETCH, 17, answer)[1]["responses"]
    assert topic["partitions"][0]["current_leader"] == {"leader_id": NOBODY, "leader_epoch": 7}


def _vote_partition() -> dict[str, object]:
    names = ("partition_index", "last_offset_epoch", "last_offset")
    return {"replica_epoch": 7, "replica_id": 2, **dict.fromkeys(names, 0)}


def _vote_answer(error: int) -> dict[str, object]:
    partition = {"partition_index": 0, "error_code": error, "leader_id": -1, "leader_epoch": 5, "vote_granted": False}
    return {"error_code": 0, "topics": [{"topic_name": "t", "partitions": [partition]}]}
