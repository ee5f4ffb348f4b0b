"""One S3 server for all tests that need one; each test has a bucket and a proxy of its own.

Where Arrow is not installed, as in a stage without Spark, no test asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft.object_storage import stores
from tests.object_storage.s3_server import Proxy, Storage, environment, running


@pytest.fixture(scope="session")
def storage() -> Iterator[Storage]:
    """The server."""
    with running() as found:
        yield found


@pytest.fixture
def proxy(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What this process's clients speak to; they repeat a request once."""
    made = Proxy(storage.port)
    for name, value in environment(made.endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "ATTEMPTS_MAX", 2)
    stores.forget_stores()
    yield made
    stores.forget_stores()
    made.close()
