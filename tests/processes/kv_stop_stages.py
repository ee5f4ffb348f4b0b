"""How the commands of the key-value service are started to be ended, see `tests.processes.stop_rows`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pykraft.local.voters import HOST, free_ports
from tests.processes.stop_stages import Running, Scene, Stage, Words, loading, stage, waits_for_answer


def serving(config: Callable[[Path, int], str]) -> tuple[Stage, ...]:
    """A node to try it begins and serves; a node with a configuration elects, and serves.

    ``config`` makes the properties of one of so many voters.
    """

    def words(voters: int) -> Words:
        return lambda scene, home: ["kv", "serve", "--config", config(home, voters), "--http", f"{HOST}:0"]

    def to_try(scene: Scene, home: Path) -> list[str]:
        return ["kv", "serve", "--nodes", "1", "--http", f"{HOST}:0"]

    serves = Stage(
        name="serves",
        words=words(1),
        is_reached=lambda running: "key-value store at" in running.text(),
        is_graceful=True,
        leaves_files=True,
    )
    elects = replace(serves, name="elects", words=words(3), may_take_s=5.0)  # as `server`
    begins = stage("starts nodes", to_try, lambda running: running.count() >= 3)
    tried = stage("tried", to_try, lambda running: "Ctrl-C ends" in running.output())
    return (*loading("kv serve", tried), begins, tried, elects, serves)


def asking(*words: str) -> tuple[Stage, Stage]:
    """A command whose nodes are down, or accept connections and answer nothing."""

    def of(address: Callable[[Scene], str]) -> Words:
        return lambda scene, home: ["kv", words[0], "--url", f"http://{address(scene)}", *words[1:]]

    def is_between_tries(running: Running) -> bool:
        return running.waits_in("nanosleep")

    return (
        stage("finds no node", of(lambda scene: f"{HOST}:{free_ports(1)[0]}"), is_between_tries),
        stage("waits", of(lambda scene: scene.silent), waits_for_answer),
    )
