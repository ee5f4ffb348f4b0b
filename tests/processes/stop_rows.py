"""The table of commands that `tests.processes.stops` ends: how each is started, and how one sees at which stage it is.

Each command of `pykraft --help` has a row, and so have the scripts in bin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pykraft.local.ports import free_ports
from pykraft.local.voters import voter_properties, write_properties
from tests.processes.stop_stages import Row, Running, Scene, Stage, nothing

LOG = "00000000000000000000.log"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


Words = Callable[[Scene, Path], Sequence[str]]


def waits_for_writer(running: Running) -> bool:
    """It opens a fifo that nobody writes to."""
    return running.waits_in("wait_for_partner")


def waits_for_answer(running: Running) -> bool:
    """It waits in its loop. While it imports, it does not."""
    return running.waits_in("poll")


def waits_for_reader(running: Running) -> bool:
    """It writes to a full pipe."""
    return running.waits_in("pipe_write")


def _row(  # noqa: PLR0913 - all by name
    command: str,
    words: Words,
    is_reached: Callable[[Running], bool],
    *more: Stage,
    name: str = "waits",
    is_blocked: bool = False,
    is_graceful: bool = False,
    leaves_files: bool = False,
    is_spark: bool = False,
    is_progress: Callable[[str], bool] = nothing,
) -> Row:
    start = Stage(
        name="start",
        words=words,
        is_reached=None,
        is_blocked=is_blocked,
        is_told=False,
        leaves_files=leaves_files,
        is_progress=is_progress,
    )
    stage = Stage(
        name=name,
        words=words,
        is_reached=is_reached,
        is_blocked=is_blocked,
        is_graceful=is_graceful,
        leaves_files=leaves_files,
        is_progress=is_progress,
    )
    return Row(command=command, stages=(start, *more, stage), is_spark=is_spark)


def _plain(*words: str) -> Words:
    return lambda scene, home: words


def _fifo(home: Path, name: str) -> str:
    path = home / name
    path.parent.mkdir(exist_ok=True, parents=True)
    os.mkfifo(path)
    return str(path)


def _config(home: Path, *, voters: int = 1) -> str:
    """The properties of node 1, whose other voters are down."""
    ports = dict(enumerate(free_ports(voters), start=1))
    return str(write_properties(home / "server.properties", voter_properties(home / "data", node_id=1, ports=ports)))


def _prints(command: str, words: Words) -> Row:
    """A command that is over in no time, unless nobody reads what it prints."""
    return _row(command, words, waits_for_reader, name="writes", is_blocked=True)


def _asks(command: str, *words: str) -> Row:
    """A command that waits for the answer of a quorum."""
    return _row(
        command,
        lambda scene, home: ["quorum", "--bootstrap-controller", scene.silent, *words],
        waits_for_answer,
        is_progress=_says_why,
    )


def _says_why(line: str) -> bool:
    """What a command says on a terminal while it waits for a leader."""
    return "leader" in line or "waiting" in line


def _formatted(home: Path) -> str:
    """The properties of a node with a formatted directory."""
    config = _config(home)
    (home / "data").mkdir()
    lines = ("version=1", f"cluster.id={CLUSTER_ID}", "node.id=1", f"directory.id={CLUSTER_ID}")
    (home / "data" / "meta.properties").write_text("\n".join(lines) + "\n")
    return config


def _local_folder(home: Path, *, nodes: int) -> Path:
    folder = home / "quorum"
    folder.mkdir()
    ports = dict(enumerate(free_ports(nodes), start=1))
    (folder / "quorum.json").write_text(json.dumps({"version": 1, "clusterId": CLUSTER_ID, "ports": ports}))
    return folder


def _many_nodes(count: int) -> Callable[[Running], bool]:
    return lambda running: running.count() >= count


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
    start = Stage(
        name="start",
        words=serves.words,
        is_reached=None,
        is_told=False,
        leaves_files=True,
    )
    return (start, elects, serves)


def _follow(scene: Scene, home: Path) -> Sequence[str]:
    return ["tail", "--bootstrap-controller", scene.live, "--follow"]


def _watch(scene: Scene, home: Path) -> Sequence[str]:
    return ["quorum", "--bootstrap-controller", scene.live, "describe", "--watch"]


def _tables(*words: str) -> Words:
    return lambda scene, home: ["pipeline", *words, "--tables", str(home / "tables")]


def _pipeline(scene: Scene, home: Path) -> Sequence[str]:
    return ["pipeline", "run", "--follow", "--tables", str(home / "tables"), "--bootstrap-controller", scene.live]


def _any_line(line: str) -> bool:
    """Progress of commands that tell what they do."""
    return not any(word in line for word in ("Traceback", "Error", "Exception", 'File "'))


WAITING_TAIL = Stage(
    name="waits",
    words=lambda scene, home: ["tail", "--bootstrap-controller", scene.silent],
    is_reached=waits_for_answer,
    is_progress=_says_why,
)
BENCH = ("--dir", ".")

APPEND = Stage(
    name="waits",
    words=lambda scene, home: ["append", "--bootstrap-controller", scene.silent],
    is_reached=waits_for_answer,
    is_progress=lambda line: _says_why(line) or "Type a record" in line,
    other_status=1,  # its input ends with the terminal, which it may notice before the signal
)

ROWS: tuple[Row, ...] = (
    Row(command="append", stages=(APPEND,)),
    _row("bench join", _plain("bench", "join", *BENCH), _many_nodes(4), name="works", is_progress=_any_line),
    _row("bench transfer", _plain("bench", "transfer", *BENCH), _many_nodes(5), name="works", is_progress=_any_line),
    _row(
        "bench raft",
        _plain("bench", "raft", "--peer", "none", *BENCH),
        _many_nodes(5),
        name="works",
        is_progress=_any_line,
    ),
    _row(
        "chaos",
        _plain("chaos", "--minutes", "1", "--without", "full-disk", *BENCH),
        _many_nodes(5),
        name="works",
        is_progress=_any_line,
    ),
    _prints("completion", _plain("completion", "bash")),
    _row("dump", lambda scene, home: ["dump", _fifo(home, LOG)], waits_for_writer),
    _row(
        "local up",
        lambda scene, home: ["local", "up", "--dir", str(_local_folder(home, nodes=3))],
        _many_nodes(3),
        name="works",
        leaves_files=True,
        is_progress=_any_line,
    ),
    _prints("local status", lambda scene, home: ["local", "status", "--dir", str(_local_folder(home, nodes=1))]),
    _row(
        "local down",
        lambda scene, home: ["local", "down", "--dir", str(_local_folder(home, nodes=1))],
        waits_for_reader,
        name="writes",
        is_blocked=True,
        leaves_files=True,
    ),
    _row(
        "pipeline package",
        lambda scene, home: ["pipeline", "package", str(home / "package.zip")],
        lambda running: any(running.home.glob(".package.zip.*")),
        name="works",
    ),
    _row(
        "quorum add-controller",
        lambda scene, home: [
            *("quorum", "--bootstrap-controller", scene.silent, "add-controller", "--command-config", _formatted(home))
        ],
        waits_for_answer,
        is_progress=_says_why,
    ),
    _row(
        "quorum describe",
        _watch,
        lambda running: "healthy" in running.output() and running.waits_in("poll"),
        *_asks("", "describe").stages[1:],
        name="works",
    ),
    _asks("quorum remove-controller", "remove-controller", "-i", "1", "-d", CLUSTER_ID),
    _asks("quorum transfer", "transfer", "--to", "1"),
    _asks("quorum upgrade", "upgrade", "--feature", "kraft.version=1"),
    Row(command="server", stages=_server_stages(None)),
    _row(
        "sim mutants",
        _plain("sim", "mutants", "--seeds", "0:1000", "--workers", "2"),
        _many_nodes(4),
        name="works",
    ),
    _row("sim replay", _plain("sim", "replay", "--seed", "1"), waits_for_reader, name="works", is_blocked=True),
    _row("sim report", lambda scene, home: ["sim", "report", _fifo(home, "rows")], waits_for_writer),
    _row(
        "sim run",
        _plain("sim", "run", "--seeds", "1000", "--workers", "2"),
        _many_nodes(4),
        Stage(
            name="works",
            words=_plain("sim", "run", "--seeds", "1000", "--workers", "2", "--json"),
            is_reached=lambda running: '"seed"' in running.output(),
        ),
        name="begins",
        is_progress=lambda line: "seeds" in line or "0/1000" in line,
    ),
    _row(
        "storage format",
        lambda scene, home: ["storage", "format", "-c", _fifo(home, "properties"), "-t", CLUSTER_ID],
        waits_for_writer,
    ),
    _row("storage info", lambda scene, home: ["storage", "info", "-c", _fifo(home, "properties")], waits_for_writer),
    _prints("storage random-uuid", _plain("storage", "random-uuid")),
    _row("tail", _follow, waits_for_answer, WAITING_TAIL, name="works"),
    _row(
        "verify",
        lambda scene, home: ["verify", str(Path(_fifo(home, f"logs/{LOG}")).parent)],
        waits_for_writer,
    ),
    _prints("version", _plain("version")),
    _prints("bin/pykraft", _plain("bin/pykraft", "version")),
    Row(command="bin/test-kraft-server-start.sh", stages=_server_stages("bin/test-kraft-server-start.sh")),
    Row(command="bin/test-raft-server-start.sh", stages=_server_stages("bin/test-raft-server-start.sh")),
    _row("demo", _plain("demo"), _many_nodes(6), name="works", is_spark=True, is_progress=_any_line),
    _row("bin/demo", _plain("bin/demo"), _many_nodes(6), name="works", is_spark=True, is_progress=_any_line),
    _row(
        "pipeline run",
        _pipeline,
        lambda running: (running.home / "tables").exists() and any((running.home / "tables").iterdir()),
        Stage(
            name="starts Spark",
            words=_pipeline,
            is_reached=_many_nodes(3),
            leaves_files=True,
            is_progress=_any_line,
        ),
        name="works",
        leaves_files=True,
        is_spark=True,
        is_progress=_any_line,
    ),
    _row(
        "pipeline report",
        _tables("report"),
        _many_nodes(3),
        name="works",
        leaves_files=True,
        is_spark=True,
        is_progress=_any_line,
    ),
    _row(
        "pipeline status",
        _tables("status"),
        waits_for_reader,
        name="writes",
        is_blocked=True,
        is_spark=True,
        leaves_files=True,
    ),
)


def row_of(command: str) -> Row:
    """The row of this command. Errors: KeyError."""
    return {row.command: row for row in ROWS}[command]
