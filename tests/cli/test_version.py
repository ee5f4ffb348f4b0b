"""``pykraft version``."""

from __future__ import annotations

from click.testing import CliRunner

from pykraft import __version__
from pykraft.cli.version import version


def test_it_is_printed() -> None:
    result = CliRunner().invoke(version)
    assert (result.exit_code, result.output) == (0, f"{__version__}\n")
