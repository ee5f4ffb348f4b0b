"""A journal holds every whole line that was written, whatever happened to the writer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pykraft.client.journal import Started, Stopped
from pykraft.errors import LocalQuorumError
from pykraft.local.journal_keeper import JournalKeeper
from pykraft.types import NodeId

STARTED = b'{"event":"started","node":4,"run":"0011223344556677","pid":9,"port":15000}\n'
STOPPED = b'{"event":"stopped","node":4}\n'
THE_END = Stopped(node=NodeId(4))


def tell(journal: JournalKeeper, *pieces: bytes) -> None:
    reading, writing = os.pipe()
    journal.attach(reading)
    for piece in pieces:
        os.write(writing, piece)
    os.close(writing)


def test_lines_are_kept_however_they_were_cut_and_half_a_line_is_not(tmp_path: Path) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    mark = journal.mark()
    tell(journal, STARTED[:20], STARTED[20:] + STOPPED, STOPPED[:10])
    journal.wait_for(lambda events: THE_END in events, "the end", since=mark)
    assert [type(event) for event in journal.events()] == [Started, Stopped]
    assert journal.events(since=1) == [THE_END]
    assert journal.path.read_bytes() == STARTED + STOPPED
    assert journal.end_offset == 0


def test_a_line_that_is_none_fails_the_test(tmp_path: Path) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    tell(journal, b"hello\n")
    with pytest.raises(LocalQuorumError, match="not a line of a journal"):
        journal.wait_for(lambda _: None, "anything")


def test_what_is_never_told_is_named(tmp_path: Path) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    with pytest.raises(LocalQuorumError, match="for a leader"):
        journal.wait_for(lambda _: None, "a leader", timeout_s=0.05)


def test_a_journal_that_cannot_be_written_down_is_told_and_read_on() -> None:
    journal = JournalKeeper(Path("/dev/full"))
    tell(journal, STARTED, STOPPED)
    with pytest.raises(LocalQuorumError, match="/dev/full: No space left on device"):
        journal.wait_for(lambda _: None, "anything")


def test_a_journal_is_quiet_when_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    told = iter([STARTED, STOPPED, b""])

    def wait_for_one_more(_: float) -> None:
        mark = journal.mark()
        if line := next(told):
            tell(journal, line)
            journal.wait_for(lambda events: len(events) > 0, "a line", since=mark)

    monkeypatch.setattr("time.sleep", wait_for_one_more)
    journal.wait_until_quiet()
    assert journal.mark() == 2


def test_a_journal_that_is_never_quiet_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(journal, "mark", iter(range(10**9)).__next__)
    with pytest.raises(LocalQuorumError, match=r"waited 0\.01 s for the nodes to stop writing"):
        journal.wait_until_quiet(timeout_s=0.01)
