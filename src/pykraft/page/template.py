"""Fills the template of a page: each ``@name@`` becomes the part of that name.

A page is one file: its style is the shared sheet ``common.css``, which defines all colors for light and dark screens,
followed by the page's own rules. Invariant: a part is inserted as it is and never searched for names, so text of a run
that contains ``@name@`` stays text. The caller escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

COMMON = Path(__file__).parent / "common.css"
PLACE = re.compile(r"@([a-z]+)@")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """The template with every place filled. Errors: KeyError for a place without a part, which is a bug of the page."""
    return PLACE.sub(lambda match: parts[match[1]], template)


def style(own: Path) -> str:
    """The shared style sheet, then the page's own."""
    return COMMON.read_text(encoding="utf-8") + own.read_text(encoding="utf-8")
