"""Makes a release: the work of bin/release, which says how to call it.

Invariant: either everything is done (version, CHANGELOG.md, commit, tag and the files in dist), or the repository is as
it was. Nothing leaves the machine, and what is published follows from the commit alone.

1. Refuse a tree with changes, a version that exists, and a release without entries.
2. Write the version and CHANGELOG.md, and commit.
3. Build the distributions and the site of that commit twice, in different places; the bytes have to be the same.
4. Let twine check what an index would show, and try the wheel in a root that has nothing but Python.
5. List the dependencies, and state what was built from what (in-toto, SLSA), signed if a key is given.
6. Build the image, where there is a tool for it.
7. Tag.

Exit status: 0 done; 1 a tool failed; 2 refused.
"""

import argparse
import base64
import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from hatchling.version.scheme.standard import StandardScheme

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
KINDS = ("added", "changed", "fixed", "removed")
SBOMS = {"run": "", "spark": "-spark"}
"""Locks whose contents are listed, and how the names of their lists end."""


class ReleaseError(Exception):
    """The release is not made; ``status`` is the exit status."""

    def __init__(self, message: str, *, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


class Release:
    """One release of the repository in a folder."""

    def __init__(self, root: Path, wanted: str) -> None:
        """``wanted`` is a version, or which of its numbers grows. Errors: ReleaseError."""
        self.root = root
        self._source = root / "src" / "pykraft" / "__init__.py"
        self.version = next_version(current_version(root), wanted)
        self.tag = f"v{self.version}"

    def check(self) -> None:
        """Step 1. Errors: ReleaseError."""
        if changed := self._git("status", "--porcelain"):
            raise ReleaseError(f"the working tree has changes; commit or remove them first:\n{changed}")
        if self._git("tag", "--list", self.tag):
            raise ReleaseError(f"there is a tag {self.tag} already")
        if not fragments(self.root):
            raise ReleaseError("changelog.d has no entries, so there is nothing to release")

    def make(self, key: Path | None) -> list[Path]:
        """Steps 2 to 7; returns what is published. Errors: ReleaseError."""
        before = self._git("rev-parse", "HEAD")
        try:
            self._write_version()
            today = f"{datetime.now(UTC):%Y-%m-%d}"
            python(self.root, "towncrier", "build", "--yes", "--version", self.version, "--date", today)
            self._git("add", "--all", "CHANGELOG.md", "changelog.d", str(self._source))
            self._git("commit", "--quiet", "--message", f"pykraft {self.version}")
            files = build(self.root, self.version, key)
            self._git("tag", "--annotate", self.tag, "--message", f"pykraft {self.version}")
        except BaseException:
            self._git("reset", "--quiet", "--hard", before)  # the tree had no changes but ours
            raise
        return files

    def _write_version(self) -> None:
        line = f'__version__ = "{self.version}"'
        self._source.write_text(VERSION.sub(line, self._source.read_text()))

    def _git(self, *words: str) -> str:
        return run(["git", *words], self.root).strip()


def current_version(root: Path) -> str:
    """The version of the sources."""
    found = VERSION.search((root / "src" / "pykraft" / "__init__.py").read_text())
    assert found is not None
    return found[1]


def next_version(current: str, wanted: str) -> str:
    """The version to release; the current one if it was asked for. Errors: ReleaseError."""
    if wanted == current:
        return current
    try:
        return StandardScheme(str(ROOT), {}).update(wanted, current, {})
    except ValueError as error:
        raise ReleaseError(f"{wanted}: {error}; give major, minor, patch or a version from {current} on") from error


def fragments(root: Path) -> list[str]:
    """The entries of the next release."""
    names = sorted(path.name for path in (root / "changelog.d").glob("*.md"))
    return [name for name in names if name.split(".")[-2] in KINDS]


def build(root: Path, version: str, key: Path | None) -> list[Path]:
    """Steps 3 to 6 for the last commit: what is published, in dist. Errors: ReleaseError."""
    commit, seconds = run(["git", "log", "-1", "--format=%H %ct"], root).split()
    dist = root / "dist"
    dist.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder) / "one", Path(folder) / "an" / "other"
        built, again = build_of_commit(root, one, version, seconds), build_of_commit(root, other, version, seconds)
        if different := sorted(path.name for path in built if digest(path) not in map(digest, again)):
            raise ReleaseError(f"built twice, these are not the same bytes: {', '.join(different)}", status=1)
        files = [Path(shutil.copy(path, dist)) for path in built]
        wheel, sdist, _ = files
        python(root, "twine", "check", "--strict", str(wheel), str(sdist))
        smoke(root, wheel)
        files += write_sboms(root, version)
        files.append(write_provenance(root, version, commit, seconds, files, key))
        say(build_image(one / "source", version))
    return files


def build_of_commit(root: Path, folder: Path, version: str, seconds: str) -> list[Path]:
    """The wheel, the source distribution and the site, built of the commit alone, in this folder.

    ``seconds`` is the time of the commit, which is in all of them. Errors: ReleaseError.
    """
    source, out = folder / "source", folder / "out"
    source.mkdir(parents=True)
    run(["git", "archive", "--output", str(folder / "commit.tar"), "HEAD"], root)
    run(["tar", "-xf", str(folder / "commit.tar"), "-C", str(source)], root)
    variables = {"SOURCE_DATE_EPOCH": seconds}
    python(source, "hatchling", "build", "-d", str(out), variables=variables)
    python(source, "mkdocs", "build", "--strict", "--site-dir", str(folder / "site"), variables=variables)
    site = out / f"pykraft-{version}-site.tar.gz"
    archive(folder / "site", site, int(seconds))
    return [*out.glob("*.whl"), out / f"pykraft-{version}.tar.gz", site]


def archive(folder: Path, path: Path, seconds: int) -> None:
    """Write the files of a folder into an archive that has nothing of this machine: no times, owners or modes."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = seconds, 0, 0, "", ""
        entry.mode = 0o755 if entry.isdir() else 0o644
        return entry

    with gzip.GzipFile(path, "wb", mtime=seconds) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for each in sorted(folder.rglob("*")):
            tar.add(each, str(each.relative_to(folder)), recursive=False, filter=plain)


def digest(path: Path) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


ROOTED = """
set -eu
root=$1; shift
mount -t tmpfs root "$root"
for folder; do mkdir -p "$root$folder"; mount --rbind "$folder" "$root$folder"; done
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/home" "$root/etc"
echo 127.0.0.1 localhost >"$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for name in bin lib lib64; do [ ! -e "/$name" ] || ln -s "usr/$name" "$root/$name"; done
exec chroot "$root" /usr/bin/env -i PATH="$1/bin:/usr/bin" HOME=/home "$1/bin/python" -I -c "$PROGRAM"
"""
"""A root of its own with these folders: the environment, Python, the machine's libraries and tools."""
SMOKE = """
import json, os, subprocess

def pykraft(*words, **given):
    return subprocess.run(["pykraft", *words], check=True, stdout=subprocess.PIPE, text=True, **given).stdout

os.chdir(os.environ["HOME"])
print(pykraft("version").strip())
pykraft("local", "up")
try:
    address = json.loads(pykraft("local", "status", "--json"))["bootstrap"]
    pykraft("append", "--bootstrap-controller", address, input="hello\\n")
    assert pykraft("tail", "--bootstrap-controller", address).endswith("\\thello\\n")
finally:
    pykraft("local", "down")
nodes = ("pykraft-local/n1/data", "pykraft-local/n2/data", "pykraft-local/n3/data")
assert "No damage found" in pykraft("audit", *nodes)
"""
"""The version, three nodes, a record, and their directories compared."""


def smoke(root: Path, wheel: Path) -> None:
    """Install the wheel and what it requires into a new environment, and use it. Errors: ReleaseError.

    It sees neither the clone nor this user's files, where the system lets us make namespaces.
    """
    with tempfile.TemporaryDirectory() as folder:
        home, environment = Path(folder) / "root", Path(folder) / "environment"
        home.mkdir()
        python(root, "venv", str(environment))
        pip = [str(environment / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet"]
        run([*pip, "--require-hashes", "--no-deps", "-r", str(root / "requirements" / "run.txt")], root)
        run([*pip, "--no-deps", str(wheel)], root)
        spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        spaces += [] if os.geteuid() == 0 else ["--map-root-user"]
        if works(*spaces, "true"):
            folders = [str(environment), sys.base_prefix, "/usr"]
            command = [*spaces, "sh", "-c", ROOTED, "sh", str(home), *folders]
            where = "in an empty root"
        else:
            command = ["env", "-i", f"PATH={environment}/bin:/usr/bin:/bin", f"HOME={home}"]
            command += [str(environment / "bin" / "python"), "-I", "-c", SMOKE]
            where = "in an environment of its own, since this system makes no namespaces"
        version = run(command, root, {"PROGRAM": SMOKE}).strip()
    say(f"pykraft {version} was tried {where}: three nodes, a record, an audit")


def build_image(source: Path, version: str) -> str:
    """Build the image of these sources if something here can, and run it; what was done. Errors: ReleaseError."""
    for tool in ("docker", "podman", "buildah"):
        if works(tool, "info"):
            # The others leave HEALTHCHECK out of the format that they write by default.
            form = [] if tool == "docker" else ["--format", "docker"]
            run([tool, "build", *form, "-f", "deploy/Dockerfile", "-t", f"pykraft:{version}", "."], source)
            if tool != "buildah":
                run([tool, "run", "--rm", f"pykraft:{version}", "version"], source)
            return f"{tool} has the image pykraft:{version}"
    return "no image: neither docker nor podman nor buildah works here"


def write_provenance(
    root: Path, version: str, commit: str, seconds: str, files: Sequence[Path], key: Path | None
) -> Path:
    """State which files were built of which commit and locks; signed with an Ed25519 key in PEM. Errors: ReleaseError.

    Source: in-toto Statement v1, SLSA provenance v1, DSSE v1.
    """
    address = tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    locks = sorted((root / "requirements").glob("*.txt"))
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{address}/blob/main/bin/release",
                "externalParameters": {"version": version},
                "internalParameters": {"SOURCE_DATE_EPOCH": seconds, "python": platform.python_version()},
                "resolvedDependencies": [
                    {"uri": f"git+{address}", "digest": {"gitCommit": commit}},
                    *({"uri": f"requirements/{path.name}", "digest": {"sha256": digest(path)}} for path in locks),
                ],
            },
            "runDetails": {"builder": {"id": f"{address}/blob/main/bin/release"}},
        },
    }
    path = root / "dist" / f"pykraft-{version}.intoto.json"
    if key is None:
        path.write_text(json.dumps(statement, indent=2) + "\n")
        say("the provenance is not signed: --key FILE signs it")
    else:
        path.write_text(json.dumps(signed(json.dumps(statement).encode(), key), indent=2) + "\n")
    return path


def signed(statement: bytes, key: Path) -> dict[str, object]:
    """The statement in an envelope with one signature. Errors: ReleaseError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ReleaseError(f"--key {key}: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ReleaseError(f"--key {key}: give an Ed25519 key (openssl genpkey -algorithm ed25519)")
    kind = "application/vnd.in-toto+json"
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(statement), statement)
    text = {"payload": statement, "sig": private.sign(encoded)}
    found = {name: base64.b64encode(content).decode() for name, content in text.items()}
    return {"payloadType": kind, "payload": found["payload"], "signatures": [{"sig": found["sig"]}]}


def works(*command: str) -> bool:
    """Whether this command is here and succeeds."""
    found = shutil.which(command[0])
    return found is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


def say(text: str) -> None:
    """Print a line of progress on standard error."""
    print(f"bin/release: {text}", file=sys.stderr, flush=True)


def write_sboms(root: Path, version: str) -> list[Path]:
    """A list of dependencies for each of `SBOMS`, from its lock, in dist. Errors: ReleaseError."""
    (root / "dist").mkdir(exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "pyproject.toml"
        described.write_text(_description(root, version))
        for lock, ending in SBOMS.items():
            path = root / "dist" / f"pykraft-{version}{ending}.cdx.json"
            requirements = str(root / "requirements" / f"{lock}.txt")
            options = ("--pyproject", str(described), "--output-reproducible", "--of", "JSON", "-o", str(path))
            python(root, "cyclonedx_py", "requirements", *options, requirements)
            written.append(path)
    return written


def _description(root: Path, version: str) -> str:
    """The project as the tool reads it: it does not know versions that a build finds out."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    fields = {"name": project["name"], "version": version, "description": project["description"]}
    return "[project]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def python(root: Path, module: str, *words: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a tool of the environment. Errors: ReleaseError."""
    return run([sys.executable, "-W", "ignore", "-m", module, *words], root, variables)


def run(command: Sequence[str], root: Path, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """What the command prints. Errors: ReleaseError with its complaint."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise ReleaseError(f"{' '.join(command)} failed with status {done.returncode}:\n{said}", status=1)
    return done.stdout


def main(words: Sequence[str], root: Path = ROOT) -> int:
    """The command line; see bin/release."""
    parser = argparse.ArgumentParser(prog="bin/release", description="Make a release; nothing is pushed.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("version", nargs="?", help="major, minor, patch, or a version")
    choice.add_argument("--notes", action="store_true", help="print the entries of the next release")
    choice.add_argument("--build", action="store_true", help="build and check what the last commit would publish")
    choice.add_argument("--sbom", action="store_true", help="write the lists of dependencies into dist")
    parser.add_argument("--dry-run", action="store_true", help="check, and print what would be done")
    parser.add_argument("--key", type=Path, help="sign the provenance with this Ed25519 key (PEM)")
    given = parser.parse_args(words)
    try:
        if given.notes:
            print(python(root, "towncrier", "build", "--draft", "--version", current_version(root)).strip())
        elif given.build:
            print(*build(root, current_version(root), given.key), sep="\n")
        elif given.sbom:
            print(*write_sboms(root, current_version(root)), sep="\n")
        else:
            release = Release(root, given.version)
            release.check()
            if given.dry_run:
                count = len(fragments(root))
                what = f"version {release.version} with {count} entries in CHANGELOG.md, tag {release.tag}"
                print(f"would commit {what}, and build dist")
                return 0
            print(*release.make(given.key), sep="\n")
            print(f"Next: git push --follow-tags, and then uv publish dist/pykraft-{release.version}*.whl and *.tar.gz")
    except ReleaseError as error:
        print(f"bin/release: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
