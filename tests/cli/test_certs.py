"""`pykraft certs`: what it writes, that nothing is overwritten, and that wrong words are refused."""

import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from pykraft.cli.certs import certs
from pykraft.errors import UsageError
from pykraft.security.contexts import Side
from tests.security.credentials import context


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(certs, ["--folder", str(folder), *words], catch_exceptions=False)


def test_authority_is_made_once_and_signs_each_node(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "certs"
    assert run(folder, "--host", "localhost", "--host", "127.0.0.1", "--days", "3", "node1").output.splitlines() == [
        f"Wrote {folder}/{name}.pem" for name in ("ca-key", "ca", "node1")
    ]
    assert run(folder, "node2").output == f"Wrote {folder}/node2.pem\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    own = x509.load_pem_x509_certificate((folder / "node1.pem").read_bytes())
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node1", "localhost"]
    values = {
        f"ssl.{key}.location": str(folder / name) for key, name in (("keystore", "node2.pem"), ("truststore", "ca.pem"))
    }
    for side in Side:
        assert isinstance(context({**values, "ssl.client.auth": "required"}, side).current, ssl.SSLContext)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    run(tmp_path, "node1")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=r"node1\.pem exists"):
        run(tmp_path, "node1")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["ca", "ca-key", "../node1", ".", ""])
def test_name_that_would_be_another_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        run(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\n"])
def test_foreign_authority_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ca-key.pem").write_bytes(content)
    with pytest.raises(UsageError, match="no authority that pykraft certs wrote"):
        run(tmp_path, "node1")


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        run(tmp_path / "file" / "certs", "node1")
