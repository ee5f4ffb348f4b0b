"""Which properties are secrets, and what is shown in their place.

Invariant: a value that is shown to anybody (a log, an error, a report) is masked if the name of its property says that
it is a secret, as Kafka masks those of its type PASSWORD.

Source: Kafka's ``ConfigDef.Type.PASSWORD``, ``Password.HIDDEN``, ``RecordRedactor``.
"""

import re
from typing import Final

MASK: Final = "***"
_SECRET: Final = re.compile(
    r"password|secret|credential|jaas\.config|private\.key|assertion|keystore\.(key|certificate)|truststore\.certificate",
    re.IGNORECASE,
)
"""Configurations of Kafka's type PASSWORD, and other names that say so."""


def is_secret(name: str) -> bool:
    """Whether the value of this property may be shown to nobody."""
    return _SECRET.search(name) is not None
