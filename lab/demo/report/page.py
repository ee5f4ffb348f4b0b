"""Renders the page of a report: text and pictures in one self-contained file.

Invariant: all content from a run is escaped, and the page has no external address and no code. Source: Content Security
Policy Level 3 (W3C).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import pykraft
from lab.demo.report.words import Check, SummaryNumber, checks, command, numbers, setting, verdict
from lab.demo.story import Story
from pykraft.page import render_page

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as SVG, for wide and for narrow screens, with its explanation."""

    name: str
    title: str
    reading: str
    wide: str
    narrow: str


def render(story: Story, pictures: Sequence[Picture]) -> str:
    """The page as text."""
    problems = story.result.problems
    stressed, rest = verdict(story)
    begun = datetime.fromtimestamp(story.begin_wall_ms / 1_000, tz=UTC)
    parts = {
        "title": escape(f"pykraft demo: {stressed} {rest}"),
        "outcome": "failed" if problems else "passed",
        "when": f"{begun:%Y-%m-%d %H:%M} UTC",
        "verdict": f"<b>{'✘' if problems else '✔'} {escape(stressed)}</b> {escape(rest)}",
        "setting": escape(setting(story)),
        "problems": _list(problems),
        "tiles": "\n".join(map(_tile, numbers(story))),
        "checks": "\n".join(map(_check, checks(story))),
        "command": escape(command(story.options)),
        "version": escape(pykraft.__version__),
        "figures": "\n".join(map(_figure, pictures)),
    }
    return render_page(FOLDER, parts)


def _list(problems: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    return f'<ul class="problems">{items}</ul>' if items else ""


def _tile(number: SummaryNumber) -> str:
    unit = f" <small>{escape(number.unit)}</small>" if number.unit else ""
    return f"<div><strong>{escape(number.value)}{unit}</strong><span>{escape(number.meaning)}</span></div>"


def _check(check: Check) -> str:
    outcome, sign = ("passed", "✔") if check.is_met else ("failed", "✘")
    words = f"<strong>{escape(check.claim)}</strong><span>{escape(check.found)}</span>"
    return f'<li class="{outcome}"><b>{sign}</b><div>{words}</div></li>'


def _figure(picture: Picture) -> str:
    return (
        f'<figure id="{escape(picture.name)}">\n<h2>{escape(picture.title)}</h2>\n'
        f"<figcaption>{escape(picture.reading)}</figcaption>\n"
        f'<div class="plot wide">{picture.wide}</div>\n<div class="plot narrow">{picture.narrow}</div>\n</figure>'
    )
