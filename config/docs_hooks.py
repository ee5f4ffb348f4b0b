"""Hooks of mkdocs: the pages of the lessons, and a search that is not buried under decisions and results."""  # noqa: INP001 - by its path

import json
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

from pykraft.sim.lessons.lesson import find, load_lessons

TITLES_ONLY: Final = ("Start", "Records")
"""Sections of the menu whose pages the search finds by their titles; decisions and notes it does not find at all."""
AFTER_SEARCH: Final = -100


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of each lesson, ``learn/first-election.html`` and so on."""
    for name, lesson in load_lessons().items():
        files.append(File.generated(config, f"learn/{name}.html", content=find(lesson).page()))
    return files


@event_priority(AFTER_SEARCH)
def on_post_build(config: MkDocsConfig) -> None:
    """Take the text of records out of the index that the search plugin has written, and decisions altogether."""
    path = Path(config.site_dir) / "search" / "search_index.json"
    index = json.loads(path.read_text())
    menu = {title: pages for section in config.nav or () for title, pages in section.items()}
    listed = {page for title in TITLES_ONLY for entry in menu[title] for page in entry.values()}
    titles_only = {page.removesuffix("index.md").removesuffix(".md") + "/" * (page != "index.md") for page in listed}
    index["docs"] = [found for each in index["docs"] if (found := searched(each, titles_only)) is not None]
    path.write_text(json.dumps(index, separators=(",", ":")))


def searched(entry: dict[str, str], titles_only: set[str]) -> dict[str, str] | None:
    """What the search knows of a page or of a section, or None."""
    page, _, section = entry["location"].partition("#")
    if page.startswith(("adr/", "notes/")):
        return None
    if page not in titles_only:
        return entry
    return None if section else entry | {"text": ""}
