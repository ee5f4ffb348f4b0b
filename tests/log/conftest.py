"""Directories to plant damage in."""

import shutil
from pathlib import Path

import pytest

from tests.log.data_directory import GOLDEN, make_node


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The partition directory of a node that was stopped in order; its parent is the log directory."""
    return make_node(tmp_path / "data")


@pytest.fixture
def kafkas(tmp_path: Path) -> Path:
    """The partition directory of a Kafka node, with snapshots and a log that does not start at 0."""
    shutil.copytree(GOLDEN / "dynamic/disk/n9/data", tmp_path / "kafka")
    return tmp_path / "kafka/__cluster_metadata-0"
