"""What can be measured of how a page looks: see ``look.js`` for each fault that is noticed.

`violations_of` asks axe-core, which knows the rules of WCAG and ARIA.

Every kind of page is measured in each of `WINDOWS`: a phone, a tablet and a desk, light and dark.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

if TYPE_CHECKING:  # it comes with a browser
    from playwright.sync_api import Page

Scheme = Literal["light", "dark"]
WIDTHS: Final = (390, 800, 1400)
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
SCRIPT = Path(__file__).with_suffix(".js")
AXE = "axe_playwright_python", "axe.min.js"

in_all_windows = pytest.mark.parametrize(
    ("width", "scheme"), [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
)
"""A test with arguments ``width`` and ``scheme`` runs once for each window."""


def faults_of(page: Page) -> list[str]:
    """What is wrong with how this page looks now, in this window."""
    found: list[str] = page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    return found


def violations_of(page: Page) -> list[str]:
    """Which rules of accessibility this page breaks now, and where."""
    package, name = AXE
    page.evaluate(files(package).joinpath(name).read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run()")
    assert found["passes"]
    return [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]
