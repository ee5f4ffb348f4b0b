"""`pykraft learn`: short worlds of the simulator with an explanation of each step, as text or as a page.

Invariant: the lessons are data (`pykraft.sim.lessons`), and what is shown of one comes from a run that took place.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pykraft.cli.parsing.value import NewFile, OneOf, json_option
from pykraft.cli.printable import print_lines
from pykraft.sim.lessons.lesson import FoundLesson, Lesson, find, load_lessons
from pykraft.text.table import folded, table_lines, terminal_width

LESSONS: Mapping[str, Lesson] = load_lessons()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="[LESSON]", type=OneOf(list(LESSONS)), required=False)
@click.option("--html", "page", type=NewFile(), help="Write an HTML page for stepping through the lesson.")
@json_option
def learn(name: str | None, page: Path | None, *, as_json: bool) -> None:
    """Show how Raft works, in short runs of the production code.

    Without a LESSON it lists them. --html writes a page of the run that opens at the first step of the lesson.
    """
    if name is None:
        if page is not None:
            raise click.UsageError(f"--html: give a lesson, too: {', '.join(LESSONS)}")
        _list(as_json=as_json)
        return
    found = find(LESSONS[name])
    if page is not None:
        page.write_text(found.page(), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(lesson_json(found, page)))
    elif page is not None:
        click.echo(f"page: {page}")
    else:
        print_lines(_lines(found))


def _list(*, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([_summary(lesson) for lesson in LESSONS.values()]))
        return
    rows = ((lesson.name, lesson.about) for lesson in LESSONS.values())
    print_lines(table_lines(("lesson", "what it shows"), rows, width=terminal_width()))
    click.echo("\nRead one with pykraft learn LESSON, or step through its run: pykraft learn LESSON --html FILE")


def _summary(lesson: Lesson) -> dict[str, Any]:
    return {"name": lesson.name, "title": lesson.title, "about": lesson.about}


def lesson_json(found: FoundLesson, page: Path | None) -> dict[str, Any]:
    """What ``--json`` prints of a lesson; an event has the number that it has on the page."""
    return {
        **_summary(found.lesson),
        "seed": found.seed,
        "steps": [{"event": step.event + 1, "at_us": step.at_us, "text": step.text} for step in found.steps],
        "links": dict(found.lesson.links),
        "page": None if page is None else str(page),
    }


def _lines(found: FoundLesson) -> Iterator[str]:
    width = terminal_width()
    yield found.lesson.title
    yield from folded(found.lesson.about, width)
    for step in found.steps:
        yield ""
        yield from folded(f"{step.at_us / 1e3:.3f} ms: {step.text}", width)
    yield ""
    yield from (f"{text}: {address}" for text, address in found.lesson.links)
