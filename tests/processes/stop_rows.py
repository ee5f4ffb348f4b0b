"""The table of commands that `tests.processes.stops` ends: how each is started, and how one sees at which stage it is.

Each command of `pykraft --help` has a row, and so have the scripts in bin. A row has four stages or more: Python
starts, the package loads, and two of its own; `ONE_OF_THEIR_OWN` has the exceptions.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pykraft.local.voters import free_ports, voter_properties, write_properties
from pykraft.server.reload import _address
from pykraft.spark.tables.names import CHECKPOINT
from tests.processes import kv_stop_stages as kv
from tests.processes.stop_stages import (
    Row,
    Running,
    Scene,
    Stage,
    Words,
    loading,
    opens,
    reads,
    stage,
    waits_for_answer,
    writes,
)

LOG = "00000000000000000000.log"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
METADATA = str(Path(__file__).parents[1] / "golden" / "static" / "disk" / "n1" / "data")


def _row(command: str, *stages: Stage, is_spark: bool = False) -> Row:
    return Row(command=command, stages=(*loading(command, stages[-1]), *stages), is_spark=is_spark)


def _plain(*words: str) -> Words:
    return lambda scene, home: words


def _fifo(home: Path, name: str) -> str:
    path = home / name
    path.parent.mkdir(exist_ok=True, parents=True)
    os.mkfifo(path)
    return str(path)


def _config(home: Path, *, voters: int = 1) -> str:
    ports = dict(enumerate(free_ports(voters), start=1))
    return str(write_properties(home / "server.properties", voter_properties(home / "data", node_id=1, ports=ports)))


def _prints(command: str, *words: str) -> Row:
    """A command that only prints: between loading and writing there is nothing, so it has no third stage of its own."""
    return _row(command, writes(_plain(*(words or command.split()))))


def _asks(command: str, words: Words) -> Row:
    return _row(command, *_asking(words))


def _asking(words: Words, verb: Sequence[str] = ("quorum",)) -> tuple[Stage, Stage]:
    def at(address: Callable[[Scene], str]) -> Words:
        return lambda scene, home: [*verb, "--bootstrap-controller", address(scene), *words(scene, home)]

    return (
        stage("finds no leader", at(lambda scene: scene.lonely), tells_why),
        stage("waits", at(lambda scene: scene.silent), waits_for_answer),
    )


def tells_why(running: Running) -> bool:
    return "waiting for a leader" in running.text()


def _formatted(home: Path) -> str:
    config = _config(home)
    (home / "data").mkdir()
    lines = ("version=1", f"cluster.id={CLUSTER_ID}", "node.id=1", f"directory.id={CLUSTER_ID}")
    (home / "data" / "meta.properties").write_text("\n".join(lines) + "\n")
    return config


def _held(scene: Scene, path: str) -> str:
    scene.hold(Path(path))
    return path


def _reload(scene: Scene, home: Path) -> Sequence[str]:
    """The socket of a node that answers nothing; the process of the test keeps it open."""
    del scene
    directory = home / "data"
    directory.mkdir()
    listening = socket.socket(socket.AF_UNIX)
    with _address(directory) as address:
        listening.bind(str(address))
    listening.listen()
    listening.detach()
    return ["quorum", "reload", str(directory)]


def _local(verb: str, *, is_fifo: bool = False) -> Words:
    def words(scene: Scene, home: Path) -> Sequence[str]:
        folder = home / "quorum"
        if is_fifo:
            _fifo(folder, "quorum.json")
        else:
            folder.mkdir()
            ports = dict(enumerate(free_ports(1), start=1))
            (folder / "quorum.json").write_text(json.dumps({"version": 1, "clusterId": CLUSTER_ID, "ports": ports}))
        return ["local", verb, "--dir", str(folder)]

    return words


def _up(scene: Scene, home: Path) -> Sequence[str]:
    return ["local", "up", "--dir", str(home / "new" / "quorum")]


def _many_nodes(count: int) -> Callable[[Running], bool]:
    return lambda running: running.count() >= count


def _logs_hold(size_bytes: int) -> Callable[[Running], bool]:
    def hold(running: Running) -> bool:
        with suppress(OSError):  # folders come and go
            return any(path.stat().st_size >= size_bytes for path in running.home.rglob("[0-9]*.log"))
        return False

    return hold


def _runs_nodes(command: str, *words: str, nodes: int = 3) -> Row:
    stages = (
        stage("works", _plain(*words), _logs_hold(10_000), is_progress=_any_line),
        stage("starts nodes", _plain(*words), _many_nodes(2 + nodes), is_progress=_any_line),
    )
    return _row(command, *stages)


def _server_stages(script: str | None) -> tuple[Stage, ...]:
    """Starts; elects while the others are down; serves."""

    def words(config: str) -> list[str]:
        return [script, "--config", config] if script else ["server", "--config", config]

    serves = Stage(
        name="serves",
        words=lambda scene, home: words(_config(home)),
        is_reached=lambda running: " serves " in running.text(),
        is_graceful=True,
        leaves_files=True,
    )
    elects = Stage(
        name="elects",
        words=lambda scene, home: words(_config(home, voters=3)),
        is_reached=serves.is_reached,
        is_graceful=True,
        leaves_files=True,
        may_take_s=5.0,  # it waits for a leader, as Kafka does; docs/server.md has it
    )
    return (*loading(script or "server", serves), elects, serves)


def _follow(scene: Scene, home: Path) -> Sequence[str]:
    return ["tail", "--bootstrap-controller", scene.live, "--follow"]


def _watch(scene: Scene, home: Path) -> Sequence[str]:
    return ["quorum", "--bootstrap-controller", scene.live, "describe", "--watch"]


def _metadata(*words: str) -> Row:
    return _row(
        f"metadata {words[0]}",
        stage(
            "waits", lambda scene, home: ["metadata", *words, "--bootstrap-controller", scene.silent], waits_for_answer
        ),
        writes(lambda scene, home: ["metadata", *words, METADATA]),
    )


def _tables(verb: str) -> Words:
    return lambda scene, home: ["pipeline", verb, "--tables", str(scene.tables(home))]


def _unread_tables(scene: Scene, home: Path) -> Sequence[str]:
    folder = scene.tables(home)
    newest = max((folder / CHECKPOINT / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    _held(scene, _fifo(newest.parent, newest.name))
    return ["pipeline", "status", "--tables", str(folder)]


def _pipeline(scene: Scene, home: Path) -> Sequence[str]:
    return ["pipeline", "run", "--follow", "--tables", str(home / "tables"), "--bootstrap-controller", scene.live]


def _any_line(line: str) -> bool:
    return not any(word in line for word in ("Traceback", "Error", "Exception", 'File "'))


def _append(address: Callable[[Scene], str]) -> Words:
    return lambda scene, home: ["append", "--bootstrap-controller", address(scene)]


def _tail(scene: Scene, home: Path) -> Sequence[str]:
    return ["tail", "--bootstrap-controller", scene.silent]


def _typed(line: str) -> bool:
    return "Type a record" in line or line.strip() == "one"


def _package(scene: Scene, home: Path) -> Sequence[str]:
    return ["pipeline", "package", str(home / "package.zip")]


def _draft(running: Running) -> Iterator[Path]:
    return running.home.glob(".package.zip.*")


def _demo(command: str) -> Row:
    stages = (
        stage("starts nodes", _plain(command), _many_nodes(4), is_progress=_any_line),
        stage("works", _plain(command), lambda running: "acknowledged" in running.text(), is_progress=_any_line),
        stage("starts Spark", _plain(command), _many_nodes(6), is_progress=_any_line),
    )
    return _row(command, *stages, is_spark=True)


ONE_OF_THEIR_OWN = {
    "bin/pykraft": "it has become `pykraft version` by then; before that it has a stage as a script",
    "learn": "it runs a world in a fraction of a second, and then prints or writes it at once",
    "new": "it writes ten small files in milliseconds, and no file twice",
    "certs": "it makes a few keys in milliseconds, and writes no file twice",
    "completion": "it prints a text that it has when it is loaded",
    "pipeline upkeep": "what it merges takes seconds; `tests/spark/tables/test_delta_upkeep.py` kills it in between",
    "quorum reload": "it asks a node on this machine once, and prints a few lines",
    "storage random-uuid": "it prints 22 characters",
    "users add": "it reads one line and replaces a small file",
    "users list": "it prints a few lines",
    "users remove": "it replaces a small file",
    "version": "it prints what it has when it is loaded",
}
"""Commands that do one thing after they are loaded, and why there is no moment before or after it."""

ON_DISKS = "full-disk,full-snapshots,power-cut,power-cut-all"
"""Faults for which nodes keep their logs where only they see them."""
BENCH = ("--dir", ".")
SIM_RUN = ("sim", "run", "--seeds", "1000", "--workers", "2")

ROWS: tuple[Row, ...] = (
    _row(
        "append",
        writes(_append(lambda scene: scene.live), typed=b"one\n", is_progress=_typed),
        stage(
            "reads",
            _append(lambda scene: scene.live),
            lambda running: "offset" in running.output() and running.waits_in("poll"),
            typed=b"one\n",
            is_progress=_typed,
        ),
        stage("waits", _append(lambda scene: scene.silent), waits_for_answer, is_progress=_typed),
    ),
    _row(
        "audit",
        opens(lambda scene, home: ["audit", str(scene.live_data), "--journal", _fifo(home, "journal.jsonl")]),
        stage(
            "asks Spark",
            lambda scene, home: ["audit", str(scene.live_data), "--master", "local[*]"],
            _many_nodes(3),
            is_progress=_any_line,
        ),
        is_spark=True,
    ),
    _runs_nodes("bench raft", "bench", "raft", "--peer", "none", *BENCH),
    _row("learn", writes(_plain("learn", "killed-leader"))),
    _row("new", writes(lambda scene, home: ["new", "shop", "--folder", str(home / "shop")], leaves_files=True)),
    _row("certs", writes(lambda scene, home: ["certs", "--folder", str(home / "certs"), "n1"], leaves_files=True)),
    _runs_nodes("chaos", "chaos", "--minutes", "1", "--without", ON_DISKS, *BENCH),
    _prints("completion", "completion", "bash"),
    _row(
        "dump",
        writes(lambda scene, home: ["dump", str(next(scene.live_data.rglob(LOG)))]),
        opens(lambda scene, home: ["dump", _fifo(home, LOG)]),
    ),
    Row(command="kv serve", stages=kv.serving(lambda home, voters: _config(home, voters=voters))),
    _row("kv get", *kv.asking("get", "color")),
    _row("kv put", *kv.asking("put", "color", "red")),
    _row("kv del", *kv.asking("del", "color")),
    _row("kv watch", *kv.asking("watch", "color")),
    _row("kv lock", *kv.asking("lock", "tool", "--", "true")),
    _row(
        "local up",
        writes(_up, is_progress=_any_line),
        stage("begins", _up, lambda running: (running.home / "new" / "quorum" / "lock").exists()),
        stage("works", _up, _many_nodes(4), is_progress=_any_line),
    ),
    _row("local status", opens(_local("status", is_fifo=True)), writes(_local("status"))),
    _row("local down", opens(_local("down", is_fifo=True)), writes(_local("down"), leaves_files=True)),
    _row("machine skip", *_asking(_plain("--offset", "4"), ("machine", "skip"))),
    _row(
        "pipeline package",
        stage("goes on", _package, lambda running: any(path.stat().st_size > 100_000 for path in _draft(running))),
        stage("begins", _package, lambda running: any(_draft(running))),
    ),
    _asks("quorum add-controller", lambda scene, home: ["add-controller", "--command-config", _formatted(home)]),
    _row(
        "quorum describe",
        *_asking(_plain("describe")),
        stage("watches", _watch, lambda running: "healthy" in running.output() and running.waits_in("poll")),
    ),
    _row("quorum reload", stage("waits", _reload, waits_for_answer)),
    _asks("quorum remove-controller", _plain("remove-controller", "-i", "1", "-d", CLUSTER_ID)),
    _asks("quorum transfer", _plain("transfer", "--to", "1")),
    _asks("quorum upgrade", _plain("upgrade", "--feature", "kraft.version=1")),
    Row(command="server", stages=_server_stages(None)),
    _row(
        "sim mutants",
        stage("tells", _plain("sim", "mutants", "--json"), lambda running: "{" in running.output()),
        stage("works", _plain("sim", "mutants", "--seeds", "0:1000", "--workers", "2"), _many_nodes(4)),
    ),
    _row(
        "sim replay",
        opens(lambda scene, home: ["sim", "replay", "--seed", "1", "--scenario", _fifo(home, "scenario.toml")]),
        writes(_plain("sim", "replay", "--seed", "1")),
    ),
    _row(
        "sim report",
        reads(lambda scene, home: ["sim", "report", _held(scene, _fifo(home, "rows"))]),
        opens(lambda scene, home: ["sim", "report", _fifo(home, "rows")]),
    ),
    _row(
        "sim run",
        stage("works", _plain(*SIM_RUN, "--json"), lambda running: '"seed"' in running.output()),
        stage("begins", _plain(*SIM_RUN), _many_nodes(4), is_progress=lambda line: "seeds" in line or "0/1000" in line),
    ),
    _row(
        "storage format",
        writes(lambda scene, home: ["storage", "format", "-c", _config(home), "-t", CLUSTER_ID], leaves_files=True),
        reads(lambda scene, home: ["storage", "format", "-c", _held(scene, _fifo(home, "p")), "-t", CLUSTER_ID]),
        opens(lambda scene, home: ["storage", "format", "-c", _fifo(home, "p"), "-t", CLUSTER_ID]),
    ),
    _row(
        "storage info",
        writes(lambda scene, home: ["storage", "info", "-c", _formatted(home)]),
        opens(lambda scene, home: ["storage", "info", "-c", _fifo(home, "p")]),
    ),
    _prints("storage random-uuid"),
    _row("tail", stage("waits", _tail, waits_for_answer), stage("follows", _follow, waits_for_answer)),
    _row("users add", opens(lambda scene, home: ["users", "add", "--file", _fifo(home, "users"), "a"])),
    _row("users list", opens(lambda scene, home: ["users", "list", "--file", _fifo(home, "users")])),
    _row("users remove", opens(lambda scene, home: ["users", "remove", "--file", _fifo(home, "users"), "a"])),
    _row(
        "verify",
        writes(lambda scene, home: ["verify", str(scene.live_data)]),
        opens(lambda scene, home: ["verify", str(Path(_fifo(home, f"logs/{LOG}")).parent)]),
    ),
    _prints("version"),
    _prints("bin/pykraft", "bin/pykraft", "version"),
    Row(command="bin/test-kraft-server-start.sh", stages=_server_stages("bin/test-kraft-server-start.sh")),
    Row(command="bin/test-raft-server-start.sh", stages=_server_stages("bin/test-raft-server-start.sh")),
    _demo("demo"),
    _demo("bin/demo"),
    _row(
        "pipeline run",
        stage("starts Spark", _pipeline, _many_nodes(3), leaves_files=True, is_progress=_any_line),
        stage(
            "works",
            _pipeline,
            lambda running: any((running.home / "tables").glob("*")),
            leaves_files=True,
            is_progress=_any_line,
        ),
        is_spark=True,
    ),
    _metadata("show"),
    _metadata("diff", "--since", "0"),
    _metadata("history"),
    _metadata("find", "record"),
    _row(
        "pipeline report",
        writes(_tables("report"), leaves_files=True, is_progress=_any_line),
        stage("asks Spark", _tables("report"), _many_nodes(3), leaves_files=True, is_progress=_any_line),
        is_spark=True,
    ),
    _row("pipeline upkeep", writes(_tables("upkeep"), leaves_files=True), is_spark=True),
    _row("pipeline status", reads(_unread_tables), writes(_tables("status")), is_spark=True),
)


def row_of(command: str) -> Row:
    """The row of this command. Errors: KeyError."""
    return {row.command: row for row in ROWS}[command]
