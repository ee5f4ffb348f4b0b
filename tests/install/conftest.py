"""What is published is built once for all tests of this folder."""

import pytest

from tests.install.fresh import Fresh, Published, publish


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The source distribution and the wheel of this repository."""
    return publish(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def bare(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """An environment after ``pip install pykraft``."""
    return Fresh(tmp_path_factory.mktemp("bare"), published.wheel)
