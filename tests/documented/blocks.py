"""Finds the fenced blocks of the README, CONTRIBUTING.md and the pages in docs/, with a parser of Markdown.

Invariant: every block of code that a reader sees is found, also one in a list. Its language says what it is: `sh` holds
commands, `python` a program, `text` what the block before it prints; `properties` and `toml` are files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from markdown_it import MarkdownIt

from tests.tidy.repository import ROOT, tracked

FILES = ("python", "properties", "toml", "ini", "yaml", "json", "dockerfile")
LANGUAGES = ("sh", "text", *FILES)
"""What a block may be. There is one word for each: `sh`, not `bash`, `shell` or `console`."""
PAGE = re.compile(r"docs/.*\.md")
MAY_BEGIN = re.compile(r"```|~~~| {4}|\t")
"""Where a block may begin, wherever it stands; a page without has none."""


@dataclass(frozen=True)
class Block:
    """One fenced block: the page, the line of its fence (from 1), its language, and what is in it."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, as editors and terminals understand it."""
        return f"{self.page}:{self.line}"

    @cached_property
    def file_name(self) -> str:
        """The name in the comment of the first line (`# hello.py`), or nothing: the block is that file."""
        named = re.match(r"# ([\w./-]+\.\w+)(?::.*)?\n", self.text) if self.language in FILES else None
        return named.group(1) if named else ""

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """The commands of an `sh` block. A line that ends with a backslash continues, and so does a here-document."""
        return tuple(_commands(self.text)) if self.language == "sh" else ()


def _commands(text: str) -> Iterator[str]:
    pending: list[str] = []
    end = ""
    for line in text.splitlines():
        pending.append(line)
        if not end and (opened := re.search(r"<<-?\s*['\"]?(\w+)", line)):
            end = opened.group(1)
        elif line.strip() == end:
            end = ""
        if end or line.endswith("\\"):
            continue
        command = "\n".join(pending)
        pending = []
        if command.strip() and not command.lstrip().startswith("#"):
            yield command
    assert not pending, f"a command does not end: {pending}"


def blocks(page: str) -> tuple[Block, ...]:
    """The blocks of a page in order. A block without fences has the language "indented", which no page should have."""
    text = (ROOT / page).read_text()
    if not MAY_BEGIN.search(text):  # most pages; to parse them all takes each worker of pytest a second
        return ()
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in {"fence", "code_block"}:
            assert token.map is not None
            language = (token.info.split() or ["none"])[0] if token.type == "fence" else "indented"
            found.append(Block(page, token.map[0] + 1, language, token.content))
    return tuple(found)


def pages() -> tuple[str, ...]:
    """The pages that hold blocks, of those that belong to the repository."""
    listed = [name for name in tracked() if name in {"README.md", "CONTRIBUTING.md"} or PAGE.fullmatch(name)]
    return tuple(page for page in listed if (ROOT / page).exists() and blocks(page))
