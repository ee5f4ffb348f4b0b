"""Each page of the documentation, with every command and program in it, run as a reader would."""

import subprocess
import sys

import pytest
from _pytest.mark import ParameterSet

from tests.documented.__main__ import INSIDE
from tests.documented.blocks import pages
from tests.documented.machine import inside
from tests.documented.table import table
from tests.tidy.repository import ROOT


def in_stages() -> list[ParameterSet]:
    """Each page with the mark of the stage that has what it needs."""
    return [pytest.param(page, marks=getattr(pytest.mark, table().of(page).stage), id=page) for page in pages()]


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", in_stages())
def test_a_page_holds(page: str) -> None:
    command = inside([sys.executable, "-m", "tests.documented", INSIDE, page])
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
