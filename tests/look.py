"""What can be measured of how a page looks: see ``look.js`` for each fault that is noticed.

Every kind of page is measured in each of `WINDOWS`: a phone, a tablet and a desk, light and dark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest

if TYPE_CHECKING:  # it comes with a browser
    from playwright.sync_api import Page

Scheme = Literal["light", "dark"]
WIDTHS: Final = (390, 800, 1400)
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
SCRIPT = Path(__file__).with_suffix(".js")

in_all_windows = pytest.mark.parametrize(
    ("width", "scheme"), [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
)
"""A test with arguments ``width`` and ``scheme`` runs once for each window."""


def faults_of(page: Page) -> list[str]:
    """What is wrong with how this page looks now, in this window."""
    found: list[str] = page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    return found
