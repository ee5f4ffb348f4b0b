"""Generates ``pykraft/protocol/metadata/tables.py`` from the schemas in a jar of Kafka.

    python -m tests.protocol.metadata.generate kafka-metadata-4.4.0.jar > src/pykraft/protocol/metadata/tables.py

The jar is the plain one, as Maven gets it: it has the definitions that Kafka generates its own classes from. The tables
keep what is needed for reading: names, kinds, versions, defaults, tags. Invariant: a property of a definition
that the tables cannot express is an error, so nothing is lost silently when Kafka adds something new.

Source: the README of Kafka's message definitions (clients ``common/message``).
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, Final

from pykraft.protocol.schema import Versions, camel_case, snake_case

FOLDER: Final = "common/metadata/"
KINDS: Final = {
    "bool": "BOOL",
    "bytes": "BYTES",
    "float64": "FLOAT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "string": "STRING",
    "uint16": "UINT16",
    "uuid": "UUID",
}
EXPRESSED: Final = {"name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "fields"}
WITHOUT_EFFECT: Final = {"about", "entityType", "mapKey", "ignorable"}
"""Properties that change nothing on the wire of a version, or only what is written."""

HEAD: Final = '''"""The records of Kafka's metadata log, by the number of their type. Generated; do not edit.

``python -m tests.protocol.metadata.generate JAR`` makes this file from Kafka {version}'s own definitions.

Source: Kafka {version}, metadata ``common/metadata/*.json``.
"""

from typing import Final

from pykraft.protocol.schema import (
    {kinds},
    Array,
    Field,
    Message,
    array_of,
)

KAFKA_VERSION: Final = "{version}"
ELEMENTS_MAX: Final = 10_000
"""Most structs in a list: endpoints, features, or the parts of a quota's entity. Kafka writes a handful."""

# fmt: off
TABLES: Final[dict[int, Message]] = {{
'''
UNBROKEN: Final = "\0"
"""In place of a space within a field."""
FILL: Final = TextWrapper(
    120, initial_indent="    ", subsequent_indent=" " * 8, break_on_hyphens=False, break_long_words=False
)


class UnknownDefinitionError(Exception):
    """A definition says something that our tables cannot express."""


def definitions(jar: Path) -> list[dict[str, Any]]:
    """The definitions in this jar, by the number of their type."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith(FOLDER) and name.endswith(".json")]
        texts = [archive.read(name).decode() for name in names]
    found = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return sorted(found, key=lambda one: int(one["apiKey"]))


def source_of(jar: Path) -> str:
    """The module for this jar. Errors: UnknownDefinitionError."""
    version = re.fullmatch(r"kafka-metadata-(.+)\.jar", jar.name)
    if version is None:
        raise UnknownDefinitionError(f"{jar}: its name does not say the version, as kafka-metadata-4.4.0.jar does")
    body = "".join(_message(one) for one in definitions(jar))
    used = [kind for kind in KINDS.values() if re.search(rf"\b{kind}\b", body)]
    head = HEAD.format(version=version[1], kinds=",\n    ".join(used))
    return f"{head}{body}}}\n"


def _message(one: dict[str, Any]) -> str:
    if one["type"] != "metadata" or one["flexibleVersions"] != "0+":
        raise UnknownDefinitionError(f"{one['name']}: it is not a flexible metadata record")
    parts = [*map(json.dumps, (one["name"], one["validVersions"], "0+")), *map(_field, one["fields"])]
    return FILL.fill(f"{one['apiKey']}: Message.of({', '.join(parts)}),").replace(UNBROKEN, " ") + "\n"


def _field(one: dict[str, Any]) -> str:
    name = snake_case(one["name"])
    if unknown := one.keys() - EXPRESSED - WITHOUT_EFFECT:
        raise UnknownDefinitionError(f"{name}: unknown properties {sorted(unknown)}")
    if camel_case(name) != one["name"][0].lower() + one["name"][1:]:
        raise UnknownDefinitionError(f"{name} is not the name that {one['name']} has in JSON")
    options = list(_options(one, name))
    if "fields" in one:
        parts = [json.dumps(name), *map(_field, one["fields"]), *options, "count_max=ELEMENTS_MAX"]
        return f"array_of({', '.join(parts)})"
    of = one["type"].removeprefix("[]")
    kind = KINDS[of] if of == one["type"] else f"Array({KINDS[of]})"
    return f"Field({', '.join([json.dumps(name), kind, *options])})".replace(" ", UNBROKEN)


def _options(one: dict[str, Any], name: str) -> Iterator[str]:
    """The keywords of a field. Errors: UnknownDefinitionError for versions that a field of ours cannot have."""
    present = Versions.parse(one["versions"])
    for each in ("nullableVersions", "taggedVersions"):
        if each in one and Versions.parse(one[each]) != present:
            raise UnknownDefinitionError(f"{name}: {each} differs from its versions")
    if one["versions"] != "0+":
        yield f"versions={json.dumps(one['versions'])}"
    if "default" in one:
        yield f"default={_default(one)}"
    if "nullableVersions" in one:
        yield "nullable=True"
    if "tag" in one:
        yield f"tag={one['tag']}"


def _default(one: dict[str, Any]) -> object:
    text = str(one["default"])
    if text == "null":
        return None
    match one["type"]:
        case "bool":
            return {"true": True, "false": False}[text.lower()]
        case "string":
            return json.dumps(text)
        case _:
            return int(text)


if __name__ == "__main__":
    print(source_of(Path(sys.argv[1])), end="")
