"""Which modules are compiled: those that run for each record, each message or each step.

Left out, because they run rarely or cannot be compiled:

- ``errors``, ``sim.invariants.violation``: mypyc has no native exceptions.
- ``sim.flipped_frame``, ``protocol.cut_frame``: mypyc has no native class with ``bytes`` as its base.
- ``sim.invariants.watch``: it makes its hooks at run time.
- ``protocol.messages``, ``protocol.schema``: tables, from which functions are generated at run time.
- ``server.link_protocol``: mypyc has no native class with a base of asyncio.
- ``client.node``, ``client.life``: mypyc compiles no overloaded constructor and no asynchronous generator.
- everything for operators, start-up, snapshots and clients of Kafka.

Of the simulator, what every event of a world passes: its machines and networks, the facts and the oracles.

Source: ours (ADR 116).
"""

import os
from pathlib import Path
from typing import Final

OPT_LEVEL: Final = os.environ.get("MYPYC_OPT_LEVEL", "2")
"""How much the C compiler optimizes; tests that only compare results need nothing, which takes it half of the time."""
PATTERNS: Final = (
    "types.py",
    "core/**/*.py",
    "rpc/*.py",
    "host/*.py",
    "protocol/batch.py",
    "protocol/control.py",
    "protocol/api.py",
    "protocol/records.py",
    "protocol/primitives.py",
    "protocol/reader.py",
    "protocol/values.py",
    "protocol/writer.py",
    "log/index.py",
    "log/judge.py",
    "log/lane.py",
    "log/log.py",
    "log/log_scan.py",
    "log/open_files.py",
    "log/os_fs.py",
    "log/recovery.py",
    "log/scan.py",
    "log/segment.py",
    "log/small_files/*.py",
    "log/tail.py",
    "server/clock.py",
    "server/driver.py",
    "server/lanes.py",
    "server/link.py",
    "server/links.py",
    "server/lanes.py",
    "server/workload.py",
    "client/leadership.py",
    "client/proposals.py",
    "client/subscription.py",
    "client/subscriptions.py",
    "sim/facts/*.py",
    "sim/invariants/[!vw]*.py",
    "sim/invariants/votes.py",
    "sim/machine/*.py",
)
"""Files below ``src/pykraft``, with the wildcards of `pathlib.Path.glob`."""


def compiled_files(package: Path) -> list[Path]:
    """The files of this package folder that are compiled, sorted; each pattern finds at least one."""
    found: set[Path] = set()
    for pattern in PATTERNS:
        files = {file for file in package.glob(pattern) if file.name != "__init__.py"}
        assert files, f"no file is called {pattern}"
        found |= files
    return sorted(found)
