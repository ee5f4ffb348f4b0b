"""`pykraft certs`: a throw-away certificate authority, and a certificate for each node.

Invariant: no file is overwritten, so a second call adds nodes to the authority of the first, and keys are readable by
their owner only.

Source: our own; the commands of openssl that it stands for are in ``docs/cli.md``.
"""

from pathlib import Path
from typing import Final

import click

from pykraft.cli.parsing.value import NumberType
from pykraft.errors import UsageError
from pykraft.security.authority import NODE_DAYS, Authority, write_private

DAYS_MAX: Final = 3_650


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--folder", type=click.Path(path_type=Path), default=Path("certs"), show_default=True, help="Where to.")
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Name or address of the nodes; may be repeated.")
@click.option(
    "--days", type=NumberType(int, 1, DAYS_MAX), default=NODE_DAYS, show_default=True, help="How long they are valid."
)
@click.argument("names", nargs=-1, required=True)
def certs(*, folder: Path, hosts: tuple[str, ...], days: int, names: tuple[str, ...]) -> None:
    """Write a certificate authority, and NAME.pem for each name: key, certificate, and that of the authority.

    The first call makes the authority, ca-key.pem, and later ones use it. ca.pem is for the trust stores. Each
    certificate is for its NAME as a host, and for those of --host. Keep ca-key.pem away from the nodes.
    """
    for name in names:
        if "/" in name or name in ("", "ca", "ca-key") or name.startswith("."):
            raise UsageError(f"{name!r} cannot be the name of a certificate: give a word, such as node1")
    authority = _authority(folder)
    for name in names:
        _write(folder / f"{name}.pem", authority.issue(name, [name, *hosts], days=days))


def _authority(folder: Path) -> Authority:
    """That of the folder, or a new one. Errors: UsageError."""
    path = folder / "ca-key.pem"
    try:
        return Authority.load(path.read_bytes())
    except FileNotFoundError:
        authority = Authority.create()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: it is no authority that pykraft certs wrote: {error}") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--folder {folder}: {error.strerror}") from error
    _write(path, authority.pem)
    _write(folder / "ca.pem", authority.certificate_pem)
    return authority


def _write(path: Path, content: bytes) -> None:
    try:
        write_private(path, content)
    except FileExistsError as error:
        raise UsageError(f"{path} exists, and is not overwritten: move it away, or give another name") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    click.echo(f"Wrote {click.format_filename(path)}")
