"""`bin/_environment` and `bin/_setup.py`: nothing is started when all is there, and what is missing is named.

pip and venv are fakes here; that the locks themselves can be installed, each run of `bin/test` on a new machine shows.
"""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest

from tests.tidy.repository import ROOT

Run = Callable[[Sequence[str]], str]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with two small locks and no environment."""
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "bin" / "_environment", tmp_path / "bin")
    (tmp_path / "requirements").mkdir()
    for name in ("run", "spark", "build"):
        (tmp_path / "requirements" / f"{name}.txt").write_text(f"{name}==1\n")
    return tmp_path


@pytest.fixture
def setup() -> ModuleType:
    """The module in bin, which is no package."""
    spec = importlib.util.spec_from_file_location("_setup", ROOT / "bin" / "_setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def install(clone: Path, *names: str) -> None:
    """What a set-up leaves behind."""
    installed = clone / ".venv" / "installed"
    installed.mkdir(parents=True, exist_ok=True)
    executable(clone / ".venv" / "bin" / "python", "exit 1")
    (installed / "clone").write_text(f"{clone}\n")
    for name in names:
        shutil.copy(clone / "requirements" / f"{name}.txt", installed)


def environment(clone: Path, *names: str, python: str = "exit 1") -> subprocess.CompletedProcess[str]:
    """Run bin/_environment where every Python of the machine is this script."""
    fake = executable(clone / "path" / "python3", python)
    path = f"{fake.parent}:{Path(shutil.which('dirname') or '').parent}:{Path(shutil.which('cmp') or '').parent}"
    for version in range(11, 15):
        executable(fake.parent / f"python3.{version}", python)
    command = [str(clone / "bin" / "_environment"), *names]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)


def test_what_is_installed_is_used_without_starting_a_python(clone: Path) -> None:
    install(clone, "run", "spark")
    done = environment(clone, "run", "spark")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{clone}/.venv/bin/python\n", "")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda clone: (clone / "requirements" / "run.txt").write_text("run==2\n"),
        lambda clone: (clone / ".venv" / "installed" / "run.txt").unlink(),
        lambda clone: (clone / ".venv" / "installed" / "clone").write_text("/elsewhere\n"),
        lambda clone: (clone / ".venv" / "bin" / "python").unlink(),
    ],
    ids=["another lock", "not installed", "moved", "no python"],
)
def test_whatever_changed_is_set_up_again(clone: Path, spoil: Callable[[Path], None]) -> None:
    install(clone, "run")
    spoil(clone)
    done = environment(clone, "run", python='[ "$1" = -c ] || echo "set up: ${1##*/} $2"')
    assert (done.returncode, done.stdout) == (0, f"{clone}/.venv/bin/python\n")
    assert done.stderr == "set up: _setup.py run\n"


def test_if_ready_installs_nothing(clone: Path) -> None:
    install(clone, "run")
    done = environment(clone, "--if-ready", "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{clone}/.venv/bin/python\n", "")
    done = environment(clone, "--if-ready", "run", "spark", python="echo set up")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_without_a_python_that_is_new_enough_both_versions_are_named(clone: Path) -> None:
    done = environment(clone, "run", python='[ "$1" = --version ] && echo Python 3.9.2 || exit 1')
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs Python 3.11 or later, and found Python 3.9.2" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def recording(calls: list[list[str]], clone: Path, *, failing: str = "") -> Run:
    """Carries out nothing; the command with this word in it fails."""

    def run(command: Sequence[str]) -> str:
        calls.append(list(command))
        if failing and failing in command:
            raise RuntimeError(failing)
        executable(clone / ".venv" / "bin" / "python", "exit 0")
        packages = clone / ".venv" / "packages"
        packages.mkdir(exist_ok=True)
        return f"{packages}\n"

    return run


def installed(calls: list[list[str]]) -> list[str]:
    return [Path(call[call.index("--requirement") + 1]).stem for call in calls if "install" in call]


def test_set_up_makes_the_environment_installs_and_does_nothing_twice(
    clone: Path, setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(setup, "run", recording(calls, clone))
    setup.Environment(clone).ensure(["run"])
    assert calls[0][1:3] == ["-m", "venv"]
    assert installed(calls) == ["run"]
    assert (clone / ".venv" / "packages" / "pykraft.pth").read_text() == f"{clone}/src\n{clone}\n"
    calls.clear()
    setup.Environment(clone).ensure(["run"])
    assert calls == []


def test_what_comes_as_source_is_built_with_locked_tools(
    clone: Path, setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(setup, "run", recording(calls, clone))
    setup.Environment(clone).ensure(["spark"])
    assert installed(calls) == ["build", "spark"]
    assert all("--require-hashes" in call for call in calls if "install" in call)


def test_an_install_that_failed_leaves_no_sign_of_success(
    clone: Path, setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "run", recording([], clone, failing="install"))
    with pytest.raises(RuntimeError):
        setup.Environment(clone).ensure(["run"])
    assert not (clone / ".venv" / "installed" / "run.txt").exists()


def test_a_clone_that_was_moved_gets_a_new_environment(
    clone: Path, setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(clone, "run")
    (clone / ".venv" / "installed" / "clone").write_text("/elsewhere\n")
    calls: list[list[str]] = []
    monkeypatch.setattr(setup, "run", recording(calls, clone))
    setup.Environment(clone).ensure(["run"])
    assert calls[0][1:3] == ["-m", "venv"]
    assert installed(calls) == ["run"]


def test_without_venv_the_debian_package_is_installed_or_named(
    clone: Path, setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(setup, "run", recording(calls, clone))
    monkeypatch.setattr(setup, "find_spec", lambda _: None)
    monkeypatch.setattr(setup, "ROOT", clone)
    package = f"python3.{sys.version_info.minor}-venv"
    executable(clone / "bin" / "_packages", f'[ "$*" = {package} ] && exit 2')
    assert setup.main(["run"]) == 2
    assert calls == []
    assert f"cannot make environments without {package}" in capsys.readouterr().err
    executable(clone / "bin" / "_packages", f'[ "$*" = {package} ]')
    assert setup.main(["run"]) == 0
    assert calls[0][1:3] == ["-m", "venv"]


TOOLS = ("bash", "dirname", "env", "mktemp", "nproc", "readlink", "rm", "sh", "sort", "tail", "tr", "true")
"""What a bare Debian has, and bin/test uses."""


def on_a_bare_machine(
    clone: Path,
    *stages: str,
    user_id: int = 0,
    variables: Mapping[str, str] = MappingProxyType({}),
    programs: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run bin/test as this user, on a machine with `TOOLS` and these programs. All tests pass there."""
    for name in ("test", "_packages", "_newest"):
        shutil.copy(ROOT / "bin" / name, clone / "bin")
    executable(clone / "bin" / "_environment", "echo true")
    tools = clone / "tools"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    for name, text in {"id": f"echo {user_id}", **programs}.items():
        executable(tools / name, text)
    environment = {"PATH": str(tools), "HOME": str(tools), "PYENV_ROOT": str(tools), **variables}
    command = [str(clone / "bin" / "test"), *stages]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


PACKAGES = "ca-certificates chromium curl default-jdk-headless golang-go maven npm"
NO_QUESTION = '[ "$1" = -n ] && shift && exec "$@"'
QUESTION = "echo sudo: a password is required >&2; exit 1"


@pytest.mark.parametrize(
    ("user_id", "programs"),
    [(1_000, {"apt-get": "exit 3"}), (1_000, {"apt-get": "exit 3", "sudo": QUESTION}), (0, {})],
    ids=["no sudo", "sudo asks", "no apt"],
)
def test_what_stages_lack_is_one_line_to_paste_before_the_first_starts(
    clone: Path, user_id: int, programs: dict[str, str]
) -> None:
    done = on_a_bare_machine(clone, "unit", "processes", "kafka", "pages", user_id=user_id, programs=programs)
    assert (done.returncode, done.stdout) == (2, "")
    install = f"DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends {PACKAGES}"
    assert done.stderr.splitlines()[-1] == f"sudo sh -c 'apt-get update -q && {install}'"


@pytest.mark.parametrize(
    ("user_id", "programs"), [(0, {}), (1_000, {"sudo": NO_QUESTION})], ids=["root", "sudo without a question"]
)
def test_who_may_gets_what_stages_lack_and_they_run(clone: Path, user_id: int, programs: dict[str, str]) -> None:
    apt = {"apt-get": f'echo "$*" >>{clone}/apt'}
    done = on_a_bare_machine(clone, "processes", "kafka", "pages", user_id=user_id, programs={**apt, **programs})
    assert done.returncode == 0, done
    asked = (clone / "apt").read_text().splitlines()
    assert asked == ["update -q", f"install -q -y --no-install-recommends {PACKAGES}"]
    assert [line.split()[-1] for line in done.stdout.splitlines()[-3:]] == ["passed"] * 3


def test_nothing_runs_when_apt_fails(clone: Path) -> None:
    done = on_a_bare_machine(clone, "pages", programs={"apt-get": "echo E: no network >&2; exit 100"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["pykraft: installing chromium", "E: no network"]


def test_a_stage_that_needs_nothing_installs_nothing(clone: Path) -> None:
    done = on_a_bare_machine(clone, "unit", programs={"apt-get": "exit 100"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("unshare", "is_told"), [("exit 0", False), ("exit 1", True)])
def test_a_system_without_namespaces_is_told_of_in_the_first_line(clone: Path, unshare: str, is_told: bool) -> None:
    done = on_a_bare_machine(clone, "sim", programs={"unshare": unshare, "chromium": "exit 0"})
    assert ("this system makes no namespaces" in done.stderr.partition("\n")[0]) == is_told


@pytest.mark.parametrize(("variables", "status"), [({}, 0), ({"NEWEST_REQUIRED": "1"}, 1)])
def test_the_oldest_python_alone_has_nothing_to_repeat(clone: Path, variables: dict[str, str], status: int) -> None:
    done = on_a_bare_machine(clone, "newest", variables=variables)
    assert done.returncode == status
    assert ("so there is nothing to repeat" in done.stdout) == (status == 0)
    assert "there is no Python newer than 3.11" in done.stderr


def test_an_unknown_set_is_refused_with_the_known_ones(
    clone: Path, setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "ROOT", clone)
    assert setup.main(["plots"]) == 2
    assert "no set of requirements 'plots'; there are build, run, spark" in capsys.readouterr().err


def test_a_command_that_fails_is_told_with_its_status(setup: ModuleType) -> None:
    with pytest.raises(setup.SetupError, match="status 3"):
        setup.run([sys.executable, "-c", "raise SystemExit(3)"])


def test_what_failed_is_told_in_its_last_words(setup: ModuleType) -> None:
    program = "import sys; print(*range(100), sep='\\n'); print('why', file=sys.stderr); sys.exit(1)"
    with pytest.raises(setup.SetupError) as caught:
        setup.run([sys.executable, "-c", program])
    assert str(caught.value).endswith("98\n99\nwhy")
    assert "\n10\n" not in str(caught.value)


def test_a_long_command_is_never_silent_for_long(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    monkeypatch.setattr(setup, "SILENCE_S", 0.05)
    monkeypatch.setattr(setup, "say", lambda text: told.touch() if "fetching" in text else None)
    wait = f"while not os.path.exists({str(told)!r}): time.sleep(0.01)"
    program = f"import os, time\nprint('fetching it\\n', flush=True)\n{wait}"
    assert setup.run([sys.executable, "-c", program]) == "fetching it\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("after connection broken by 'NewConnectionError'\nERROR: No matching distribution", "index cannot be reached"),
        ("ERROR: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "DO NOT MATCH THE HASHES"),
    ],
)
def test_an_install_that_failed_says_what_to_do(
    said: str,
    told: str,
    clone: Path,
    setup: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = recording([], clone)

    def run(command: Sequence[str]) -> str:
        if "install" in command:
            raise setup.SetupError(f"this failed with status 1: pip\n{said}", status=1)
        return real(command)

    monkeypatch.setattr(setup, "run", run)
    monkeypatch.setattr(setup, "ROOT", clone)
    assert setup.main(["run"]) == 1
    complaint = capsys.readouterr().err.splitlines()[2:]
    assert complaint[0].startswith("pykraft: requirements/run.txt: ")
    assert told in "\n".join(complaint)


def test_without_a_python_newer_than_3_11_the_newest_is_asked_for_in_words(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "sort", "tail"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    done = subprocess.run(
        [str(ROOT / "bin" / "_newest")],
        env={"PATH": str(tools), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no Python newer than 3.11" in done.stderr
    assert "NEWEST_PYTHON" in done.stderr


def test_ctrl_c_is_one_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup.Environment, "ensure", interrupted)
    assert setup.main(["run"]) == 130
    assert capsys.readouterr().err == "pykraft: interrupted; the next start continues, and what is installed stays\n"
