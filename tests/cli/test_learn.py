"""`pykraft learn`: the list, a lesson as text, as a page and as JSON, and wrong names."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykraft.cli.errors import run_with_exit_codes
from pykraft.cli.learn import LESSONS, learn
from pykraft.cli.main import pykraft


def output_of(*words: str) -> str:
    result = CliRunner().invoke(learn, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_without_a_lesson_all_are_listed() -> None:
    lines = output_of().splitlines()
    assert [line.split()[0] for line in lines[1:6]] == list(LESSONS)
    assert "pykraft learn LESSON --html FILE" in lines[-1]
    listed = json.loads(output_of("--json"))
    assert [each["name"] for each in listed] == list(LESSONS)
    assert {key for each in listed for key in each} == {"name", "title", "about"}


def test_a_lesson_is_told_as_text_with_its_links() -> None:
    lines = output_of("membership-change").splitlines()
    assert lines[:2] == ["A membership change", LESSONS["membership-change"].about]
    steps = [line for line in lines if " ms: " in line]
    assert len(steps) == len(LESSONS["membership-change"].steps) - 1
    assert lines[-1].startswith("KIP-853: https://cwiki.apache.org/")


def test_a_page_is_written_and_named(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert output_of("first-election", "--html", str(path)) == f"page: {path}\n"
    page = path.read_text()
    assert "<h1>pykraft: The first election</h1>" in page
    assert "See it again: pykraft learn first-election --html FILE" in page


def test_json_numbers_events_as_the_addresses_of_the_page_do(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    lesson = json.loads(output_of("killed-leader", "--json", "--html", str(path)))
    assert (lesson["name"], lesson["page"]) == ("killed-leader", str(path))
    assert f'"event":{lesson["steps"][0]["event"] - 1},"text":"Node ' in path.read_text()
    assert lesson["links"]["KIP-595"].startswith("https://")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["first-elektion"], "give one of first-election, killed-leader, partition"),
        (["--html", "page.html"], "--html: give a lesson, too: first-election, killed-leader"),
    ],
)
def test_a_wrong_word_is_refused_with_what_to_give(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pykraft", "learn", *words])
    with pytest.raises(SystemExit) as ended:
        run_with_exit_codes(pykraft)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
