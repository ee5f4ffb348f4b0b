"""A lease that a program without a loop holds by way of the service, and the lock that it waits for with it.

Invariant: the holder hears that its lease is lost before the lease can end, unless the program did not run meanwhile:
it gives the lease up after `HELD_SHARE` of its time without an answer.

Source: ours (ADR 087, ADR 090).
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final, Self

from pykraft.errors import CommandRejectedError, LeaseLostError, PykraftError, QuorumUnavailableError
from pykraft.kv.client import KeyValueClient
from pykraft.recipes.key_value_store import HELD_SHARE

KEEPS: Final = 3
"""How often a lease is kept in its held time."""
REVOKE_TIMEOUT_S: Final = 0.3
"""A command that a signal ends has half a second; without it the lease ends by itself."""
WAIT_MS_MAX: Final = 10_000
"""How long one request waits for a lock."""


class ClientLease:
    """A lease of this time to live, from ``with`` to the end of the block."""

    def __init__(self, client: KeyValueClient, ttl_ms: int) -> None:
        self._client = client
        self._ttl_ms = ttl_ms
        self._held_s = ttl_ms / 1_000 * HELD_SHARE
        self._kept_s = 0.0
        self.lease = 0

    def __enter__(self) -> Self:
        self._kept_s = time.monotonic()
        self.lease = self._client.ask("/v1/lease/grant", {"ttl_ms": self._ttl_ms}, changes=True)["lease"]
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(PykraftError):
            self._client.ask("/v1/lease/revoke", {"lease": self.lease}, changes=True, timeout_s=REVOKE_TIMEOUT_S)

    @property
    def pause_s(self) -> float:
        """How long until the lease should be kept."""
        return max(0.0, self._kept_s + self._held_s / KEEPS - time.monotonic())

    def keep(self) -> None:
        """Keep the lease if it is time. Errors: LeaseLostError."""
        if self.pause_s:
            return
        asked_s = time.monotonic()
        left_s = self._kept_s + self._held_s - asked_s
        try:
            if left_s > 0:
                wanted = {"lease": self.lease}
                # To keep it twice does no harm, so this is asked as often as there is time.
                self._client.ask("/v1/lease/keep", wanted, changes=False, timeout_s=min(left_s, self._held_s / KEEPS))
                self._kept_s = asked_s
        except CommandRejectedError as error:
            raise LeaseLostError(str(error)) from error
        except PykraftError as error:
            if time.monotonic() >= self._kept_s + self._held_s:
                raise LeaseLostError(f"lease {self.lease} of {self._ttl_ms} ms could not be kept: {error}") from error
            return
        if left_s <= 0:
            raise LeaseLostError(f"lease {self.lease} of {self._ttl_ms} ms could not be kept in time")

    def lock(self, name: str, holder: str, timeout_s: float) -> dict[str, Any]:
        """Wait for this lock; returns its place, with the fencing token.

        Errors: LeaseLostError; QuorumUnavailableError when the time is over; those of `KeyValueClient.ask`.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.keep()
            wait_ms = int(max(0.0, min(self.pause_s, deadline_s - time.monotonic())) * 1_000)
            wanted = {"name": name, "lease": self.lease, "holder": holder, "wait_ms": min(wait_ms, WAIT_MS_MAX)}
            # Whoever asks again with the same lease has the same place, so an unknown outcome does no harm.
            place = self._client.ask("/v1/lock", wanted, changes=False, timeout_s=self._held_s / KEEPS)
            if place["held"]:
                self.keep()
                return place
            if time.monotonic() >= deadline_s:
                ahead = place["ahead"]
                raise QuorumUnavailableError(f"lock {name!r} was not free within {timeout_s:g} s: {ahead} ahead")
