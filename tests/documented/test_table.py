"""Every block of the documentation is run, compared or in the table, and every row of the table fits something."""

from collections.abc import Iterator

import pytest

from tests.documented.blocks import FILES, LANGUAGES, Block, blocks, pages
from tests.documented.table import NOT_RUN_MAX, Page, table
from tests.tidy.repository import ROOT


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
        assert page.path in pages()
        for start in page.alternatives:
            assert any(block.page == page.path and command.startswith(start) for block, command in commands)


def test_a_row_of_a_page_says_more_than_the_defaults() -> None:
    for page in table().page:
        assert page != Page(page.path)
        assert bool(page.given) == bool(page.given_why)


def test_a_file_that_a_page_names_is_used_by_its_commands() -> None:
    for block in all_blocks():
        if block.language in FILES and block.file_name and table().sampled(block) is None:
            later = [command for after in blocks(block.page) for command in after.commands]
            assert any(block.file_name in command for command in later), f"{block.place}: {block.file_name} is not used"
