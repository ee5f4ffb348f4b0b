"""Fetches the jars of Apache Kafka 4.3.1 once with Maven, checks them, and keeps them in the user's cache folder.

The folder is ``<cache>/pykraft/kafka-4.3.1`` with a lock file beside it; ``<cache>`` is ``$XDG_CACHE_HOME`` or
``~/.cache``. Invariant: the folder that `ensure_jars` returns has exactly the files that ``jars.sha256`` lists, byte
for byte. A download goes into a folder of its own, which is renamed once it is complete and checked, so an interrupted
fetch leaves nothing that looks finished. The lock makes a second run wait for the first one.

If something is missing on the machine, the error names the Debian package; nothing is skipped.

By hand: ``python -m lab.kafka.jars`` fetches the jars and prints the folder; with the word ``lock`` it
rewrites ``jars.sha256`` from the pom, after a change of versions.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pykraft.errors import UsageError
from pykraft.process.extras import cache_folder

KAFKA_VERSION = "4.3.1"
HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
LOCKED = HERE / "jars.sha256"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_TIMEOUT_S = 600.0


class KafkaUnavailableError(UsageError):
    """This machine cannot run Kafka; the message says what to install."""


def ensure_jars(
    cache: Path | None = None,
    locked: Path | None = LOCKED,
    *,
    name: str = f"kafka-{KAFKA_VERSION}",
    pom: Path = POM,
    version: str | None = None,
) -> Path:
    """The folder with Kafka's jars; fetches them if it is missing or invalid.

    ``name`` is that of the folder, and ``version`` another release than the pom's. Without ``locked`` any files that
    Maven finds are taken; it compares their sums with those of the registry.

    Errors: KafkaUnavailableError without Maven, and when Maven fails or fetches other files than ``locked`` lists.
    """
    expected = None if locked is None else read_sums(locked)
    cache = cache or cache_folder()
    folder = cache / name
    with _exclusive(folder.with_name(folder.name + ".lock")):
        if folder.exists() and (expected is None or sums_of(folder) == expected):
            return folder
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as work:
            fresh = Path(work) / "jars"
            fetch(fresh, pom, version)
            problem = None if expected is None else _difference(expected, sums_of(fresh))
            if problem:
                raise KafkaUnavailableError(f"Maven did not download the jars that {locked} lists: {problem}")
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    return folder


def check_jars(folder: Path) -> Path:
    """Check a user's folder with the jars of any release; returns it.

    Errors: KafkaUnavailableError if Kafka's server is not in it.
    """
    if not any(folder.glob("kafka_2.13-*.jar")) or not any(folder.glob("kafka-raft-*.jar")):
        raise KafkaUnavailableError(
            f"{folder}: it lacks kafka_2.13-*.jar or kafka-raft-*.jar; give the folder libs of a Kafka release"
        )
    return folder


def fetch(folder: Path, pom: Path = POM, version: str | None = None) -> None:
    """Let Maven copy the jars of the pom and their dependencies into this folder. Errors: KafkaUnavailableError."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError("no mvn on the PATH, which fetches Kafka's jars: install Debian's package maven")
    goal = [COPY_GOAL, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    if version is not None:
        goal.append(f"-Dkafka.version={version}")
    try:
        done = subprocess.run(
            [maven, "--quiet", "--batch-mode", "--file", str(pom), *goal],
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KafkaUnavailableError(f"Maven did not fetch Kafka's jars within {FETCH_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise KafkaUnavailableError(f"Maven could not fetch Kafka's jars:\n{done.stdout}{done.stderr}")


def read_sums(locked: Path) -> dict[str, str]:
    """SHA-256 by file name, from lines in the format of ``sha256sum``."""
    pairs = (line.split() for line in locked.read_text().splitlines())
    return {name: digest for digest, name in pairs}


def sums_of(folder: Path) -> dict[str, str]:
    """SHA-256 by file name of all files in the folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def _difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    wrong = {
        "missing": sorted(expected.keys() - found.keys()),
        "not listed": sorted(found.keys() - expected.keys()),
        "other bytes": sorted(name for name in expected.keys() & found.keys() if expected[name] != found[name]),
    }
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in wrong.items() if names)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """The command line; see the module."""
    if arguments == ["lock"]:
        with tempfile.TemporaryDirectory() as work:
            fetch(Path(work) / "jars")
            sums = sums_of(Path(work) / "jars")
        LOCKED.write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    print(ensure_jars())  # noqa: T201 - what was asked for


if __name__ == "__main__":
    main(sys.argv[1:])
