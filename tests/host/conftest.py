"""The world that most tests of whole nodes begin with."""

import pytest

from tests.host.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Three voters, none of which leads yet."""
    return Cluster()
