"""The node's side of an embedded node: its driver, and the application's calls to its host.

All methods run on the node's loop; any thread may read the properties. Invariant: an error of the application goes back
to the application; any other exception in a call ends the node.

Source: Kafka's ``KafkaRaftManager``.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence

from pykraft.config import NodeConfig
from pykraft.core.status import Status
from pykraft.errors import NotRunningError, PykraftError, UsageError
from pykraft.host.host import Host
from pykraft.host.metrics import Metrics
from pykraft.server.driver import Driver


class Engine:
    """Runs one driver, once."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._is_stopped = False

    async def run(
        self,
        config: NodeConfig,
        *,
        sockets: Mapping[str, Sequence[socket.socket]],
        is_guest: bool,
        begin: Callable[[Host], None],
        begun: Callable[[], None],
    ) -> None:
        """Open, recover, call ``begin``, take the first step, call ``begun``, and serve until the end.

        Errors: see `pykraft.server.driver.Driver`.
        """
        loop = asyncio.get_running_loop()
        if self._is_stopped:
            return
        self._driver = driver = Driver(config, loop, sockets=sockets, is_guest=is_guest)

        def on_begin() -> None:
            begin(driver.host)
            loop.call_soon(begun)

        await driver.run(begin=on_begin)

    def call(self, act: Callable[[Host], object], refused: Callable[[PykraftError], object]) -> None:
        """Call the host; ``refused`` gets the error if the caller made one."""
        if self._driver is None or self._driver.has_ended:
            refused(NotRunningError("the node has ended"))
            return
        try:
            act(self._driver.host)
        except UsageError as error:
            refused(error)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self._driver.fail(error)

    def metrics(self, answer: Callable[[Metrics], object]) -> None:
        """Pass the current metrics to ``answer``."""
        answer({} if self._driver is None else self._driver.metrics())

    def leave(self, timeout_ms: int) -> None:
        """Begin a graceful shutdown."""
        if self._driver is not None:
            self._driver.shut_down(timeout_ms)

    def stop(self) -> None:
        """End the node now."""
        self._is_stopped = True
        if self._driver is not None:
            self._driver.stop(None)

    def fail(self, error: BaseException) -> None:
        """End the node with this error; the first one counts."""
        if self._driver is not None:
            self._driver.fail(error)

    @property
    def host(self) -> Host | None:
        """The host; None before `run` has opened it."""
        return None if self._driver is None else self._driver.host

    @property
    def status(self) -> Status | None:
        """The host's status, from any thread; None before `run` has opened it."""
        return None if self._driver is None else self._driver.host.status
