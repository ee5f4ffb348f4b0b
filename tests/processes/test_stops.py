"""Every command ends as documented by Ctrl-C, SIGTERM, SIGHUP and a closed terminal: one stage of each command.

`python -m tests.processes.stops` plays all stages; with ``--spark`` those of the commands that need Spark.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.command_tree import leaves
from tests.processes.screen import Screen
from tests.processes.stop_rows import ONE_OF_THEIR_OWN, ROWS
from tests.processes.stop_stages import ENDINGS, Row, Scene
from tests.processes.stops import Play, scene

pytestmark = pytest.mark.processes

AT_A_TIME = 2
PARTS = 8
"""Tests, so that they can run on several cores."""
COSTLY = {*("bench raft", "chaos", "local up", "sim mutants", "bin/test-raft-server-start.sh")}
"""These start several processes each; here they get Ctrl-C and a closed terminal, which reach all of them."""


COMMANDS = {name.removeprefix("pykraft ") for name, _ in leaves()}


def test_every_command_has_a_row() -> None:
    """A new command needs one in `tests.processes.stop_rows`."""
    scripts = {row.command for row in ROWS if row.command.startswith("bin/")}
    assert scripts == {"bin/demo", "bin/pykraft", "bin/test-kraft-server-start.sh", "bin/test-raft-server-start.sh"}
    assert {row.command for row in ROWS} >= COMMANDS
    assert len({row.command for row in ROWS}) == len(ROWS)


def test_every_row_has_two_stages_of_its_own_besides_those_while_it_loads() -> None:
    early = {"begins as a script", "starts", "loads"}
    own = {row.command: {stage.name for stage in row.stages} - early for row in ROWS}
    assert {command for command, names in own.items() if len(names) < 2} == ONE_OF_THEIR_OWN.keys()
    for row in ROWS:
        names = [stage.name for stage in row.stages]
        assert {"starts", "loads"} <= {*names}
        assert len({*names}) == len(names)


HERE = [row for row in ROWS if not row.is_spark and (row.command.startswith("bin/") or row.command in COMMANDS)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("stops")) as place:
        yield place


@pytest.mark.long
@pytest.mark.parametrize("rows", [HERE[part::PARTS] for part in range(PARTS)], ids=range(PARTS))
def test_a_command_ends_at_once_with_one_line_and_leaves_nothing(rows: list[Row], place: Scene) -> None:
    plays = [
        Play(row.command, row.stages[-1], ending, place)
        for row in rows
        for ending in (ENDINGS[::3] if row.command in COSTLY else ENDINGS)
    ]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        problems = [problem for found in pool.map(Play.run, plays) for problem in found]
    assert problems == []


def lines_after(before: bytes, after: bytes) -> list[str]:
    screen = Screen()
    screen.write(before)
    screen.mark()
    screen.write(after)
    return screen.new_lines()


def test_only_what_was_written_since_the_mark_is_new() -> None:
    assert lines_after(b"one\r\ntwo\r\n", b"three\r\n\r\nfour") == ["three", "four"]


def test_lines_that_were_taken_back_do_not_show() -> None:
    again = b"\r\x1b[2K\x1b[1A\x1b[2K\x1b[32mwaits\x1b[0m\r\nstill\r\n"
    assert lines_after(b"\x1b[?25lwaits\r\nstill", again + b"\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[?25hended\r\n") == [
        "ended"
    ]


def test_what_stays_of_them_does() -> None:
    again = b"\r\x1b[2K\x1b[1A\x1b[2Kwaits\r\nstill\r\n"
    assert lines_after(b"waits\r\nstill", again + b"\x1b[1A\x1b[2Kended\r\n") == ["waits", "ended"]


def test_text_replaces_what_was_in_its_columns() -> None:
    assert lines_after(b"", b"abcdef\rxy\r\n") == ["xycdef"]


def test_above_the_first_line_is_nothing() -> None:
    assert lines_after(b"one", b"\x1b[5A\r\x1b[2Ktwo") == ["two"]
