"""TLS whose messages without data are bounded: what a peer may cost by key updates is as small as what it sends.

OpenSSL answers a KeyUpdate of 27 bytes at a cost of 20 to 40 µs, as often as one comes, and asyncio gives it up to
256 KiB at a time: one stranger with one connection could keep a node's thread for itself, and the node loses its
leadership. Invariants: OpenSSL gets small pieces, and a connection ends when much more has come than its data explains.

Source: RFC 8446 §4.6.3 (nothing limits key updates), §5.4; ours (ADR 225).
"""

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

PIECE_BYTES: Final = 16 * 1024
UNEXPLAINED_BYTES_MAX: Final = 3 * PIECE_BYTES
"""The beginning of a record may take up two pieces. Kafka's clients send no updates: Java's after 2^37 bytes."""
RECORD_OVERHEAD_BYTES: Final = 29
"""Around the data of a record: 22 bytes in TLS 1.3, 29 in 1.2 with the suites that are allowed."""
R = TypeVar("R")


class BoundedSSLObject(ssl.SSLObject):
    """An `ssl.SSLObject` that reads what has arrived piece by piece."""

    _arrived: ssl.MemoryBIO
    _pieces: ssl.MemoryBIO
    _unexplained_bytes = 0

    def read_from(self, arrived: ssl.MemoryBIO, pieces: ssl.MemoryBIO) -> None:
        """``arrived`` is what the peer has sent, ``pieces`` what OpenSSL reads."""
        self._arrived, self._pieces = arrived, pieces

    def do_handshake(self) -> None:
        self._in_pieces(super().do_handshake)
        # A long chain of certificates is no flood.
        self._unexplained_bytes = 0

    def read(self, *words: Any, **named: Any) -> Any:  # noqa: ANN401 - as it is declared there
        """As there. Errors: ssl.SSLError for a peer that sends more than its data explains."""
        found: Any = self._in_pieces(partial(super().read, *words, **named))
        size_bytes = found if isinstance(found, int) else len(found)
        self._unexplained_bytes = max(0, self._unexplained_bytes - size_bytes - RECORD_OVERHEAD_BYTES)
        return found

    def pending(self) -> int:
        """As there, with what no longer is in the buffer of the event loop; uvloop asks whether to go on reading."""
        return super().pending() + self._pieces.pending

    def unwrap(self) -> None:
        self._in_pieces(super().unwrap)

    def _in_pieces(self, act: Callable[[], R]) -> R:
        while self._pieces.pending or self._feed():
            try:
                return act()
            except ssl.SSLWantReadError:
                continue
        return act()

    def _feed(self) -> bool:
        """Pass a piece on; false when nothing has arrived. Errors: ssl.SSLError for too much that no data explains."""
        piece = self._arrived.read(PIECE_BYTES)
        if not piece:
            if self._arrived.eof and not self._pieces.eof:
                self._pieces.write_eof()
            return False
        self._pieces.write(piece)
        self._unexplained_bytes += len(piece)
        if self._unexplained_bytes > UNEXPLAINED_BYTES_MAX:
            seen = f"{self._unexplained_bytes} bytes of TLS came without data"
            error = ssl.SSLError(ssl.SSLErrorNumber.SSL_ERROR_SSL, f"{seen}, {UNEXPLAINED_BYTES_MAX} at most are read")
            # One that is not made by OpenSSL has none, and whoever reports it reads it.
            error.reason = error.strerror or ""
            raise error
        return True


class BoundedSSLContext(ssl.SSLContext):
    """An `ssl.SSLContext` for connections of an event loop."""

    sslobject_class = BoundedSSLObject

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *words: Any, **named: Any) -> BoundedSSLObject:  # noqa: ANN401
        """As there."""
        pieces = ssl.MemoryBIO()
        made = super().wrap_bio(pieces, outgoing, *words, **named)
        assert isinstance(made, BoundedSSLObject)
        made.read_from(incoming, pieces)
        return made
