"""What is in `pykraft.local.kafka.peer` now, under the name that tests know."""

from pykraft.local.kafka.peer import STOPPED_BY_SIGTERM, JavaNode

__all__ = ["STOPPED_BY_SIGTERM", "JavaNode"]
