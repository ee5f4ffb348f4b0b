"""TLS without data: a flood of key updates ends its connection, and data of any sizes passes whole."""

import ssl
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from pykraft.security.bounded import UNEXPLAINED_BYTES_MAX
from pykraft.security.contexts import Side
from tests.security.credentials import context, properties
from tests.security.key_updates import Records

FLOOD: Final = 2_000
HARMLESS: Final = 200


class Ends:
    """Both ends of a connection in memory; what the client sends has arrived at once, as an event loop gives it."""

    def __init__(self, folder: Path) -> None:
        values, key_log = properties(folder), folder / "keys"
        client = context(values, Side.CLIENT).current
        client.keylog_filename = str(key_log)
        self.arrived, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(to_client, self.arrived, server_hostname="localhost")
        self.server = context(values, Side.SERVER).current.wrap_bio(self.arrived, to_client, server_side=True)
        for end in (self.client, self.server) * 2:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        self.records = Records(self.client, key_log)

    def read_all(self) -> bytes:
        """Errors: ssl.SSLError for a flood."""
        found = b""
        with suppress(ssl.SSLWantReadError):
            while True:
                found += self.server.read(300_000)
        return found

    def ask_for_keys(self, count: int) -> None:
        self.arrived.write(b"".join(self.records.key_update() for _ in range(count)))


def test_flood_of_key_updates_ends_the_connection(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.ask_for_keys(FLOOD)
    with pytest.raises(ssl.SSLError, match=f"{UNEXPLAINED_BYTES_MAX} at most are read") as raised:
        ends.read_all()
    assert raised.value.reason


def test_rest_of_a_flood_is_not_read(tmp_path: Path) -> None:
    """OpenSSL gets it piece by piece: all at once, it would be worked off before anybody can count it."""
    ends = Ends(tmp_path)
    ends.ask_for_keys(5 * FLOOD)
    with pytest.raises(ssl.SSLError):
        ends.read_all()
    assert ends.arrived.pending > 3 * UNEXPLAINED_BYTES_MAX


def test_some_key_updates_between_data_change_nothing(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    for text in (b"one", b"two", b"three"):
        ends.ask_for_keys(HARMLESS)
        ends.arrived.write(ends.records.data(text))
        assert ends.read_all() == text


def test_data_pays_for_no_flood(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.arrived.write(b"".join(ends.records.data(bytes(16_000)) for _ in range(20)))
    assert len(ends.read_all()) == 320_000
    ends.ask_for_keys(FLOOD)
    with pytest.raises(ssl.SSLError, match="without data"):
        ends.read_all()


def test_messages_of_all_sizes_arrive_whole_however_they_are_read(tmp_path: Path) -> None:
    ends, rng, buffer = Ends(tmp_path), Random(1), bytearray(40_000)
    sizes = [1, 2, 16_384, 16_385, 300_000, *(rng.randrange(1, 2 ** rng.randrange(1, 20)) for _ in range(200))]
    for size_bytes in sizes:
        sent, found = rng.randbytes(size_bytes), b""
        ends.client.write(sent)
        while len(found) < size_bytes:
            if rng.random() < 0.5:
                found += ends.server.read(rng.randrange(1, 40_000))
            else:
                got: int = ends.server.read(len(buffer), buffer)  # type: ignore[assignment] # with a buffer it is their number
                found += buffer[:got]
        assert found == sent
        with pytest.raises(ssl.SSLWantReadError):
            ends.server.read(1)


def test_end_of_the_connection_passes_through(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.client.write(b"last")
    ends.arrived.write_eof()
    assert ends.server.read(10) == b"last"
    with suppress(ssl.SSLEOFError):  # Python 3.11.2 takes it for a clean end
        assert ends.server.read(10) == b""
