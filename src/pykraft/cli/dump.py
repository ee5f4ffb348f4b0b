"""``pykraft dump``: show the content of the files of a log directory, as text like Kafka's tool or as JSON.

Source: Kafka's ``DumpLogSegments`` (kafka-dump-log), whose lines the text repeats field by field.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from pykraft.cli.errors import EXIT_DONE, EXIT_FAILED, exit_code
from pykraft.cli.metadata_values import decoder_option, is_metadata_file, metadata_json, metadata_payload
from pykraft.cli.parsing.value import ExistingPath, json_lines_option
from pykraft.cli.printable import printable
from pykraft.errors import StorageError, UsageError
from pykraft.log.offline.dump import Fact, dump_file
from pykraft.object_storage.files import Files
from pykraft.text.words import counted

_BATCH: Final = (
    "baseOffset: {baseOffset} lastOffset: {lastOffset} count: {count} baseSequence: {baseSequence} "
    "lastSequence: {lastSequence} producerId: {producerId} producerEpoch: {producerEpoch} "
    "partitionLeaderEpoch: {partitionLeaderEpoch} isTransactional: {isTransactional} isControl: {isControl} "
    "deleteHorizonMs: {deleteHorizonMs} position: {position} {timestampType}: {maxTimestamp} size: {size} "
    "magic: {magic} compresscodec: {compresscodec} crc: {crc} isvalid: {isvalid}"
)
_RECORD: Final = (
    "offset: {offset} {timestampType}: {timestamp} keySize: {keySize} valueSize: {valueSize} "
    "sequence: {sequence} headerKeys: [{headerKeys}]"
)
LINES_SIZE_MAX: Final = 64 * 1024
"""Characters that are printed at a time."""
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))


@click.command(short_help="Print log, index, snapshot and metadata files.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=ExistingPath("name files of a partition directory, such as *.log", may_be_uri=True),
    metavar="FILE...",
)
@json_lines_option("for each batch or entry")
@click.option("--deep-iteration", is_flag=True, help="Also print the records of each batch.")
@click.option(
    "--print-data-log", is_flag=True, help="Also print keys and values, in JSON as base64. Implies --deep-iteration."
)
@decoder_option
@click.option("--skip-record-metadata", is_flag=True, help="Print only the keys, values and control records.")
def dump(
    files: tuple[Path, ...],
    *,
    as_json: bool,
    deep_iteration: bool,
    print_data_log: bool,
    decodes: bool | None,
    skip_record_metadata: bool,
) -> None:
    """Print the content of FILES from a log directory, or at URIs such as s3://bucket/…; the node may be running.

    It reads .log, .index, .timeindex, .checkpoint and .snapshot files, leader-epoch-checkpoint, quorum-state,
    quorum-state.check, partition.metadata, meta.properties and recovery-point. For invalid bytes it prints the
    position, what it expected and what it found, and exits with 1. Values of Kafka's metadata log are decoded.
    """
    # As in Kafka's tool, who asks for the decoder wants to see what it decodes.
    print_data_log = print_data_log or decodes is True
    with_records = deep_iteration or print_data_log or skip_record_metadata
    status = EXIT_DONE
    for path in files:
        if not as_json:
            click.echo(f"Dumping {click.format_filename(path)}")
        found = 0
        is_decoded = is_metadata_file(path) if decodes is None else decodes
        view = _Text(with_data=print_data_log, is_decoded=is_decoded, with_metadata=not skip_record_metadata)
        gathered = _Lines()
        try:
            for fact in dump_file(Files(), path, with_records=with_records):
                found += fact.kind == "problem"
                lines = _json_lines(path, fact, with_data=print_data_log, is_decoded=is_decoded)
                for line in lines if as_json else view.lines(path, fact):
                    gathered.add(line)
            gathered.print()
        except (StorageError, UsageError) as error:  # the other files are printed all the same
            gathered.print()
            status = max(status, exit_code(error))
            click.echo(f"pykraft: {error}", err=True)
        if found:
            status = max(status, EXIT_FAILED)
            click.echo(f"pykraft: {path}: {counted(found, 'problem')} found", err=True)
    if status:
        raise SystemExit(status)


class _Lines:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, line: str) -> None:
        """Print this line with the next ones, or now if they are enough."""
        self._lines.append(line)
        self._size += len(line)
        if self._size >= LINES_SIZE_MAX:
            self.print()

    def print(self) -> None:
        if self._lines:
            click.echo("\n".join(self._lines))
            self._lines, self._size = [], 0


class _Text:
    """Renders lines as Kafka prints them, and lines of our own for what Kafka does not print."""

    def __init__(self, *, with_data: bool, is_decoded: bool, with_metadata: bool) -> None:
        self._with_data = with_data
        self._is_decoded = is_decoded
        self._with_metadata = with_metadata

    def lines(self, path: Path, fact: Fact) -> Iterator[str]:
        match fact.kind:
            case "heading":
                yield fact.fields["text"]
            case "batch":
                horizon = fact.fields["deleteHorizonMs"]
                shown = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
                yield _BATCH.format_map(
                    fact.fields
                    | {
                        "deleteHorizonMs": shown,
                        "isTransactional": _WORDS[fact.fields["isTransactional"]],
                        "isControl": _WORDS[fact.fields["isControl"]],
                        "isvalid": _WORDS[fact.fields["isvalid"]],
                    }
                )
                for record in fact.fields.get("records", ()):
                    yield self._record(record, fact.fields["timestampType"])
            case "problem":
                yield "problem at position {position}: expected {expected}, found {found}".format_map(fact.fields)
            case "tail":
                yield f"Found {fact.fields['invalidBytes']} invalid bytes at the end of {path.name}"
            case _:
                yield " ".join(f"{name}: {value}" for name, value in _plain(fact.fields).items())

    def _record(self, record: dict[str, Any], timestamp_type: str) -> str:
        parts = ["|"]
        if self._with_metadata:
            keys = ",".join(map(printable, record["headerKeys"]))
            parts.append(_RECORD.format_map(record | {"headerKeys": keys, "timestampType": timestamp_type}))
        if "control" in record:
            name, body = record["control"]
            colon = ":" if name in ("LeaderChange", "controlType") else ""
            parts.append(f"{name}{colon} {body if isinstance(body, str) else _COMPACT.encode(body)}")
        elif self._with_data:
            values = record if not self._is_decoded else record | {"value": metadata_payload(record["value"])}
            parts += [f"{name}: {printable(values[at])}" for name, at in _DATA if values[at] is not None]
        return " ".join(parts)


_WORDS: Final = ("false", "true")
"""Booleans as Kafka's tool prints them."""
_DATA: Final = (("key", "key"), ("payload", "value"))


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        shown[name] = str(value).lower() if isinstance(value, bool) else "none" if value is None else value
    return shown


def _json_lines(path: Path, fact: Fact, *, with_data: bool, is_decoded: bool) -> Iterator[str]:
    if fact.kind == "heading":
        return
    fields = dict(fact.fields)
    if "records" in fields:
        fields["records"] = [
            _json_record(record, with_data=with_data, is_decoded=is_decoded) for record in fields["records"]
        ]
    yield _COMPACT.encode({"file": str(path), "type": fact.kind, **fields})


def _json_record(record: dict[str, Any], *, with_data: bool, is_decoded: bool) -> dict[str, Any]:
    shown = {name: value for name, value in record.items() if name not in ("key", "value", "control")}
    if "control" in record:
        name, body = record["control"]
        shown["control"] = {name: body}
    elif with_data:
        for name in ("key", "value"):
            data = record[name]
            shown[f"{name}Base64"] = None if data is None else base64.b64encode(data).decode("ascii")
        if is_decoded:
            shown |= metadata_json(record["value"])
    return shown
