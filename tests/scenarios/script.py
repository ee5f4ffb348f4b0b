"""The format of the scenario files: prose, commands, and what each of them made happen.

    # Why this must be so.
    verb arguments
    verb arguments
    ----
    what the last command told
    (blank line)

A command that tells something ends its block, so its output stands right under it, and the commands above it told
nothing. Where that silence is the point, a blank line after a command ends the block, and ``(nothing)`` is its output.
``quiet`` before a verb leaves out what it tells; it stands only where something is left out. ``stage`` lists the verbs.

``pytest tests/scenarios --rewrite`` writes the files so: a new scenario may begin as one paragraph of commands.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.scenarios.stage import Stage

QUIET = "quiet "
RULE = "----"
NOTHING = "(nothing)"


def run(path: Path) -> str:
    """Play a scenario; returns the file's text as it should be."""
    stage = Stage()
    blocks = [block for head in heads(path.read_text(encoding="utf-8")) for block in _play(stage, head)]
    return "\n\n".join(blocks) + "\n"


def heads(text: str) -> Iterator[list[str]]:
    """The prose and the commands of each block of a file: what stands above its rule, if it has one."""
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        yield lines[: lines.index(RULE)] if RULE in lines else lines


def is_command(line: str) -> bool:
    """Whether a line above the rule is no prose."""
    return not line.startswith("#")


def _play(stage: Stage, head: list[str]) -> Iterator[str]:
    """Play the commands of one block; yields the blocks that they should be."""
    block: list[str] = []
    for line in head:
        if not is_command(line):
            block.append(line)
            continue
        told = stage.play(line.removeprefix(QUIET))
        is_quiet = line.startswith(QUIET) and bool(told)
        block.append(line if is_quiet else line.removeprefix(QUIET))
        if told and not is_quiet:
            yield "\n".join([*block, RULE, *told])
            block = []
    commands = [line for line in block if is_command(line)]
    if commands and not commands[-1].startswith(QUIET):
        block += [RULE, NOTHING]  # the author ended the block here, so this silence means something
    if block:
        yield "\n".join(block)
