"""Builds a complete package with compiled modules once for each version of the source, in the user's cache folder.

The folder is ``<cache>/pykraft/compiled/<key>``; the key stands for the sources, this Python and mypyc. Invariant: a
folder with that name is complete, since it is renamed last; an interrupted build leaves nothing that looks finished.

Source: ours (ADR 116).
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from compiled.constructors import with_constructors
from compiled.modules import OPT_LEVEL, compiled_files
from pykraft.process.extras import cache_folder

ROOT: Final = Path(__file__).resolve().parent.parent


class CannotCompileError(Exception):
    """This machine lacks something, or the compiler failed; the text says what."""


def build(root: Path = ROOT, cache: Path | None = None) -> Path:
    """The folder to put on PYTHONPATH: the packages of ``root``, with the compiled modules beside their sources.

    The first call for a version takes some minutes.

    Errors: CannotCompileError without a C compiler or Python's headers, or when the compiler fails.
    """
    folder = (cache or cache_folder() / "compiled") / _key(root / "src", Path(__file__).parent)
    if not folder.exists():
        require_compiler()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as scratch:
            built = _compile(root, Path(scratch))
            try:
                built.rename(folder)
            except OSError:
                if not folder.exists():  # another process was quicker, and built the same
                    raise
    return folder


def require_compiler() -> None:
    """Errors: CannotCompileError without a C compiler or the headers of this Python."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise CannotCompileError(f"there is no C compiler ({compiler}); on Debian: apt-get install gcc")
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise CannotCompileError(f"{headers} has no Python.h; on Debian: apt-get install python3-dev")


def _key(*folders: Path) -> str:
    """Stands for all files of these folders, this Python and mypyc."""
    told = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                told.update(f"{file.relative_to(folder)} {len(content)}\n".encode() + content)
    told.update(f"{sys.version} {sys.prefix} mypy {version('mypy')} -O{OPT_LEVEL}".encode())
    return told.hexdigest()[:16]


def _compile(root: Path, scratch: Path) -> Path:
    """A finished folder below ``scratch``."""
    source, built = scratch / "work" / "src", scratch / "built"
    shutil.copytree(root / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for file in compiled_files(source / "pykraft"):
        file.write_text(with_constructors(file.read_text(encoding="utf-8")), encoding="utf-8")
    out = scratch / "out"
    command = [sys.executable, "-m", "compiled.extension", "build_ext", "--build-lib", str(out)]
    command += ["--build-temp", str(scratch / "temp")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=source.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        told = [line for line in done.stdout.splitlines() if "error" in line and not line.startswith("gcc")]
        raise CannotCompileError("mypyc or the C compiler failed:\n" + "\n".join(told[:20] or [done.stdout[-2000:]]))
    # The sources that people read in tracebacks are the original ones.
    shutil.copytree(root / "src", built, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(out, built, dirs_exist_ok=True)
    return built
