"""Running a page: order, files, comparison, commands that stay, and each way in which a page can be wrong.

Finding blocks and commands in Markdown.

Every block of the documentation is run, compared or in the table, and every row of the table fits something.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented import blocks as blocks_module
from tests.documented import blocks as module
from tests.documented import page as page_module
from tests.documented.blocks import FILES, LANGUAGES, Block, blocks, pages
from tests.documented.page import masked, run_page
from tests.documented.table import NOT_RUN_MAX, Eventually, NotRun, Page, Shortened, Stays, Table, table
from tests.documented.terminal import PageError
from tests.tidy.repository import ROOT

FENCE = "```"
STAYS = """python -c "
import time
print('ready', flush=True)
try: time.sleep(60)
except KeyboardInterrupt: print('bye')
" --stays"""


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, table: Table | None = None) -> str:
    for each in (blocks_module, page_module):
        monkeypatch.setattr(each, "ROOT", tmp_path)
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


def test_programs_of_a_notebook_run_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page("page.md", is_notebook=True)
    text = """
'''python
a = 1
'''
'''sh
touch made
'''
'''python
print(a + 1, open("made").read())
'''
'''text
2
'''
"""
    assert run(tmp_path, monkeypatch, text, Table(by_path={"page.md": page})).count("$ python") == 1


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


def test_a_reader_has_saved_the_files_of_an_earlier_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "earlier.md").write_text(f"{FENCE}python\n# one.py\nprint(1)\n{FENCE}\n{FENCE}sh\nfalse\n{FENCE}\n")
    table = Table(by_path={"page.md": Page("page.md", after=("earlier.md",))})
    assert "\n1\n[" in run(tmp_path, monkeypatch, "'''sh\npython one.py\n'''", table)


def test_numbers_times_and_ids_are_masked() -> None:
    assert masked("1   of 3,000 at 12:30:01.5 by sqxZm1Px7K4CHlguwlypgQ") == "0 of 0 at 0 by ID"


def test_what_never_succeeds_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(
        eventually=(Eventually("page.md", "ls", "it never comes"),), by_path={"page.md": Page("page.md", timeout_s=0.5)}
    )
    with pytest.raises(PageError, match=r"again and again: .*cannot access"):
        run(tmp_path, monkeypatch, "'''sh\nls nothing\n'''", table)


PAGE = """\
A page.

```sh
first   # with a comment
second \\
  --more
cat > file <<END
third
END
# only a comment
```

1. A list

   ```properties
   # some.properties
   node.id=1
   ```

    indented
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return "page.md"


def test_blocks_are_found_in_lists_too(page: str) -> None:
    found = blocks(page)
    assert [(block.place, block.language) for block in found] == [("page.md:3", "sh"), ("page.md:15", "properties")]
    assert found[1].file_name == "some.properties"


def test_a_command_may_have_several_lines(page: str) -> None:
    assert blocks(page)[0].commands == (
        "first   # with a comment",
        "second \\\n  --more",
        "cat > file <<END\nthird\nEND",
    )


def test_a_command_that_does_not_end_is_an_error() -> None:
    with pytest.raises(AssertionError, match="does not end"):
        _ = Block("page.md", 1, "sh", "cat <<END\n").commands


def test_only_a_name_with_an_extension_names_a_file() -> None:
    names = {"# hello.py\n": "hello.py", "# a/b.py: the whole\n": "a/b.py", "# hello\n": "", "x = 1\n": ""}
    assert {text: Block("page.md", 1, "python", text).file_name for text in names} == names


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks(page)]


def all_commands() -> Iterator[tuple[Block, str]]:
    for block in all_blocks():
        for command in block.commands:
            yield block, command


def test_every_block_has_a_language_that_is_run_or_compared() -> None:
    wrong = [f"{block.place}: {block.language}" for block in all_blocks() if block.language not in LANGUAGES]
    assert wrong == [], f"a block is one of {LANGUAGES}"


def test_at_most_ten_rows_name_commands_that_do_not_run() -> None:
    assert len(table().not_run) <= NOT_RUN_MAX
    for row in table().not_run:
        for start in row.starts:
            alone = [command for block, command in all_commands() if row.fits(block.page, command)]
            assert any(command.startswith(start) for command in alone), f"no page has {start}"
        assert row.why


@pytest.mark.parametrize("row", table().shortened, ids=lambda row: row.printed)
def test_what_is_shortened_is_printed(row: object) -> None:
    assert any(row.fits(block.page, command) for block, command in all_commands())  # type: ignore[attr-defined]


def test_a_sample_is_on_its_page_and_in_the_words_of_the_code() -> None:
    texts = [block for block in all_blocks() if block.language == "text"]
    for row in table().sample:
        found = [block for block in texts if row.fits(block)]
        assert len(found) == 1, f"{row.page} has no block that starts with {row.starts!r}"
        for word in row.words:
            assert word in found[0].text, row
            assert word in (ROOT / row.file).read_text(), row
        assert row.why


def test_what_stays_is_repeated_or_alternative_is_printed() -> None:
    commands = list(all_commands())
    for stays in table().stays:
        assert any(table().stay(command) == stays for _, command in commands), stays
    for row in table().eventually:
        programs = [f"python block_{block.line}.py" for block in blocks(row.page) if block.language == "python"]
        printed = [command for block, command in commands if block.page == row.page]
        assert any(command.startswith(row.starts) for command in [*printed, *programs]), row
    for page in table().page:
        assert {page.path, *page.after} <= {*pages()}
        for start in page.alternatives:
            assert any(block.page == page.path and command.startswith(start) for block, command in commands)


def test_a_row_of_a_page_says_more_than_the_defaults() -> None:
    for page in table().page:
        assert page != Page(page.path)
        assert bool(page.given) == bool(page.given_why)


def test_a_file_that_a_page_names_is_used_by_its_commands() -> None:
    for block in all_blocks():
        if block.language in FILES and block.file_name and table().sampled(block) is None:
            readers = [block.page, *(row.path for row in table().page if block.page in row.after)]
            later = [command for reader in readers for after in blocks(reader) for command in after.commands]
            assert any(block.file_name in command for command in later), f"{block.place}: {block.file_name} is not used"


def test_programs_of_the_pages_run_in_one_folder() -> None:
    """Each has a directory of its own: with another's it finds a log that its state machine cannot read."""
    programs = (block for page in pages() for block in blocks(page) if block.language == "python")
    directories = [
        (found, block.place) for block in programs for found in re.findall(r'configure\(f?"(data/[^"]+)"', block.text)
    ]
    shared = {name: [place for found, place in directories if found == name] for name, _ in directories}
    assert {name: places for name, places in shared.items() if len(places) > 1} == {}
    assert len(shared) >= 15
