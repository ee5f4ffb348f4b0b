"""How bash, zsh and fish ask for completions, and what they get.

The shell passes the command up to the cursor in ``COMP_LINE``, and gets a line for each candidate: its kind (plain,
file or dir), the word, and the help. click's own scripts pass words as the shell split them, and bash also splits at
colons and equals signs. Invariant: a candidate is the whole word that is being completed, except for bash, which wants
what follows its last split. Files and folders are completed by the shell.
"""

import os
import re
from abc import ABC
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

_CURSOR: Final = "\1"
_OPTION: Final = re.compile(r"--[\w-]+=")


class _Shell(ShellComplete, ABC):
    """A shell whose script is the file ``completion.NAME`` beside this module."""

    def source(self) -> str:
        script = Path(__file__).with_name(f"completion.{self.name}").read_text(encoding="utf-8")
        return script % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        # The mark tells a word that is still empty from none, and counts as part of an open quotation.
        *finished, last = split_arg_string(os.environ["COMP_LINE"] + _CURSOR)
        return finished[1:], last.removesuffix(_CURSOR)

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        option = _OPTION.match(incomplete)
        found = super().get_completions(args, incomplete)
        if option is None:
            return found
        return [
            item if item.type != "plain" else CompletionItem(option[0] + item.value, help=item.help) for item in found
        ]

    def format_completion(self, item: CompletionItem) -> str:
        return "\t".join((item.type, self.typed(item.value), re.sub(r"\s+", " ", item.help or "")))

    def typed(self, value: str) -> str:
        return value


class _Bash(_Shell):
    name = "bash"

    def typed(self, value: str) -> str:
        """The part after the last character at which bash splits words."""
        _, incomplete = self.get_completion_args()
        breaks = [character for character in ":=" if character in os.environ["COMP_BREAKS"]]
        split = max((incomplete.rfind(character) for character in breaks), default=-1) + 1
        return value.removeprefix(incomplete[:split])

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\t{self.typed(item.value)}"


class _Zsh(_Shell):
    name = "zsh"


class _Fish(_Shell):
    name = "fish"


SHELLS: Final[dict[str, type[ShellComplete]]] = {each.name: each for each in (_Bash, _Zsh, _Fish)}


def script(shell: str, command: click.Command, program: str, variable: str) -> str:
    """The script that makes this shell complete the program."""
    return SHELLS[shell](command, {}, program, variable).source()


def register_shells() -> None:
    """Let click answer these shells; before `click.Command.main`."""
    for each in SHELLS.values():
        add_completion_class(each)
