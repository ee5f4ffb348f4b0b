"""A client that asks for new keys again and again, which no library does: records of TLS 1.3 from its traffic secret.

Source: RFC 8446 §4.6.3 (KeyUpdate), §5.2 and §5.3 (records), §7.1 to §7.3 (keys).
"""

import ssl
import struct
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

_SUITE: Final = "TLS_AES_256_GCM_SHA384"
_HANDSHAKE, _DATA = b"\x16", b"\x17"
_KEY_UPDATE_REQUESTED: Final = b"\x18\0\0\1\1"


class Records:
    """What a client sends after its handshake: data, and key updates that ask for one in return."""

    def __init__(self, tls: ssl.SSLObject, key_log: Path) -> None:
        """``tls`` has finished its handshake and written nothing; its context logs secrets to ``key_log``."""
        cipher = tls.cipher()
        assert cipher is not None
        assert cipher[0] == _SUITE
        *_, secret = (line.split()[2] for line in key_log.read_text().splitlines() if "CLIENT_TRAFFIC_SECRET_0" in line)
        self._use(bytes.fromhex(secret))

    def data(self, content: bytes) -> bytes:
        return self._record(content + _DATA)

    def key_update(self) -> bytes:
        record = self._record(_KEY_UPDATE_REQUESTED + _HANDSHAKE)
        self._use(_derived(self._secret, b"traffic upd", 48))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret, self._count = secret, 0
        self._cipher, self._iv = AESGCM(_derived(secret, b"key", 32)), int.from_bytes(_derived(secret, b"iv", 12))

    def _record(self, inner: bytes) -> bytes:
        header = b"\x17\3\3" + struct.pack(">H", len(inner) + 16)
        nonce = (self._iv ^ self._count).to_bytes(12)
        self._count += 1
        return header + self._cipher.encrypt(nonce, inner, header)


def _derived(secret: bytes, label: bytes, size_bytes: int) -> bytes:
    info = struct.pack(">HB", size_bytes, 6 + len(label)) + b"tls13 " + label + b"\0"
    return HKDFExpand(SHA384(), size_bytes, info).derive(secret)
