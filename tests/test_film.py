"""`bin/film`: a fail-over as a picture that moves, of a real quorum, without script, font or address."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.browser import OpenPage
from tests.look import Scheme, in_all_windows
from tests.tidy.repository import ROOT

COMMITTED = ROOT / "docs" / "images" / "fail-over.svg"
SIZE_BYTES_MAX = 300_000
SEEN = """(at_ms) => {
  for (const each of document.getAnimations()) { each.pause(); each.currentTime = at_ms; }
  return [...document.querySelectorAll('text')].filter((each) => getComputedStyle(each).visibility === 'visible')
    .map((each) => each.textContent);
}"""
OUTSIDE = """() => {
  const frame = document.documentElement.getBoundingClientRect();
  return [...document.querySelectorAll('text')].map((each) => [each.getBoundingClientRect(), each.textContent])
    .filter(([box]) => box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom)
    .map(([, text]) => text);
}"""


@pytest.fixture(scope="module")
def film() -> Iterator[ModuleType]:
    """The module in bin, which is not a package."""
    spec = importlib.util.spec_from_file_location("_film", ROOT / "bin" / "_film.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_film"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["_film"]


def picture(film: ModuleType, at_s: float, verdict: str, leader: int) -> Any:
    table = (
        "NodeId  Status  Endpoint  LogEndOffset  DirectoryId",
        f"{leader}       Leader  <host>    7             abc",
    )
    return film.Picture(at_s, (verdict, "", f"LeaderId:   {leader}", "", *table))


def short(film: ModuleType) -> Any:
    one, two = "healthy: 3 of 3 voters follow leader 1", "at risk: voter 1 is away; " + "2 of 3 voters follow " * 4
    pictures = [picture(film, 0.0, one, 1), picture(film, 1.0, two, 2), picture(film, 2.0, one, 2)]
    return film.Film("$ pykraft", pictures, [(0.5, "$ kill -9 17"), (1.0, "node 2 leads")])


def test_each_picture_is_shown_in_its_time(film: ModuleType, open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "film.svg"
    path.write_text(film.draw(short(film)))
    page = open_page(path)
    page.emulate_media(reduced_motion="no-preference")
    first, second, last = (page.evaluate(SEEN, at_ms) for at_ms in (100, 1_100, 2_100))
    assert first[:3] == ["$ pykraft", "healthy: 3 of 3 voters follow leader 1", "LeaderId:   1"]
    assert not any("kill" in line for line in first)
    assert second[1].startswith("at risk: voter 1 is away;")
    assert second[-2:] == ["  0.5 s  $ kill -9 17", "  1.0 s  node 2 leads"]
    assert "LeaderId:   2" in last
    assert "2       Leader  <host>    7" in last, "the last column is left out, as on a terminal of that width"
    assert page.evaluate(OUTSIDE) == []


@in_all_windows
def test_the_film_of_the_readme_fits_every_window(open_page: OpenPage, width: int, scheme: Scheme) -> None:
    page = open_page(COMMITTED, width=width, scheme=scheme)
    assert page.evaluate(OUTSIDE) == []
    ink = page.evaluate("getComputedStyle(document.querySelector('text')).fill")
    assert (ink == "rgb(145, 152, 161)") == (scheme == "dark")
    # A reader who wants no motion, as this browser does, sees the end: everybody has caught up.
    seen = page.locator("text >> visible=true").all_text_contents()
    assert seen[1].startswith("healthy: 3 of 3 voters")
    assert seen[-1].endswith("has caught up")


def test_the_film_of_the_readme_is_small_and_needs_nothing() -> None:
    text = COMMITTED.read_text()
    assert len(text.encode()) < SIZE_BYTES_MAX
    assert not re.search(r"<script|@import|url\(|href|https?://(?!www\.w3\.org/2000/svg)", text)
    assert re.search(r"node \d leads, seen [0-3]\.\d s after the kill", text), "a slow machine made this film"


@pytest.mark.processes
def test_the_command_films_a_real_quorum(film: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "film.svg"
    film.main(["--hold", "0.2", str(target)])
    events = re.findall(r"> *\d+\.\d s  (.*?)</text>", target.read_text())
    killed, led, started, caught_up = events
    victim = re.fullmatch(r"\$ kill -9 \d+ {3}# node (\d), the leader", killed)
    assert victim is not None
    assert re.fullmatch(rf"node [^{victim[1]}] leads, seen \d+\.\d s after the kill", led)
    assert (started, caught_up) == (f"node {victim[1]} is started again", f"node {victim[1]} has caught up")
    assert str(target) in capsys.readouterr().out
