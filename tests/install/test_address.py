"""The address of the repository is the same everywhere: that of ``project.urls``."""

import re
import tomllib

from tests.tidy.repository import ROOT, files

ADDRESS = re.compile(r"https://(?:github|raw\.githubusercontent)\.com/([\w.-]+/pykraft)\b")


def test_every_link_to_the_repository_has_the_address_of_the_project() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert {name: ADDRESS.match(url) is not None for name, url in urls.items()} == dict.fromkeys(urls, True)
    found = {(file.path, name) for file in files() for name in ADDRESS.findall(file.text)}
    assert {path for path, _ in found} >= {"pyproject.toml", "SECURITY.md", "deploy/pykraft.service"}
    [own] = ADDRESS.findall(urls["Source"])
    assert {each for each in found if each[1] != own} == set()
