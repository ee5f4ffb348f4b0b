"""What all HTML pages share: one frame, one style sheet, and templates in which ``@name@`` becomes a part.

A page is one file: ``frame.html`` around the page's own body, and in it the shared style sheet ``common.css``, which
defines all colors for light and dark screens, followed by the page's own rules. Invariant: a part is inserted as it is
and never searched for names, so text of a run that contains ``@name@`` stays text. The caller escapes it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PLACE: Final = re.compile(r"@([a-z]+)@")
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the browser lets a page do: it asks no server for anything."""
SCRIPT_POLICY: Final = "; script-src 'unsafe-inline'"


def render_page(folder: Path, parts: Mapping[str, str], *, has_script: bool = False) -> str:
    """The page of ``body.html`` and ``page.css`` in this folder; ``title`` among the parts is its title, too.

    Errors: KeyError for a place without a part, which is a bug of the page.
    """
    frame = {
        "policy": POLICY + SCRIPT_POLICY * has_script,
        "title": parts["title"],
        "style": _text(HERE / "common.css") + _text(folder / "page.css"),
        "body": _fill(_text(folder / "body.html"), parts),
    }
    return _fill(_text(HERE / "frame.html"), frame)


def _fill(template: str, parts: Mapping[str, str]) -> str:
    return PLACE.sub(lambda match: parts[match[1]], template)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
