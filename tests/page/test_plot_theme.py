"""Plots take the colors and the width of the page, and share no ids."""

import re

import pytest

from pykraft.page.plot_theme import NAMES, STAND_INS, color, drawing, node_color, to_svg

pytestmark = pytest.mark.spark


def drawn(name: str, *, is_narrow: bool = False) -> str:
    with drawing(name, height_inches=2.0, is_narrow=is_narrow) as figure:
        axes = figure.subplots()
        axes.bar([1], [2], color=color("good"), hatch="//")
        axes.plot([1, 2], [1, 2], color=node_color(2), marker="o")
        return to_svg(figure, label='a "label"')


def test_colors_are_those_of_the_page() -> None:
    svg = drawn("one")
    assert "var(--good)" in svg
    assert "var(--node-1)" in svg
    assert not re.findall(r"#0000[0-9a-f]{2}\b", svg)
    assert len(set(STAND_INS.values())) == len(NAMES)
    assert node_color(1) == node_color(10)


def test_a_drawing_is_as_wide_as_its_place_and_says_what_it_is() -> None:
    svg = drawn("one")
    head = svg[: svg.index(">")]
    assert head.startswith('<svg role="img" aria-label="a &quot;label&quot;"')
    assert "viewBox" in head
    assert " width=" not in head
    assert " height=" not in head
    assert drawn("one", is_narrow=True) != svg


def test_no_drawing_refers_to_another_one() -> None:
    names = [set(re.findall(r'\bid="([pmh][0-9a-f]{6,})"', drawn(name))) for name in ("one", "two")]
    assert all(names)
    assert not names[0] & names[1]
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", drawn("one"))
