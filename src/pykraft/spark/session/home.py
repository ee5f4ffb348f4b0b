"""A home for Spark in which its Python processes find pyspark compiled.

Spark puts ``python/lib/pyspark.zip`` first on the path of each Python process, and Python keeps no bytecode of modules
in an archive: each process compiled pyspark anew, 0.5 to 1 s. This home links to the installed package, with folders in
the place of the archives. Only local sessions and a standalone cluster use it: YARN and Kubernetes send the archives to
other machines, so they must be files.

Source: Spark's ``PythonUtils.sparkPythonPath``; Python's ``zipimport``.
"""

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from pykraft.process.extras import cache_folder

ARCHIVES = Path("python", "lib")


def spark_home() -> Path | None:
    """The home for the installed pyspark, made if it does not exist; None if it cannot be made: Spark finds its own."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    return linked_home(Path(found.origin).parent, cache_folder())


def linked_home(package: Path, cache: Path) -> Path | None:
    """As above, for the pyspark in this folder; the packages of the archives are beside it."""
    try:
        modules = {path.name: path.name.partition("-")[0].removesuffix(".zip") for path in _archives(package)}
        if not modules or not all((package.parent / name).is_dir() for name in modules.values()):
            return None  # Spark was not installed by pip
        content = [str(package), *sorted(entry.name for entry in package.iterdir()), *modules]
        home = cache / f"spark-{hashlib.sha256(str(content).encode()).hexdigest()[:16]}"
        if not home.is_dir():
            _make(home, package, modules)
    except OSError:
        return None
    return home


def _archives(package: Path) -> list[Path]:
    return sorted((package / ARCHIVES).glob("*.zip"))


def _make(home: Path, package: Path, modules: dict[str, str]) -> None:
    """Make it beside its place and rename it: nobody sees half of it, and of two that make it at once one wins."""
    fresh = home.with_name(f".{home.name}.{os.getpid()}")
    try:
        for archive, module in modules.items():
            place = fresh / ARCHIVES / archive
            place.mkdir(parents=True)
            (place / module).symlink_to(package.parent / module)
        for entry in package.iterdir():
            if entry.name != ARCHIVES.parts[0]:
                (fresh / entry.name).symlink_to(entry)
        fresh.rename(home)
    except OSError:
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


if __name__ == "__main__":
    sys.stdout.write(f"{spark_home() or ''}\n")
