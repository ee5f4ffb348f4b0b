"""One S3 server for all tests that need one; each test has a bucket and a proxy of its own.

Where Arrow is not installed, as in a stage without Spark, no test asks for them.
"""

from collections.abc import Iterator

import pytest

from tests.object_storage.s3_server import Proxy, Storage, proxied, running


@pytest.fixture(scope="session")
def storage() -> Iterator[Storage]:
    """The server."""
    with running() as found:
        yield found


@pytest.fixture
def proxy(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What this process's clients speak to; they repeat a request once."""
    with proxied(storage, monkeypatch) as made:
        yield made
