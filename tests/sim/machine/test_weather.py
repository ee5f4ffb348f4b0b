"""The weather of a world is drawn from its links."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.sim.machine.weather import Weather
from pykraft.sim.scenario.scenario import LinkSettings


def test_each_part_is_one_of_the_choices() -> None:
    links = LinkSettings(latency_us_max=(5, 7), byte_us=(1, 2), unanswered_probability=0.5, half_open_probability=0.25)
    drawn = [Weather.draw(links, Random(seed)) for seed in range(40)]
    assert {(each.latency_us_max, each.byte_us) for each in drawn} == {(5, 1), (5, 2), (7, 1), (7, 2)}
    assert {(each.unanswered_probability, each.half_open_probability) for each in drawn} == {(0.5, 0.25)}
    assert len({each.dice for each in drawn}) == len(drawn)


def test_narrow_links_are_drawn_apart_from_all_else() -> None:
    links = LinkSettings(narrow_byte_us=(7,))
    wide = [Weather.draw(links, Random(seed)) for seed in range(40)]
    drawn = [Weather.draw(replace(links, narrow_probability=0.5), Random(seed)) for seed in range(40)]
    assert {each.byte_us for each in wide} == {0}
    assert {each.byte_us for each in drawn} == {0, 7}
    assert [replace(each, byte_us=0) for each in drawn] == wide
