"""`bin/release`: it refuses what is not ready, and a release has version, change log, commit, tag and distributions.

What is built follows from the commit alone, and the provenance says what it was built of.

Tools that only releases install, and the site, are fakes here, and nothing is tried; `bin/release --build` does all.
"""

import base64
import importlib.util
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pykraft import __version__
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.git

AS_SOMEBODY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    command = ["git", *AS_SOMEBODY, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module in bin, which is not a package; it commits as somebody and builds nothing that is slow."""
    spec = importlib.util.spec_from_file_location("_release", ROOT / "bin" / "_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    real: Any = module.run

    def run(command: list[str], root: Path, variables: Mapping[str, str] = MappingProxyType({})) -> str:
        if command[0] == "git":
            return str(real(["git", *AS_SOMEBODY, *command[1:]], root, variables))
        if "cyclonedx_py" in command:
            Path(command[command.index("-o") + 1]).write_text(
                Path(command[command.index("--pyproject") + 1]).read_text()
            )
            return ""
        if "mkdocs" in command:
            site = Path(command[command.index("--site-dir") + 1])
            site.mkdir()
            (site / "index.html").write_text("a page")
            return ""
        if "twine" in command:
            assert {Path(word).suffix for word in command[-2:]} == {".whl", ".gz"}
            return ""
        return str(real(command, root, variables))

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "smoke", lambda root, wheel: None)
    monkeypatch.setattr(module, "works", lambda *_: False)
    return module


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with what a release reads, and two entries."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src" / "pykraft").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "pykraft" / "__init__.py", tmp_path / "src" / "pykraft")
    (tmp_path / "changelog.d").mkdir()
    for name in ("README.md", "_template.md.jinja"):
        shutil.copy(ROOT / "changelog.d" / name, tmp_path / "changelog.d")
    (tmp_path / "changelog.d" / "speed.changed.md").write_text("It is quicker; see [why](../docs/why.md).\n")
    (tmp_path / "changelog.d" / "light.added.md").write_text("It is lighter.\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "before")
    return tmp_path


def test_a_release_is_a_commit_with_a_tag_and_its_distributions(
    release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(["7.0.0"], clone) == 0
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "log", "-1", "--format=%s") == "pykraft 7.0.0"
    assert git(clone, "describe") == "v7.0.0"
    assert release.current_version(clone) == "7.0.0"
    changes = (clone / "CHANGELOG.md").read_text()
    assert "## 7.0.0 (20" in changes
    assert "### Added\n\n- It is lighter.\n\n### Changed\n\n- It is quicker; see [why](docs/why.md).\n" in changes
    assert sorted(path.name for path in (clone / "changelog.d").iterdir()) == ["README.md", "_template.md.jinja"]
    names = {path.name for path in (clone / "dist").iterdir()}
    assert names == {
        "pykraft-7.0.0-py3-none-any.whl",
        "pykraft-7.0.0.tar.gz",
        "pykraft-7.0.0.cdx.json",
        "pykraft-7.0.0-spark.cdx.json",
        "pykraft-7.0.0-site.tar.gz",
        "pykraft-7.0.0.intoto.json",
    }
    assert 'version = "7.0.0"' in (clone / "dist" / "pykraft-7.0.0.cdx.json").read_text()
    said = capsys.readouterr()
    assert [name for name in names if name not in said.out] == []
    assert "git push --follow-tags" in said.out
    assert "no image: " in said.err
    assert "the provenance is not signed" in said.err


def test_what_is_built_follows_from_the_commit_and_says_so(release: ModuleType, clone: Path) -> None:
    (clone / "requirements").mkdir()
    (clone / "requirements" / "run.txt").write_text("click==8.4\n")
    (clone / "src" / "pykraft" / "other.py").write_text("in no commit")
    assert release.main(["--build"], clone) == 0
    dist = clone / "dist"
    with tarfile.open(dist / f"pykraft-{__version__}.tar.gz") as sdist:
        assert "other.py" not in {Path(name).name for name in sdist.getnames()}
    stated = json.loads((dist / f"pykraft-{__version__}.intoto.json").read_text())
    told = {each["name"]: each["digest"]["sha256"] for each in stated["subject"]}
    assert len(told) == 5
    assert told == {path.name: release.digest(path) for path in dist.iterdir() if ".intoto." not in path.name}
    commit, lock = stated["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert commit["digest"]["gitCommit"] == git(clone, "rev-parse", "HEAD")
    assert lock["digest"]["sha256"] == release.digest(clone / "requirements" / "run.txt")


def test_what_differs_the_second_time_is_refused(
    release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(_: Path, folder: Path, *__: str) -> list[Path]:
        folder.mkdir(parents=True)
        for name in ("a.whl", "a.tar.gz"):
            (folder / name).write_text(str(folder) if name == "a.whl" else "the same")
        return [folder / "a.whl", folder / "a.tar.gz"]

    monkeypatch.setattr(release, "build_of_commit", built)
    assert release.main(["--build"], clone) == 1
    assert capsys.readouterr().err.endswith("not the same bytes: a.whl\n")


def test_an_archive_has_nothing_of_this_machine(release: ModuleType, tmp_path: Path) -> None:
    for at in (1, 2):
        page = tmp_path / str(at) / "site" / "sub" / "page.html"
        page.parent.mkdir(parents=True)
        page.write_text("a page")
        page.chmod(0o600 + at * 0o20)
        (tmp_path / str(at) / "packed").mkdir()
        release.archive(page.parent.parent, tmp_path / str(at) / "packed" / "site.tar.gz", 7)
    one, other = (tmp_path / str(at) / "packed" / "site.tar.gz" for at in (1, 2))
    assert release.digest(one) == release.digest(other)


@pytest.mark.parametrize(("tool", "form"), [("docker", []), ("podman", ["--format", "docker"])])
def test_an_image_keeps_its_health_check_whatever_builds_it(
    tool: str, form: list[str], release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(release, "works", lambda name, _: name == tool)
    monkeypatch.setattr(release, "run", lambda command, _: commands.append(command))
    assert release.build_image(tmp_path, "1.2.3") == f"{tool} has the image pykraft:1.2.3"
    assert commands[0][:-1] == [tool, "build", *form, "-f", "deploy/Dockerfile", "-t", "pykraft:1.2.3"]


def test_a_key_signs_the_provenance(release: ModuleType, clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    private = Ed25519PrivateKey.generate()
    folder = tmp_path_factory.mktemp("key")
    (folder / "key.pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (clone / "dist").mkdir()
    (folder / "a.whl").write_text("a wheel")
    path = release.write_provenance(clone, "1.0.0", "c0ffee", "7", [folder / "a.whl"], folder / "key.pem")
    envelope = json.loads(path.read_text())
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    assert [each["name"] for each in json.loads(payload)["subject"]] == ["a.whl"]
    [signature] = envelope["signatures"]
    encoded = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    private.public_key().verify(base64.b64decode(signature["sig"]), encoded)


def test_another_key_is_refused(release: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(release.ReleaseError, match="No such file"):
        release.signed(b"", tmp_path / "absent")
    (tmp_path / "key").write_text("no key")
    with pytest.raises(release.ReleaseError, match=f"--key {tmp_path / 'key'}: "):
        release.signed(b"", tmp_path / "key")
    other = generate_private_key(65_537, 2_048)
    (tmp_path / "key").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(release.ReleaseError, match="give an Ed25519 key"):
        release.signed(b"", tmp_path / "key")


@pytest.mark.parametrize(
    ("wanted", "found"), [("major", "2.0.0"), ("minor", "1.3.0"), ("patch", "1.2.4"), ("1.2.3", "1.2.3")]
)
def test_the_next_version_is_named_or_counted(wanted: str, found: str, release: ModuleType) -> None:
    assert release.next_version("1.2.3", wanted) == found


@pytest.mark.parametrize(
    ("wanted", "says"), [("1.0.0", "not higher"), ("next", "give major, minor, patch or a version")]
)
def test_another_version_is_refused(wanted: str, says: str, release: ModuleType) -> None:
    with pytest.raises(release.ReleaseError, match=says):
        release.next_version("1.2.3", wanted)


def test_what_is_not_ready_is_refused_and_left_alone(
    release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "README.md").write_text("changed")
    assert release.main(["minor"], clone) == 2
    assert "the working tree has changes; commit or remove them first:\nM README.md" in capsys.readouterr().err
    git(clone, "checkout", "--quiet", ".")
    git(clone, "tag", f"v{__version__}")
    assert release.main([__version__], clone) == 2
    assert f"there is a tag v{__version__} already" in capsys.readouterr().err
    git(clone, "rm", "--quiet", "changelog.d/speed.changed.md", "changelog.d/light.added.md")
    git(clone, "commit", "--quiet", "--message", "no entries")
    assert release.main(["minor"], clone) == 2
    assert "nothing to release" in capsys.readouterr().err
    assert git(clone, "log", "-1", "--format=%s") == "no entries"


def test_a_dry_run_changes_nothing(release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["9.9.9", "--dry-run"], clone) == 0
    assert "would commit version 9.9.9 with 2 entries in CHANGELOG.md, tag v9.9.9" in capsys.readouterr().out
    assert (git(clone, "status", "--porcelain"), git(clone, "tag")) == ("", "")


def test_the_notes_are_the_entries(release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["--notes"], clone) == 0
    assert "- It is lighter." in capsys.readouterr().out
    assert git(clone, "status", "--porcelain") == ""


def test_a_tool_that_fails_leaves_the_repository_as_it_was(
    release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise release.ReleaseError("hatchling failed with status 1", status=1)

    monkeypatch.setattr(release, "build", fails)
    assert release.main(["minor"], clone) == 1
    assert "hatchling failed" in capsys.readouterr().err
    assert (git(clone, "status", "--porcelain"), git(clone, "tag")) == ("", "")
    assert release.current_version(clone) == __version__


def test_every_entry_has_a_kind_that_a_release_prints(release: ModuleType) -> None:
    names = {path.name for path in (ROOT / "changelog.d").glob("*.md")} - {"README.md"}
    assert names == set(release.fragments(ROOT))
