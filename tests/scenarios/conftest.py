"""The flag that rewrites scenario files; a human reads the diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the scenarios tell now; read the diff")
