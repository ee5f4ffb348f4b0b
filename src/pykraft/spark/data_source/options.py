"""The options of the source ``pykraft``: texts in, one checked value out.

| option | meaning |
|---|---|
| path, paths | partition directories, segment files or globs: a comma list, or a JSON array (`load` of a list) |
| bootstrap.controllers | instead of a path: nodes of a live quorum, ``host:port,…``; read up to the high watermark |
| rows | ``records`` (default) or ``batches`` |
| startingOffsets, endingOffsets | ``earliest``, ``latest``, an offset, or by replica ``{"n1": 5}``; ends excluded |
| startingTimestamp, endingTimestamp | wall ms: from, and up to, the first record that is not older |
| maxRecordsPerTrigger, maxBytesPerTrigger | limit of a micro-batch of a stream, which has at least one batch |
| corrupt | ``fail`` (default) or ``mark``: damage becomes a row that describes it, and reading continues after it |

Names are those of Spark's Kafka source where it has them; as everywhere in Spark, case does not matter.
Invariant: the parsed options do not contradict each other.

Source: Spark's Kafka integration guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from pykraft.errors import UsageError
from pykraft.types import Endpoint, Offset

NEAR = 0.7
"""Similarity, from 0 to 1, from which an unknown name counts as a misspelling."""
OFFSET_TEXT = re.compile(r"[0-9]{1,19}")
SERVER = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\s:\[\]/@,]+)):(?P<port>[0-9]{1,5})")
KNOWN = (
    "path",
    "paths",
    "bootstrap.controllers",
    "rows",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "corrupt",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where reading starts or ends: at an offset, which may differ by replica, at a time, or at the default."""

    offset: Offset | None = None
    by_replica: tuple[tuple[str, Offset], ...] = ()
    timestamp_ms: int | None = None
    is_latest: bool = False

    def offset_of(self, replica: str | None) -> Offset | None:
        """The offset for this replica, if one was given."""
        return dict(self.by_replica).get(replica or "", self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options. Exactly one of ``patterns`` and ``controllers`` is not empty."""

    patterns: tuple[str, ...]
    controllers: tuple[Endpoint, ...]
    rows: str
    start: Bound
    end: Bound
    records_per_trigger: int | None
    size_bytes_per_trigger: int | None
    tolerant: bool


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Check and convert. Errors: UsageError that names the option, its value and what is allowed."""
    _refuse_misspelled(options)
    read = _Reader({name.lower(): value for name, value in options.items()})
    patterns, controllers = read.patterns(), read.controllers()
    if bool(patterns) == bool(controllers):
        raise UsageError(
            'the source pykraft needs either .option("path", …), partition directories or globs of them, or '
            '.option("bootstrap.controllers", "host:port,…"), nodes of a live quorum'
        )
    return SourceOptions(
        patterns=patterns,
        controllers=controllers,
        rows=read.choice("rows", ("records", "batches")),
        start=read.bound("starting"),
        end=read.bound("ending"),
        records_per_trigger=read.number("maxRecordsPerTrigger", least=1),
        size_bytes_per_trigger=read.number("maxBytesPerTrigger", least=1),
        tolerant=read.choice("corrupt", ("fail", "mark")) == "mark",
    )


def _refuse_misspelled(options: Mapping[str, str]) -> None:
    """Reject an unknown option whose name is close to one of ours; Spark lets sources ignore unknown options."""
    known = {name.lower(): name for name in KNOWN}
    for given in options:
        near = get_close_matches(given.lower(), known, n=1, cutoff=NEAR) if given.lower() not in known else []
        if near:
            raise UsageError(f"there is no option {given}; did you mean {known[near[0]]}?")


class _Reader:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        return self._given.get(name.lower(), "").strip()

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name).lower() or allowed[0]
        if value not in allowed:
            raise _wrong(name, value, f"one of {', '.join(allowed)}")
        return value

    def number(self, name: str, *, least: int) -> int | None:
        value = self.text(name)
        if not value:
            return None
        if not OFFSET_TEXT.fullmatch(value) or int(value) < least:
            raise _wrong(name, value, f"a whole number, at least {least}")
        return int(value)

    def patterns(self) -> tuple[str, ...]:
        patterns = [part.strip() for part in self.text("path").split(",")]
        paths = self.text("paths")
        if paths:
            listed = _json(paths)
            if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
                raise _wrong("paths", paths, 'a JSON array of texts such as ["a", "b"]')
            patterns += listed
        return tuple(pattern for pattern in patterns if pattern)

    def controllers(self) -> tuple[Endpoint, ...]:
        name = "bootstrap.controllers"
        found = []
        for item in filter(None, (part.strip() for part in self.text(name).split(","))):
            match = SERVER.fullmatch(item)
            endpoint = (
                Endpoint("", 0) if match is None else Endpoint(match["ipv6"] or match["host"], int(match["port"]))
            )
            if not endpoint.can_be_dialed:
                raise _wrong(name, item, "host:port,…")
            found.append(endpoint)
        return tuple(found)

    def bound(self, prefix: str) -> Bound:
        name, time_name = f"{prefix}Offsets", f"{prefix}Timestamp"
        value, timestamp_ms = self.text(name), self.number(time_name, least=0)
        if value and timestamp_ms is not None:
            raise UsageError(f"give the option {name} or {time_name}, not both")
        match value.lower():
            case "":
                return Bound(timestamp_ms=timestamp_ms)
            case "earliest" if prefix == "starting":
                return Bound()
            case "latest":
                return Bound(is_latest=True)
        if OFFSET_TEXT.fullmatch(value):
            return Bound(offset=Offset(int(value)))
        listed = _json(value)
        allowed = "earliest, latest, an offset, or JSON of offsets by replica"
        if not isinstance(listed, dict) or not all(type(each) is int and each >= 0 for each in listed.values()):
            raise _wrong(name, value, allowed if prefix == "starting" else allowed.removeprefix("earliest, "))
        return Bound(by_replica=tuple((replica, Offset(offset)) for replica, offset in sorted(listed.items())))


def _json(text: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError:
        return None
    return found


def _wrong(name: str, value: str, allowed: str) -> UsageError:
    return UsageError(f"the option {name} = {value!r}: it must be {allowed}")
