"""The overview of a quorum for a pipe, for terminals of any width, and as JSON; Kafka's two views byte for byte."""

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from pykraft.cli.client_options import joined
from pykraft.cli.quorum import overview
from pykraft.cli.quorum.overview import (
    overview_json,
    print_overview,
    row_json,
    status_json,
    status_lines,
    table,
    table_lines,
    watch_overview,
)
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.quorum import Health, Quorum, QuorumVerdict, ReplicaState, Role, quorum_of, verdict_on
from pykraft.core.messages import DescribedReplica, DescribeQuorumResponse
from pykraft.errors import QuorumUnavailableError
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey, Voter, uuid_parse

NOW_MS = 1_795_000_000_000
DIRECTORY = uuid_parse("k_Eg7DHZQauczDshubdK-A")
TEXT = """\
at risk: voter 2 last fetched 40 s ago and is 12,004 records behind; 1 of 2 voters follows leader 1 in epoch 4, fewer \
than the majority of 2: nothing commits

ClusterId:              \\x1b[2Jx
LeaderId:               1
LeaderEpoch:            4
HighWatermark:          12104
MaxFollowerLag:         12004
MaxFollowerLagTimeMs:   40000

NodeId  Status    Endpoint          LogEndOffset  Lag     LastFetch  LastCaughtUp  DirectoryId
1       Leader    localhost:9093    12,104        0       0 ms ago   0 ms ago      k_Eg7DHZQauczDshubdK-A
2       Follower  [fe80::1%0]:9093  100           12,004  40 s ago   40 s ago      -
9       Observer  -                 -             12,105  never      never         -
"""


def replica(node_id: int, role: Role, end_offset: int, ms: int, endpoint: Endpoint | None = None) -> ReplicaState:
    return ReplicaState(
        key=ReplicaKey(NodeId(node_id), DIRECTORY if role is Role.LEADER else None),
        role=role,
        log_end_offset=end_offset,
        last_fetch_ms=ms,
        last_caught_up_ms=ms,
        listeners=Listeners(() if endpoint is None else (("CONTROLLER", endpoint),)),
    )


QUORUM = Quorum(
    cluster_id="\x1b[2Jx",
    leader_id=NodeId(1),
    epoch=Epoch(4),
    high_watermark=Offset(12_104),
    voters=(
        replica(1, Role.LEADER, 12_104, NOW_MS, Endpoint("localhost", 9093)),
        replica(2, Role.FOLLOWER, 100, NOW_MS - 40_000, Endpoint("fe80::1%0", 9093)),
    ),
    observers=(replica(9, Role.OBSERVER, -1, -1),),
)
NOBODY = QuorumVerdict(health=Health.NO_LEADER, detail="a:1: it knows no leader")


def drawn(quorum: Quorum, *, width: int) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system="standard", highlight=False)
    overview._show_below(console, verdict_on(quorum), quorum, as_json=False)
    return screen.getvalue()


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_overview(QUORUM, as_json=False)
    assert capsys.readouterr().out == TEXT


def test_a_terminal_gets_colours() -> None:
    lines = drawn(QUORUM, width=200).splitlines()
    assert lines[0].startswith("\x1b[1;33mat risk:\x1b[0m voter 2")
    assert lines[-3].startswith("\x1b[1m1       Leader")
    assert lines[-2].startswith("\x1b[33m2       Follower")
    assert lines[-1].startswith("9       Observer")
    voters = (QUORUM.voters[0], replace(QUORUM.voters[1], last_fetch_ms=NOW_MS, last_caught_up_ms=NOW_MS))
    assert drawn(replace(QUORUM, voters=voters), width=200).startswith("\x1b[1;32mhealthy:\x1b[0m 2 of 2 voters")


@pytest.mark.parametrize("width", [40, 80, 90, 120])
def test_a_narrow_terminal_gets_every_cell(width: int) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", drawn(QUORUM, width=width))
    for line in print_lines(QUORUM):
        for cell in re.split(r"  +", line):
            assert cell in text, cell
    assert max(map(len, text.splitlines()[1:])) <= width
    last = text.splitlines()[-4:]
    if width == 90:
        assert last[0].split() == ["NodeId", "DirectoryId"]
    if width == 40:
        assert last[-1].split(": ")[0] == "  LastCaughtUp"


def print_lines(quorum: Quorum) -> list[str]:
    """The rows of the table at its full width."""
    return re.sub(r"\x1b\[[0-9;]*m", "", drawn(quorum, width=200)).splitlines()[-3:]


def test_json_has_all_of_it() -> None:
    found = overview_json(verdict_on(QUORUM), QUORUM)
    assert (found["verdict"], found["status"]["leaderId"], len(found["replication"])) == ("at risk", 1, 3)
    none = overview_json(NOBODY, None)
    assert (none["verdict"], none["detail"]) == ("no leader", "a:1: it knows no leader")
    assert (none["status"], none["replication"]) == (None, None)
    assert none["timestamp"] > NOW_MS


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quorum without a leader, then one with, then Ctrl-C."""

    def answers() -> Iterator[Quorum]:
        yield QUORUM
        raise KeyboardInterrupt

    given = answers()
    asked: list[int] = []

    async def describe_quorum(admin: Admin, *, ask_voters: bool) -> Quorum:
        assert ask_voters
        asked.append(1)
        if len(asked) == 1:
            admin._patience.on_waiting("a:1: not yet")
            admin._patience.on_waiting(None)
            raise QuorumUnavailableError("no leader within 1 s", "a:1: it knows no leader")
        return next(given)

    monkeypatch.setattr(Admin, "describe_quorum", describe_quorum)


def watch(*, as_json: bool) -> None:
    none = dict.fromkeys(("bootstrap_controller", "bootstrap_server", "command_config", "timeout"))
    with pytest.raises(KeyboardInterrupt):
        watch_overview(joined({**none, "bootstrap_controller": "a:1"}, none), 0.001, as_json=as_json)


@pytest.mark.usefixtures("looks")
def test_watching_prints_a_line_of_json_for_each_look(capsys: pytest.CaptureFixture[str]) -> None:
    watch(as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["verdict"] for line in lines] == ["no leader", "at risk"]


@pytest.mark.usefixtures("looks")
def test_watching_into_a_pipe_prints_one_picture_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    watch(as_json=False)
    assert capsys.readouterr().out == f"no leader: a:1: it knows no leader\n\n{TEXT}\n"


@pytest.mark.usefixtures("looks")
def test_watching_on_a_terminal_draws_over_the_last_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=200, force_terminal=True, color_system="standard", highlight=False)
    monkeypatch.setattr(overview, "Console", lambda **_: console)
    watch(as_json=False)
    assert "\x1b[1;31mno leader:\x1b[0m a:1: it knows no leader" in screen.getvalue()
    up_and_erase = "\x1b[1A\x1b[2K"
    assert up_and_erase in screen.getvalue() or "\r\x1b[2K" in screen.getvalue()
    assert screen.getvalue().index("a:1: not yet") < screen.getvalue().index("a:1: it knows no leader")
    assert screen.getvalue().count("at risk:") == 1  # and not once more when it ends
    show_cursor = "\x1b[?25h"
    assert screen.getvalue().rstrip().endswith(show_cursor)


DIRECTORIES = {
    1: uuid_parse("vksxUemDQN6RjE6fpARBQA"),
    2: uuid_parse("k_Eg7DHZQauczDshubdK-A"),
    3: uuid_parse("2qvrHv9jQzGNjZgHrJmleg"),
    4: uuid_parse("utQCuoLc1u2hIU5LWR0auA"),
}
STATUS = """\
ClusterId:              1OvTGIWWQja7V48VYOvAtg
LeaderId:               2
LeaderEpoch:            1
HighWatermark:          32
MaxFollowerLag:         0
MaxFollowerLagTimeMs:   230
CurrentVoters:          [{"id": 1, "directoryId": "vksxUemDQN6RjE6fpARBQA", "endpoints": \
["CONTROLLER://127.0.0.1:21310"]}, {"id": 2, "directoryId": "k_Eg7DHZQauczDshubdK-A", "endpoints": \
["CONTROLLER://127.0.0.1:21311"]}, {"id": 3, "directoryId": "2qvrHv9jQzGNjZgHrJmleg", "endpoints": \
["CONTROLLER://127.0.0.1:21312"]}]
CurrentObservers:       [{"id": 4, "directoryId": "utQCuoLc1u2hIU5LWR0auA"}]
"""
"""As Kafka 4.3.1 printed it of a quorum of its own."""
AGES = """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
2     \tk_Eg7DHZQauczDshubdK-A\t33          \t0  \t7 ms ago          \t7 ms ago             \tLeader  \t
1     \tvksxUemDQN6RjE6fpARBQA\t33          \t0  \t192 ms ago        \t192 ms ago           \tFollower\t
3     \t2qvrHv9jQzGNjZgHrJmleg\t33          \t0  \t168 ms ago        \t168 ms ago           \tFollower\t
4     \tutQCuoLc1u2hIU5LWR0auA\t33          \t0  \t188 ms ago        \t188 ms ago           \tObserver\t
"""
TIMES = """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
1     \tvksxUemDQN6RjE6fpARBQA\t119         \t0  \t1795229337347     \t1795229337347        \tLeader  \t
2     \tk_Eg7DHZQauczDshubdK-A\t-1          \t120\t-1                \t-1                   \tFollower\t
"""


def row(node_id: int, end_offset: int, ms: int) -> DescribedReplica:
    return DescribedReplica(
        key=ReplicaKey(NodeId(node_id), DIRECTORIES[node_id]),
        log_end_offset=end_offset,
        last_fetch_timestamp=ms,
        last_caught_up_timestamp=ms,
    )


def described(
    voters: Sequence[DescribedReplica], observers: Sequence[DescribedReplica] = (), *, leader_id: int = 2
) -> Quorum:
    answer = DescribeQuorumResponse(
        error=0,
        leader_id=NodeId(leader_id),
        epoch=Epoch(1),
        high_watermark=Offset(32),
        voters=tuple(voters),
        observers=tuple(observers),
        nodes=tuple(
            Voter(
                key=ReplicaKey(voter.key.id),
                listeners=Listeners((("CONTROLLER", Endpoint("127.0.0.1", 21_309 + voter.key.id)),)),
            )
            for voter in voters
        ),
    )
    return quorum_of("1OvTGIWWQja7V48VYOvAtg", answer, NodeId(leader_id))


def text(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_status_is_kafkas_byte_for_byte() -> None:
    found = described([row(1, 33, 770), row(2, 33, 1_000), row(3, 33, 800)], [row(4, 33, 900)])
    assert text(status_lines(found)) == STATUS


def test_ages_are_kafkas_byte_for_byte() -> None:
    found = described([row(1, 33, 808), row(2, 33, 993), row(3, 33, 832)], [row(4, 33, 812)])
    assert text(table_lines(table(found, now_ms=1_000))) == AGES


def test_times_are_kafkas_byte_for_byte() -> None:
    found = described([row(1, 119, 1795229337347), row(2, -1, -1)], leader_id=1)
    assert text(table_lines(table(found))) == TIMES
    assert text(table_lines(table(found, now_ms=1795229337347))).splitlines()[2] == (
        "2     \tk_Eg7DHZQauczDshubdK-A\t-1          \t120\t-1                \t-1                   \tFollower\t"
    )


def test_what_is_not_known_of_a_node_is_left_out() -> None:
    unknown = DescribedReplica(
        key=ReplicaKey(NodeId(3)), log_end_offset=33, last_fetch_timestamp=5, last_caught_up_timestamp=5
    )
    found = described([row(2, 33, 1_000)], [unknown])
    assert status_json(found)["currentObservers"] == [{"id": 3}]
    assert row_json(found, found.observers[0])["directoryId"] == "AAAAAAAAAAAAAAAAAAAAAA"


def test_a_cluster_id_from_elsewhere_only_prints() -> None:
    answer = DescribeQuorumResponse(error=0, leader_id=NodeId(1))
    found = quorum_of("\x1b[2Jx", answer, NodeId(1))
    lines = list(status_lines(found))
    assert lines[0] == r"ClusterId:              \x1b[2Jx"
    assert lines[3] == "HighWatermark:          -1"
