"""docs/cli.md lists the keys of each command's ``--json``; they are the keys that come out.

A command that needs processes or Spark is not run: its keys are read from the dict or the dataclass that it prints.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lab.chaos.run import ChaosOutcome
from pykraft.cli.dump import dump
from pykraft.cli.kv.command import get
from pykraft.cli.learn import learn
from pykraft.cli.local import as_json_object
from pykraft.cli.metadata import metadata
from pykraft.cli.quorum.overview import overview_json
from pykraft.cli.sim.run import choose, printed_row
from pykraft.cli.storage import storage
from pykraft.cli.tail import _JsonForm
from pykraft.cli.verify import verify
from pykraft.cli.version import version
from pykraft.client.remote.quorum import verdict_on
from pykraft.protocol.records import Record
from pykraft.server.reload import answer_line
from pykraft.sim.run.campaign import Identity, row_of
from pykraft.types import Offset
from tests.audit.replicas import some_report
from tests.cli.command_tree import leaves
from tests.cli.quorum.test_overview import QUORUM
from tests.cli.sim_worlds import failed, passed
from tests.cli.test_local import quorum
from tests.kv.scripted_node import scripted
from tests.log.data_directory import make_node, segments
from tests.tidy.repository import ROOT

PAGE = ROOT / "docs" / "cli.md"
ROW = re.compile(r"^\| (`[^|]*`) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


def documented() -> dict[str, list[str]]:
    """By command: its keys."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## JSON: --json\n")
    section, _, _ = section.partition("\n## ")
    return {
        command: re.findall(r"`([^`]+)`", keys)
        for commands, _, keys in ROW.findall(section)
        for command in re.findall(r"`([^`]+)`", commands)
    }


def literal(path: str, function: str) -> Iterable[str]:
    """The keys of the dicts in a function, without those within other dicts."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    [body] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]
    dicts = [node for node in ast.walk(body) if isinstance(node, ast.Dict)]
    inner = {each for node in dicts for value in node.values for each in ast.walk(value)}
    keys = [key for node in dicts if node not in inner for key in node.keys]
    return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def attributes(path: str, name: str) -> Iterable[str]:
    """The fields of a dataclass."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    [body] = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    return [
        node.target.id for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def printed(command: click.Command, *words: object) -> dict[str, Any]:
    """The first object that a command prints."""
    found, _ = json.JSONDecoder().raw_decode(CliRunner().invoke(command, [*map(str, words), "--json"]).stdout)
    assert isinstance(found, dict)
    return found


def storage_words(folder: Path) -> list[object]:
    path = folder / "server.properties"
    path.write_text(
        "node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://localhost:9093\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\nlog.dirs={folder}/logs\n"
    )
    return ["--config", path]


def tail_keys(_: Path) -> Iterable[str]:
    record = Record(offset=Offset(1), timestamp_ms=0, sequence=-1, key=b"k", value=b"v", headers=())
    batch: Any = SimpleNamespace(epoch=1, is_control=False)
    return [*json.loads(_JsonForm(decodes=False).of_record(batch, record))]


def kv_get_keys(_: Path) -> Iterable[str]:
    with scripted(lambda path, body: (200, {"revision": 1, "items": [], "more": False})) as node:
        return printed(get, "color", "--url", node.url)


def sim_keys(_: Path) -> Iterable[str]:
    choice = choose(None, ())
    rows = [printed_row(row_of(result, Identity.of(choice.scenario)), choice) for result in (passed(1), failed(2))]
    return [*rows[0], *rows[1]]


def names(kind: Any, *more: str) -> Callable[[Path], Iterable[str]]:
    return lambda _: [*(field.name for field in fields(kind)), *more]


def read(function: Callable[[str, str], Iterable[str]], path: str, name: str) -> Callable[[Path], Iterable[str]]:
    return lambda _: function(path, name)


METADATA = ROOT / "tests" / "golden" / "static" / "disk" / "n1" / "data"
CLI, SPARK = "src/pykraft/cli", "src/pykraft/spark"
KEYS: dict[str, Callable[[Path], Iterable[str]]] = {
    "append": read(literal, f"{CLI}/append/command.py", "_print_committed"),
    "audit": lambda _: [key for row in some_report().rows() for key in row],
    "bench raft": read(literal, "lab/bench/comparison.py", "document_of"),
    "chaos": names(ChaosOutcome, "kinds"),
    "demo": read(literal, "lab/demo/result.py", "as_json"),
    "dump": lambda folder: printed(dump, segments(make_node(folder / "data"))[0]),
    "kv get": kv_get_keys,
    "kv put": read(literal, "src/pykraft/kv/api.py", "_put"),
    "kv del": read(literal, "src/pykraft/kv/api.py", "_delete"),
    "kv watch": read(literal, "src/pykraft/kv/json_form.py", "change_json"),
    "kv lock": read(literal, f"{CLI}/kv/command.py", "lock"),
    "learn": lambda _: printed(learn, "first-election"),
    "local up": lambda folder: as_json_object(quorum(folder)),
    "local status": lambda folder: as_json_object(quorum(folder)),
    "metadata show": lambda _: printed(metadata, "show", METADATA),
    "metadata diff": lambda _: printed(metadata, "diff", METADATA, "--since", 0),
    "metadata history": lambda _: printed(metadata, "history", METADATA),
    "metadata find": lambda _: printed(metadata, "find", "TOPIC_RECORD", METADATA),
    "pipeline report": read(attributes, f"{SPARK}/pipeline/report.py", "PipelineReport"),
    "pipeline run": read(literal, f"{CLI}/pipeline/command.py", "_line"),
    "pipeline status": read(attributes, f"{SPARK}/pipeline/status.py", "PipelineStatus"),
    "pipeline upkeep": read(attributes, f"{SPARK}/pipeline/upkeep.py", "PipelineUpkeep"),
    "quorum add-controller": read(literal, f"{CLI}/quorum/command.py", "add_controller"),
    "quorum describe": lambda _: overview_json(verdict_on(QUORUM), QUORUM),
    "quorum reload": lambda _: json.loads(answer_line(None, [])),
    "quorum remove-controller": read(literal, f"{CLI}/quorum/command.py", "remove_controller"),
    "machine skip": read(literal, f"{CLI}/machine.py", "skip"),
    "quorum transfer": read(literal, f"{CLI}/quorum/command.py", "transfer"),
    "quorum upgrade": read(literal, f"{CLI}/quorum/command.py", "upgrade"),
    "sim mutants": read(literal, "tests/sim/mutants/search.py", "replay"),
    "sim replay": sim_keys,
    "sim report": read(literal, "lab/campaign/page.py", "summary_row"),
    "sim run": sim_keys,
    "storage format": lambda folder: printed(storage, "format", *storage_words(folder), "-t", "A" * 21 + "Q"),
    "storage info": lambda folder: printed(storage, "info", *storage_words(folder)),
    "storage random-uuid": lambda _: printed(storage, "random-uuid"),
    "tail": tail_keys,
    "users list": read(literal, f"{CLI}/users.py", "list_command"),
    "verify": lambda folder: printed(verify, make_node(folder / "data")),
    "version": lambda _: printed(version),
}
ONLY_SOME = {"dump"}
"""Commands whose objects have more keys: Kafka's names, which differ by the kind of file."""
SOMETIMES = {"tail": {"control", "snapshot", "payload", "payloadProblem"}, "sim mutants": {"story", "source"}}
"""Keys that only some objects have, and these do not."""


def test_every_command_with_json_is_in_the_table() -> None:
    having = [name for name, command in leaves() if any(each.name == "as_json" for each in command.params)]
    with_json = {name.removeprefix("pykraft ") for name in having}
    assert documented().keys() == with_json == KEYS.keys()


@pytest.mark.parametrize("command", KEYS)
def test_the_keys_that_come_out_are_the_documented_ones(command: str, tmp_path: Path) -> None:
    found = {*KEYS[command](tmp_path)}
    keys = {*documented()[command]}
    if command in ONLY_SOME:
        assert keys <= found
    else:
        assert keys == found | SOMETIMES.get(command, set())
