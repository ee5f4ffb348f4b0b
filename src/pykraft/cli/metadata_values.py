"""How commands show the values of Kafka's metadata log: decoded, and bytes with a note where that cannot be done.

JSON has the whole record, as kafka-dump-log prints it, beside the bytes; text is for people and has no secrets.
Invariant: no value of a log makes a command fail.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from pykraft.cli.printable import printable
from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import ProtocolError, UsageError
from pykraft.protocol.metadata.record import (
    MetadataRecord,
    metadata_tables,
    one_line,
    read_metadata_record,
    without_secrets,
)
from pykraft.text.words import did_you_mean
from pykraft.types import Buffer

_FOLDER: Final = re.compile(rf"{METADATA_TOPIC_NAME}-[0-9]+(\..*)?")
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)

decoder_option = click.option(
    "--cluster-metadata-decoder/--no-cluster-metadata-decoder",
    "decodes",
    default=None,
    help=f"Whether to decode values as records of Kafka's controllers; by default only those of {METADATA_TOPIC_NAME}.",
)


def is_metadata_file(path: Path) -> bool:
    """Whether this is a file of Kafka's metadata log: one in its folder, or the records with which a node begins."""
    return path.name.startswith(_BOOTSTRAP) or _FOLDER.fullmatch(path.absolute().parent.name) is not None


def metadata_json(value: Buffer | None) -> dict[str, Any]:
    """``payload``, as kafka-dump-log has it, or ``payloadProblem``: why there is none."""
    record = _read(value)
    return {"payload": record.json()} if isinstance(record, MetadataRecord) else {"payloadProblem": record}


def metadata_type(value: Buffer | None) -> str | None:
    """Kafka's name of the record's type; None for what cannot be read, which is always shown."""
    record = _read(value)
    return record.type if isinstance(record, MetadataRecord) else None


def known_types(option: str, names: Sequence[str]) -> frozenset[str]:
    """Names of types as an option gives them, in whatever case; an empty one is none. Errors: UsageError."""
    found = frozenset(name.upper() for name in names if name)
    for name in sorted(found - metadata_tables().keys()):
        raise UsageError(f"{option} {name}: Kafka has no such type{did_you_mean(name, metadata_tables())}")
    return found


def metadata_text(value: Buffer | None) -> str:
    """Type and fields on one line, for a terminal."""
    record = _read(value)
    return printable(one_line(record)) if isinstance(record, MetadataRecord) else _unread(value, record)


def metadata_payload(value: Buffer | None) -> str:
    """What kafka-dump-log prints after ``payload:``, without secrets, for a terminal."""
    record = _read(value)
    if isinstance(record, MetadataRecord):
        return printable(_COMPACT.encode(without_secrets(record).json()))
    return _unread(value, record)


def _read(value: Buffer | None) -> MetadataRecord | str:
    """The record, or why it cannot be read."""
    try:
        return read_metadata_record(value)
    except ProtocolError as error:
        return str(error)


def _unread(value: Buffer | None, problem: str) -> str:
    shown = "null" if value is None else printable(value)
    return f"{shown} ({problem})"
