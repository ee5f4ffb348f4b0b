"""`pykraft new`: a project to begin with: a state machine, a web application of it, tests, and three nodes with Docker.

The files are in ``new_project``, under the name ``myapp``. Invariant: nothing that exists is changed.

Source: our own; docs/embedding.md explains what is in the files.
"""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from pykraft.cli.storage import random_uuid
from pykraft.errors import UsageError
from pykraft.types import uuid_text

PLACES: Final = {
    "Dockerfile": "Dockerfile",
    "README.md": "README.md",
    "compose.yaml": "compose.yaml",
    "dockerignore": ".dockerignore",
    "gitignore": ".gitignore",
    "pyproject.toml": "pyproject.toml",
    "init.py": "myapp/__init__.py",
    "counters.py": "myapp/counters.py",
    "web.py": "myapp/web.py",
    "test_myapp.py": "tests/test_myapp.py",
}
"""By the name of a file in ``new_project``, without its last suffix: where it goes."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder to write to; NAME by default.")
def new(*, name: str, folder: Path | None) -> None:
    """Write a project to begin with: a state machine, a web application of it, tests, and three nodes with Docker.

    NAME becomes the name of its Python package. The folder must be new or empty.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name in {"pykraft", "tests"}:
        raise UsageError(f"{name!r} cannot be a package: give small letters, digits and _, such as my_app")
    root = folder or Path(name)
    cluster_id = uuid_text(random_uuid())
    try:
        if root.exists() and any(root.iterdir()):
            raise UsageError(f"{root} is not empty: give another --folder")
        for source, place in PLACES.items():
            text = files("pykraft.cli").joinpath("new_project", f"{source}.txt").read_text()
            path = root / place.replace("myapp", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("myapp", name).replace("CLUSTER-ID", cluster_id))
    except OSError as error:
        raise UsageError(f"{error.filename or root}: {error.strerror}") from error
    click.echo(f"Wrote {click.format_filename(root)}: its README.md has the two commands that run it")
