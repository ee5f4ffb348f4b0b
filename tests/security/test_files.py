"""Files that have changed are taken up; what cannot be used is tried again, and is reported once."""

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.security.files import FromFiles, read_bounded


class Word(FromFiles):
    """The text of a file, unless it is refused."""

    what = "words"
    refuses = ""

    def make(self) -> None:
        if self.refuses:
            raise UsageError(self.refuses)
        self.text = self.files[0].read_text()


def test_what_cannot_be_used_is_tried_again_and_each_problem_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "word"
    path.write_text("one")
    word = Word([path])
    assert (word.text, word.refresh(), word.is_stale) == ("one", None, False)
    path.write_text("other")
    word.refuses = "not yet"
    assert word.refresh() == "changed words are not taken up, the former ones stay in use: not yet"
    assert (word.text, word.refresh(), word.is_stale) == ("one", None, True)
    word.refuses = "for another reason"
    assert "another reason" in str(word.refresh())
    word.refuses = ""  # as after a change of its permissions, which leaves the file as it was
    assert word.refresh() == f"words were read again: {path}"
    assert (word.text, word.refresh(), word.is_stale) == ("other", None, False)


def test_what_came_of_it_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "word"
    path.write_text("one")
    word = Word([path])
    caplog.set_level("INFO")
    path.write_text("other")
    word.refuses = "no"
    for _ in range(2):
        word.take_up()
    word.refuses = ""
    word.take_up()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "word"
    path.write_bytes(b"four")
    assert read_bounded(path, 4) == b"four"
    with pytest.raises(ValueError, match="more than 3 bytes"):
        read_bounded(path, 3)
