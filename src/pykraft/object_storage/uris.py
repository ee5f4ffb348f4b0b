"""Names of files and folders in object storage: ``s3://bucket/n1/__cluster_metadata-0``.

Everything that reads a log takes a `Path`. A `UriPath` is one whose text is the URI, so names, parents and error
messages come out right, and `pykraft.object_storage.files.Files` tells it from a path of this machine.

Invariant: a `UriPath` has a scheme that the library knows, a bucket (container, host) and no credential: what a URI
holds gets into plans, checkpoints and messages.

Source: RFC 3986; the URIs of Apache Arrow's file systems.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PosixPath, PurePath, PurePosixPath
from typing import Final, NoReturn, Self

from pykraft.errors import UsageError

SCHEMES: Final[Mapping[str, str]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "hdfs": "hdfs",
    "viewfs": "viewfs",
}
"""Scheme, and the library's name of it; Hadoop's ``s3a`` is in many a Spark job."""
WRITTEN_SCHEMES: Final = ("s3", "s3a", "gs", "gcs", "abfs", "abfss")
"""Of object storage with conditional writes."""
_URI: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/]*)(?P<rest>.*)", re.DOTALL)
_PARAMETERS: Final = re.compile(r"\?[A-Za-z_.-]+=")
_NAMES_A_USER: Final = frozenset({"abfs", "abfss", "hdfs"})
"""Schemes in which the word before an @ is a container or a user, and not a key."""


class UriPath(PosixPath):
    """A file or folder in object storage. Its text is the URI; only `Files` can look at it."""

    def __str__(self) -> str:
        scheme, *rest = self.parts
        return f"{scheme}//{'/'.join(rest)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PurePath) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(PurePosixPath(*self.parts))

    @property
    def scheme(self) -> str:
        """Such as ``s3``."""
        return self.parts[0].removesuffix(":")

    @property
    def authority(self) -> str:
        """The bucket, ``container@account`` or ``host:port``."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """What follows the authority; empty for the whole bucket."""
        return "/".join(self.parts[2:])

    def resolve(self, strict: bool = False) -> Self:  # noqa: FBT001, FBT002 - pathlib's signature
        """Itself: there are no links and no working directory."""
        del strict
        return self

    def absolute(self) -> Self:
        return self

    def is_dir(self, **_: bool) -> bool:
        """True: who asks this after a listing failed shall report the failure, and not pass over a folder."""
        return True

    def stat(self, **_: bool) -> NoReturn:
        """Never: the file system of this machine does not know it."""
        raise AssertionError(f"{self} is not a file of this machine")


def is_uri(text: str) -> bool:
    """Whether this names something by a scheme."""
    return _URI.match(text) is not None


def located(text: str) -> Path:
    """The path of this machine, or the `UriPath`, that a text names.

    Errors: UsageError for an unknown scheme, a missing bucket, and for a URI with a credential, which is not repeated.
    """
    match = _URI.match(text)
    if match is None:
        return Path(text)
    scheme, authority, rest = match["scheme"].lower(), match["authority"], match["rest"]
    if scheme == "file":
        if authority:
            raise UsageError(f"file://{_hidden(authority)}{rest}: a file has no host; give file:///folder or a path")
        return Path(rest)
    if scheme not in SCHEMES:
        raise UsageError(f"{scheme}://…: unknown scheme; known are {', '.join(SCHEMES)} and file")
    user, at, _ = authority.rpartition("@")
    has_key = at and (":" in user or scheme not in _NAMES_A_USER)
    if (has_key and user != "anonymous") or _PARAMETERS.search(rest):
        raise UsageError(
            f"{scheme}://{_hidden(authority)}/…: give no key and no setting in a URI, which gets into plans and "
            "messages; credentials and endpoint come from the environment or the configuration files"
        )
    if not authority:
        hint = "hdfs://default/…" if scheme in ("hdfs", "viewfs") else f"{scheme}://bucket/…"
        raise UsageError(f"{text}: names no {'host' if scheme in ('hdfs', 'viewfs') else 'bucket'}; give {hint}")
    return UriPath(f"{scheme}://{authority}{rest}")


def restored(path: Path) -> Path:
    """The same path, as a `UriPath` if it was made from the text of one: ``Path`` makes one slash of two."""
    if isinstance(path, UriPath) or not path.parts or path.parts[0].removesuffix(":") not in SCHEMES:
        return path
    return UriPath(*path.parts) if path.parts[0].endswith(":") and len(path.parts) > 1 else path


def _hidden(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    return f"…@{host}" if user and at else host
