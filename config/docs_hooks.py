"""Hooks of mkdocs: the pages of the lessons, and a search that is not buried under decisions and results."""  # noqa: INP001 - by its path

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

from pykraft.sim.lessons.lesson import find, load_lessons

NOT_SEARCHED: Final = (
    "adr/",
    "notes/",
    "api/",
    "chaos/",
    "conformance/",
    "demo/",
    "kafka-tests/",
    "performance/",
    "simulation/",
)
"""Pages that are reached by links; the titles of all but decisions and notes stay in the index."""
AFTER_SEARCH: Final = -100


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of each lesson, ``learn/first-election.html`` and so on."""
    for name, lesson in load_lessons().items():
        files.append(File.generated(config, f"learn/{name}.html", content=find(lesson).page()))
    return files


@event_priority(AFTER_SEARCH)
def on_post_build(config: Mapping[str, str]) -> None:
    """Take the text of these pages out of the index that the search plugin has written, and decisions altogether."""
    path = Path(config["site_dir"]) / "search" / "search_index.json"
    index = json.loads(path.read_text())
    index["docs"] = [found for each in index["docs"] if (found := searched(each)) is not None]
    path.write_text(json.dumps(index, separators=(",", ":")))


def searched(entry: dict[str, str]) -> dict[str, str] | None:
    """What the search knows of a page or of a section, or None."""
    page, _, section = entry["location"].partition("#")
    if not page.startswith(NOT_SEARCHED):
        return entry
    return None if section or page.startswith(("adr/", "notes/")) else entry | {"text": ""}
