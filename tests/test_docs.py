"""The pages match the code: the table of states, and the commands and files of the README.

Each page is in the menu, in the section of its kind, begins with what it is for, and is short if one reads it.

The site of the documentation, built and seen in a browser: it fits every window and asks no other host.
"""

import ast
import json
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml

from lab.cli.main import pykraft
from pykraft.cli.main import pykraft as shipped
from pykraft.config.properties import node_config, parse_properties
from pykraft.core.state import State
from pykraft.core.transitions import EITHER, HIGHER, MOVES, SAME
from pykraft.sim.lessons.lesson import load_lessons
from tests.browser import OpenPage
from tests.look import Scheme, faults_of, in_all_windows
from tests.tidy.repository import ROOT

LOOKED_UP = {"Reference", "Records"}
"""Sections of the menu whose pages may be long, since one looks things up there."""
READ_WORDS_MAX = 2_500
DOORS = ("build.md", "operate.md", "study.md")
WORDS = {SAME: "same", HIGHER: "higher", EITHER: "either", None: ""}


def table_of_moves() -> str:
    states: tuple[type[State], ...] = get_args(State)
    rows = [["from \\ to", *(state.__name__ for state in states)], ["---"] * (len(states) + 1)]
    rows += [[old.__name__, *(WORDS[MOVES.get((old, new))] for new in states)] for old in states]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def map_of_packages() -> str:
    """Each package with the first clause of its docstring: what a reader of the README finds where."""
    lines = []
    for folder in ("src/pykraft", "lab"):
        found = []
        for path in sorted((ROOT / folder).glob("*/__init__.py")):
            clause = re.split(r"[:;.,(]", ast.get_docstring(ast.parse(path.read_text())) or "", maxsplit=1)[0].strip()
            found.append(f"`{path.parent.name}`: {clause}")
        lines.append(textwrap.fill(f"`{folder}/`: " + " · ".join(found) + ".", 120, break_on_hyphens=False))
    return "\n\n".join(lines)


def options_of(command: click.Command, name: str) -> str:
    """What ``--help`` says of a command, and of each command of a group, in Markdown."""
    context = click.Context(command, info_name=name)
    if isinstance(command, click.Group):
        found = [(each, command.get_command(context, each)) for each in command.list_commands(context)]
        return "\n".join(options_of(each, f"{name} {word}") for word, each in found if each and not each.hidden)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    said = (command.help or "").partition("\n\n")[0]
    rows = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    lines = [f"## {name}", "", plain(said), "", f"`{usage}`", ""]
    lines += ["| option | meaning |", "|---|---|"] if any(rows) else []
    cells = [(row[0].replace("|", "\\|"), plain(row[1])) for row in rows if row]
    return "\n".join([*lines, *(f"| `{option}` | {meaning} |" for option, meaning in cells)]) + "\n" * bool(cells)


def plain(text: str) -> str:
    """The text on one line, without a meaning for Markdown or HTML."""
    return re.sub(r"([|*<])", r"\\\1", " ".join(text.split()))


def commands(page: str) -> Iterator[list[str]]:
    """The words of each command in the page's shell blocks."""
    for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
        yield from (shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines())


def test_the_page_of_states_draws_the_table(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "states.md"
    page = path.read_text()
    head, _, rest = page.partition("<!-- moves -->\n")
    expected = f"{head}<!-- moves -->\n\n{table_of_moves()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected


def test_the_readme_maps_every_package(request: pytest.FixtureRequest) -> None:
    path = ROOT / "README.md"
    head, _, rest = path.read_text().partition("<!-- packages -->\n")
    expected = f"{head}<!-- packages -->\n\n{map_of_packages()}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected


def test_the_page_of_all_commands_is_their_help(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "commands.md"
    head, _, rest = path.read_text().partition("<!-- commands -->\n")
    listed = options_of(shipped, "pykraft")
    expected = f"{head}<!-- commands -->\n\n{listed}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected


def test_the_first_page_of_the_site_says_what_the_readme_says(request: pytest.FixtureRequest) -> None:
    """What it guarantees, and why this one: the table's links lead to pages beside it."""
    said = (ROOT / "README.md").read_text().partition("## What it guarantees\n")[2].partition("\n## Three doors")[0]
    path = ROOT / "docs" / "index.md"
    head, _, rest = path.read_text().partition("<!-- of the README -->\n")
    said = f"## What it guarantees\n{said}".replace("](docs/", "](")
    expected = f"{head}<!-- of the README -->\n\n{said}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected


def menu() -> dict[str, str]:
    """Each page of the site's menu with its section."""
    sections = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [
        (page, title) for each in sections for title, entries in each.items() for e in entries for page in e.values()
    ]
    assert len(dict(pages)) == len(pages), "a page is in two sections"
    return dict(pages)


def test_every_page_is_in_the_menu() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert menu().keys() - {"adr/README.md", "notes/README.md"} == pages


@pytest.mark.parametrize("page", menu())
def test_a_page_begins_with_what_it_is_for(page: str) -> None:
    """A paragraph of text, before the first heading, block of code, list or table."""
    text = (ROOT / "docs" / page).read_text()
    assert re.match(r"# .+\n\n[A-Z`\[](?!``).+[.:]\n", text), text[:200]


@pytest.mark.parametrize("page", [page for page, section in menu().items() if section not in LOOKED_UP])
def test_a_page_that_is_read_is_short(page: str) -> None:
    assert len((ROOT / "docs" / page).read_text().split()) <= READ_WORDS_MAX


@pytest.mark.parametrize("door", DOORS)
def test_a_door_is_a_path_of_five_pages(door: str) -> None:
    steps = re.findall(r"^(\d)\. \[.+?\]\(([a-z-]+\.md)\)", (ROOT / "docs" / door).read_text(), re.MULTILINE)
    assert [number for number, _ in steps] == ["1", "2", "3", "4", "5"]
    assert {page for _, page in steps} <= menu().keys() - {*DOORS, "index.md"}
    for page in ("README.md", "docs/index.md"):
        assert f"{door})" in (ROOT / page).read_text()


@pytest.mark.conformance("H15")
def test_every_command_of_the_readme_exists() -> None:
    started = list(commands((ROOT / "README.md").read_text()))
    assert {"bin/demo", "bin/test", "bin/pykraft", ".venv/bin/python"} == {words[0] for words in started}
    for words in started:
        assert (ROOT / words[0]).stat().st_mode & 0o100, words[0]
        if words[0] == "bin/pykraft":
            check_words(pykraft, words[1:])


def test_every_option_of_a_command_on_a_page_exists() -> None:
    """`tests.documented` runs the commands, but some of them shortened, and a few not at all."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        for words in commands(path.read_text()):
            if words and words[0] == "pykraft":
                check_words(pykraft, words[1:])


def check_words(command: click.Command, words: list[str]) -> None:
    """Follow subcommands as far as they go, past the options of each; then each option must be known."""
    context = click.Context(command)
    words = words[: words.index("--")] if "--" in words else words  # what follows is a command of its own
    while isinstance(command, click.Group):
        while words[0].startswith("--"):
            [option] = [each for each in command.params if words[0] in each.opts]
            words = words[1 if isinstance(option, click.Option) and option.is_flag else 2 :]
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.conformance("H15")
def test_the_configuration_that_the_readme_starts_is_valid() -> None:
    parsed = node_config(parse_properties((ROOT / "config" / "single.properties").read_text()))
    assert parsed.warnings == ()
    assert parsed.config.voters.ids == (1,)


@pytest.mark.parametrize("folder", ["adr", "notes"])
def test_every_decision_and_note_is_in_its_list(folder: str) -> None:
    path = ROOT / "docs" / folder
    listed = re.findall(r"^- \[.*\]\(([^)]+)\)$", (path / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({each.name for each in path.glob("*.md")} - {"README.md"})


@pytest.mark.conformance("H16", "H63")
def test_the_pages_say_what_this_is_and_where_it_comes_from() -> None:
    readme, index = (ROOT / "README.md").read_text(), (ROOT / "docs" / "index.md").read_text()
    for page in (readme, index):
        assert "Apache Kafka's Raft (KRaft) in Python" in page
    assert re.search(r"\[Raft paper\]\(https://\S+/atc14-paper-ongaro\.pdf\), tailored for Kafka", index)
    started = [words[1:3] for words in commands(readme) if words[0] == "bin/pykraft"]
    assert ["bench", "raft"] in started, "the server that stands alone, and how it is measured"
    assert any(words[0] == "server" for words in started)


@pytest.mark.conformance("H15", "H18")
def test_each_sample_is_the_configuration_of_a_node() -> None:
    samples = sorted(set((ROOT / "config").glob("*.properties")) - {ROOT / "config" / "producer.properties"})
    assert {path.name for path in samples} >= {"kraft.properties", "raft.properties"}
    for path in samples:
        config = node_config(parse_properties(path.read_text())).config
        assert config.node_id in config.voters.ids, path.name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.browser
def test_the_search_leaves_out_decisions_and_tables_of_results(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    found = {each["location"]: each["text"] for each in index}
    assert {"cli/#dynamic-voters", "embedding/#commands"} <= found.keys()
    assert not [location for location in found if location.startswith(("adr/", "notes/"))]
    for page, section in menu().items():
        location = page.removesuffix("index.md").replace(".md", "/")
        if section in {"Start", "Records"} and "/README" not in page:
            assert [found[each] for each in found if each.partition("#")[0] == location] == [""], page


@pytest.mark.browser
def test_the_site_has_a_page_for_each_lesson(site: Path) -> None:
    page = (site / "learn" / "index.html").read_text()
    for name, lesson in load_lessons().items():
        assert f'href="{name}.html"' in page
        assert f"<h1>pykraft: {lesson.title}</h1>" in (site / "learn" / f"{name}.html").read_text()


SEARCH = """([docs, questions]) => {
    // As search/worker.js builds it.
    const index = lunr(function () {
        this.field("title"); this.field("text"); this.ref("location");
        for (const doc of docs) this.add(doc);
    });
    return questions.map(question => index.search(question).slice(0, 3).map(found => found.ref));
}"""


def test_the_search_finds_what_people_ask(open_page: OpenPage, site: Path) -> None:
    wanted = tomllib.loads((ROOT / "tests" / "documented" / "questions.toml").read_text())
    assert len(wanted) >= 30
    page = open_page(site / "index.html")
    page.add_script_tag(path=site / "search" / "lunr.js")
    docs = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    found = dict(zip(wanted, page.evaluate(SEARCH, [docs, [*wanted]]), strict=True))
    wrong = {
        each: found[each] for each, place in wanted.items() if not any(ref.startswith(place) for ref in found[each])
    }
    assert wrong == {}
    forget_own_files(open_page)


@in_all_windows
@pytest.mark.parametrize("name", ["first-steps/index.html", "cli/index.html"])
def test_a_page_looks_right_and_asks_no_other_host(
    open_page: OpenPage, site: Path, name: str, width: int, scheme: Scheme
) -> None:
    page = open_page(site / name, width=width, scheme=scheme)
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.dataset.bsTheme") == scheme
    assert page.locator(".codehilite span").count() > 0
    forget_own_files(open_page)


def test_every_page_looks_right_where_the_list_of_its_sections_stands_beside_it(
    open_page: OpenPage, site: Path
) -> None:
    pages = sorted(site.glob("*/index.html"))
    assert len(pages) > 15
    page = open_page(pages[0], width=800, scheme="light")
    faults: dict[str, list[str]] = {}
    for path in pages:
        page.goto(path.as_uri())
        if found := faults_of(page):
            faults[path.parent.name] = found
    assert faults == {}
    forget_own_files(open_page)


def forget_own_files(open_page: OpenPage) -> None:
    """The site's files lie beside its pages; search needs a server, since a page of a file may not fetch one."""
    open_page.problems[:] = [
        each for each in open_page.problems if "asks for file:" not in each and "file:" not in each
    ]
