"""The programs whose types are checked: all that a user of the package would copy."""

import re
from pathlib import Path

from tests.documented.blocks import blocks, pages
from tests.documented.type_check import PACKAGES, PAGES, save_programs, unknown_types

IMPORTED = re.compile(rf"^(?:from|import) (?:{'|'.join(map(re.escape, PACKAGES))})\b", re.MULTILINE)


def test_every_page_with_a_program_over_these_packages_is_checked() -> None:
    using = {
        block.page
        for page in pages()
        for block in blocks(page)
        if block.language == "python" and IMPORTED.search(block.text)
    }
    assert using == set(PAGES)


def test_programs_are_saved_under_the_names_by_which_they_import_each_other(tmp_path: Path) -> None:
    saved = {path.name: path.read_text() for path in save_programs(tmp_path)}
    assert saved.keys() >= {"hello.py", "counters.py", "test_counters.py", "dictionary.py", "store.py", "printer.py"}
    assert "from counters import" in saved["test_counters.py"]


def test_a_dictionary_takes_at_most_25_lines_of_a_user_s_code(tmp_path: Path) -> None:
    """The class and what its commands are: what runs it is in every program."""
    [program] = [path.read_text() for path in save_programs(tmp_path) if path.name == "dictionary.py"]
    code = [line for line in program.splitlines() if line.strip()]
    assert len(code) - len([line for line in code if line.startswith(("import ", "from "))]) <= 25


def test_only_public_names_without_a_known_type_are_told() -> None:
    def symbol(name: str, *, is_known: bool) -> dict[str, object]:
        return {"name": name, "isTypeKnown": is_known, "diagnostics": [{"message": "no annotation"}]}

    symbols = [
        symbol("pykraft.machine.Replicated", is_known=False),
        symbol("pykraft.machine.StateMachine", is_known=True),
        symbol("pykraft.machine.replica.MachineReplica", is_known=False),
    ]
    told = unknown_types({"typeCompleteness": {"symbols": symbols}})
    assert told == ["pykraft.machine.Replicated: no annotation"]
