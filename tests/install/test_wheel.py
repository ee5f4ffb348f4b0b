"""`pip install pykraft` gives a working command; what an extra is needed for says so in one line.

Each environment holds the wheel and what its metadata requires; nothing in it knows the repository.
"""

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

from pykraft import __version__
from pykraft.cli.main import COMMANDS
from pykraft.local.voters import free_ports
from tests.install.fresh import Fresh, Published
from tests.tidy.repository import ROOT, tracked

pytestmark = pytest.mark.processes

NODE = """
node.id=1
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{port}
log.dirs={folder}
"""

LOAD_ALL = """
import click
from pykraft.cli.main import COMMANDS, pykraft

context = click.Context(pykraft)
for name in sorted(COMMANDS):
    assert pykraft.get_command(context, name).get_help(context)
    print(name)
"""


@contextmanager
def node(environment: Fresh, name: str, *lines: str) -> Iterator[str]:
    """A quorum of one, run by the installed command under a load; its address. It ends by SIGTERM, with status 0."""
    [port] = free_ports(1)
    file = environment.home / f"{name}.properties"
    file.write_text("\n".join((NODE.format(port=port, folder=environment.home / name), *lines)))
    started = environment.start("pykraft", "server", "--config", str(file), "--throughput", "100")
    assert started.stderr is not None
    try:
        said = ""
        for line in started.stderr:
            said += line
            if "serves CONTROLLER" in line:
                break
        else:
            pytest.fail(f"the node ended: {said}")
        yield f"127.0.0.1:{port}"
        started.send_signal(signal.SIGTERM)
        _, rest = started.communicate(timeout=60)
        assert started.returncode == 0, rest
    finally:
        if started.poll() is None:
            started.kill()
            started.communicate()


def test_the_command_works_without_any_extra(bare: Fresh) -> None:
    for program, words in (("pykraft", ["--help"]), ("python", ["-m", "pykraft", "--help"])):
        done = bare.run(program, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(command in done.stdout for command in COMMANDS)
    assert bare.run("pykraft", "version").stdout == f"{__version__}\n"


def test_every_command_loads_without_any_extra(bare: Fresh) -> None:
    done = bare.run("python", "-c", LOAD_ALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == sorted(COMMANDS)


def test_the_program_of_the_readme_runs(bare: Fresh) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = bare.run("python", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_node_serves_and_its_records_can_be_read(bare: Fresh) -> None:
    with node(bare, "plain") as address:
        told = bare.run("pykraft", "quorum", "--bootstrap-controller", address, "describe", "--status")
        assert "LeaderId:" in told.stdout, told
        tail = bare.run(
            *("pykraft", "tail", "--bootstrap-controller", address, "--follow", "--max-records", "3", "--json")
        )
        assert (tail.returncode, len(tail.stdout.splitlines())) == (0, 3), tail
    assert bare.run("pykraft", "verify", "plain").returncode == 0


def test_a_local_quorum_takes_records_and_shows_them(bare: Fresh) -> None:
    try:
        up = bare.run("pykraft", "local", "up", "--nodes", "1")
        assert up.returncode == 0, up
        status = bare.run("pykraft", "local", "status", "--json")
        assert status.returncode == 0, status
        address = json.loads(status.stdout)["bootstrap"]
        (bare.home / "lines.txt").write_text("hello\nworld\n")
        append = bare.run("pykraft", "append", "--bootstrap-controller", address, "lines.txt")
        assert append.returncode == 0, append
        tail = bare.run("pykraft", "tail", "--bootstrap-controller", address)
        assert [line.split("\t")[-1] for line in tail.stdout.splitlines()] == ["hello", "world"], tail
    finally:
        down = bare.run("pykraft", "local", "down")
    assert down.returncode == 0, down


@pytest.mark.parametrize(
    ("words", "what", "extra"),
    [
        ("pipeline run --tables t --path t", "the pipeline", "spark"),
        ("pipeline status --tables t", "the pipeline", "spark"),
        ("pipeline report --tables t", "the pipeline", "spark"),
        ("server --config loop.properties --loop uvloop", "--loop uvloop", "fast"),
        ("server --config metrics.properties", "property pykraft.prometheus.listener:", "metrics"),
    ],
)
def test_what_needs_an_extra_names_it_in_one_line(words: str, what: str, extra: str, bare: Fresh) -> None:
    port, other = free_ports(2)
    lines = NODE.format(port=port, folder=bare.home / extra)
    (bare.home / "loop.properties").write_text(lines)
    (bare.home / "metrics.properties").write_text(f"{lines}\npykraft.prometheus.listener=127.0.0.1:{other}\n")
    done = bare.run("pykraft", *words.split())
    [line] = done.stderr.splitlines()
    assert line.startswith(f"pykraft: {what} needs "), line
    assert line.endswith(f", which is not installed: pip install 'pykraft[{extra}]'"), line
    assert (done.returncode, done.stdout) == (2, "")


def test_the_extras_fast_and_metrics_bring_what_they_name(published: Published, tmp_path: Path) -> None:
    environment = Fresh(tmp_path, published.wheel, "fast", "metrics")
    [port] = free_ports(1)
    with (
        node(environment, "full", f"pykraft.prometheus.listener=127.0.0.1:{port}"),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer,
    ):
        assert b"current_leader" in answer.read()
    packages = json.loads(environment.run("pykraft", "version", "--json").stdout)["packages"]
    assert {name for name, found in packages.items() if found is not None} == {"uvloop", "prometheus-client"}


def test_the_metadata_is_what_an_index_shows(published: Published) -> None:
    with ZipFile(published.wheel) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        folder = published.wheel.parent / "metadata"
        wheel.extractall(folder, [name])
        assert "pykraft/py.typed" in wheel.namelist()
        # Nothing of the laboratory, which is in the source distribution.
        assert {each.partition("/")[0] for each in wheel.namelist()} == {
            "pykraft",
            "pyspark_pykraft",
            name.partition("/")[0],
        }
    [own] = Distribution.discover(path=[str(folder)])
    metadata = own.metadata
    text = metadata["Description"]
    links = re.findall(r"\]\(([^)\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)", text)
    assert links
    relative = [link for pair in links for link in pair if link and not link.startswith(("https://", "#"))]
    assert relative == [], "an index cannot follow these"
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL") or ())
    assert set(urls) >= {"Source", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(urls["Source"]) for url in urls.values())


def test_the_source_distribution_holds_what_its_readme_starts(published: Published) -> None:
    readme = (published.unpacked / "README.md").read_text()
    started = set(re.findall(r"^(bin/\w+)", readme, re.MULTILINE))
    assert started
    for name in started:
        assert (published.unpacked / name).stat().st_mode & 0o100, name
    linked = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", readme) if "://" not in link}
    assert [link for link in sorted(linked) if link and not (published.unpacked / link).exists()] == []
    absent = [name for name in tracked() if not (published.unpacked / name).exists()]
    assert [name for name in absent if not name.startswith((".ci/", ".git"))] == []
