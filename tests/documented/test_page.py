"""Running a page: order, files, comparison, commands that stay, and each way in which a page can be wrong."""

import os
from pathlib import Path

import pytest

from tests.documented import blocks as blocks_module
from tests.documented import page as page_module
from tests.documented.page import masked, run_page
from tests.documented.table import Eventually, NotRun, Page, Shortened, Stays, Table
from tests.documented.terminal import PageError

FENCE = "```"
STAYS = """python -c "
import time
print('ready', flush=True)
try: time.sleep(60)
except KeyboardInterrupt: print('bye')
" --stays"""


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, table: Table | None = None) -> str:
    for module in (blocks_module, page_module):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(text.replace("'''", FENCE))
    output = tmp_path / "output"
    output.mkdir(exist_ok=True)
    said: list[str] = []
    run_page("page.md", output, said.append, table or Table())
    return "\n".join(said)


def test_blocks_share_a_folder_and_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
'''toml
# numbers.toml
one = 1
'''
'''python
import tomllib, pathlib
pathlib.Path("sum").write_text(str(tomllib.loads(pathlib.Path("numbers.toml").read_text())["one"] + 1))
'''
'''sh
WORD=sum
echo "the $WORD is $(cat $WORD) after 0.25 s"
'''
'''text
the sum is 77 after 3 s
'''
"""
    assert "the sum is 2 after" in run(tmp_path, monkeypatch, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'''sh\nfalse\n'''", r"page.md:1: \$ false\nstatus 1"),
        ("'''sh\nexit 3\n'''", "status unknown: the shell ended"),
        ("'''sh\necho one\n'''\n'''text\ntwo\n'''", r"page.md:4: not printed \(in this order\): two"),
        ("'''sh\nprintf '%s\\n' one two\n'''\n'''text\ntwo\none\n'''", "not printed .*: one"),
        ("'''text\ntwo\n'''", "no block before it prints this"),
        ("'''properties\nnode.id=1\n'''", "must name the file"),
        ("'''console\n$ true\n'''", "the language console"),
        ("'''python\nraise SystemExit(2)\n'''", r"python block_1.py\nstatus 2"),
    ],
)
def test_a_page_that_does_not_hold(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PageError, match=words):
        run(tmp_path, monkeypatch, text)


def test_a_page_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(by_path={"page.md": Page("page.md", timeout_s=0.2)})
    with pytest.raises(PageError, match="not done after 0 s"):
        run(tmp_path, monkeypatch, "'''sh\nread -r x < <(tail -f /dev/null)\n'''", table)


def test_what_stays_is_interrupted_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stay.sh").write_text(f"exec {STAYS}")
    table = Table(stays=(Stays("bash stay.sh", "ready"),))
    assert "ready" in run(tmp_path, monkeypatch, "'''sh\nbash stay.sh\necho next\n'''", table)
    assert "bye" in (tmp_path / "output" / "1.out").read_text()


def test_what_should_stay_and_ends_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(stays=(Stays("echo", "ready"),))
    with pytest.raises(PageError, match="it ended, and should stay\ngone"):
        run(tmp_path, monkeypatch, "'''sh\necho gone\n'''", table)


def test_what_ends_later_is_an_error_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node of a page gave up after 30 s; the page was mostly done before."""
    table = Table(stays=(Stays("bash wait.sh", "ready"),))
    (tmp_path / "wait.sh").write_text("echo ready; read -r _ <fifo; echo gone")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PageError, match="it ended, and should stay\nready\ngone"):
        run(tmp_path, monkeypatch, "@sh\nbash wait.sh\necho now >fifo\nwait %1\n@".replace("@", FENCE), table)


def test_rows_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(
        not_run=(NotRun(("rm",), "it would"),),
        shortened=(Shortened("1000", "2", "quick"),),
        eventually=(Eventually("page.md", "mkdir", "the second time"),),
        by_path={"page.md": Page("page.md", given="touch given", given_why="to see it")},
    )
    text = "'''sh\nrm given\nls given\nseq 1000\nmkdir -p a/b || { mkdir -p a; false; }\n'''"
    said = run(tmp_path, monkeypatch, text, table)
    assert "not run: rm given" in said
    assert "1\n2\n[" in said


def test_numbers_times_and_ids_are_masked() -> None:
    assert masked("1   of 3,000 at 12:30:01.5 by sqxZm1Px7K4CHlguwlypgQ") == "0 of 0 at 0 by ID"


def test_what_never_succeeds_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(
        eventually=(Eventually("page.md", "ls", "it never comes"),), by_path={"page.md": Page("page.md", timeout_s=0.5)}
    )
    with pytest.raises(PageError, match=r"again and again: .*cannot access"):
        run(tmp_path, monkeypatch, "'''sh\nls nothing\n'''", table)
