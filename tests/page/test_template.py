"""Templates are filled once, and the shared style comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.page import fill, style
from pykraft.page.template import COMMON


def test_every_place_is_filled_and_a_part_is_not_searched() -> None:
    assert fill("<h1>@title@</h1><p>@text@</p>", {"title": "t", "text": "a@title@b"}) == "<h1>t</h1><p>a@title@b</p>"


def test_a_place_without_a_part_is_a_bug() -> None:
    with pytest.raises(KeyError, match="title"):
        fill("@title@", {})


def test_a_pages_own_rules_come_after_the_shared_ones(tmp_path: Path) -> None:
    own = tmp_path / "page.css"
    own.write_text("h1 { color: var(--good); }\n")
    assert style(own) == f"{COMMON.read_text()}h1 {{ color: var(--good); }}\n"
