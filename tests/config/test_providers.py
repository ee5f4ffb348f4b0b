"""Values that are elsewhere: Kafka's three providers, and that a missing value ends the start and shows no secret."""

from pathlib import Path

import pytest

from pykraft.config.properties import Properties, parse_properties
from pykraft.config.providers import resolve
from pykraft.errors import ConfigError

CLASS = "org.apache.kafka.common.config.provider"
PROVIDERS = f"""config.providers=file,env, dir
config.providers.file.class={CLASS}.FileConfigProvider
config.providers.env.class={CLASS}.EnvVarConfigProvider
config.providers.dir.class={CLASS}.DirectoryConfigProvider
"""


def resolved(text: str) -> Properties:
    properties = parse_properties(PROVIDERS + text, "FILE")
    resolve(properties)
    return properties


def test_values_come_from_files_folders_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("word=s3cret\nother=x\n")
    monkeypatch.setenv("WORD", "from outside")
    found = resolved(
        f"a=${{file:{tmp_path}/secrets.properties:word}}\nb=${{env:WORD}}\nc=${{dir:{tmp_path}:secrets.properties}}\n"
        f"d=${{file:{tmp_path}/secrets.properties:word}}-${{file:{tmp_path}/secrets.properties:other}}\n"
    )
    assert found == {"a": "s3cret", "b": "from outside", "c": "word=s3cret\nother=x\n", "d": "s3cret-x"}


def test_value_of_a_provider_that_nobody_names_stays() -> None:
    properties = parse_properties("a=${env:HOME}\nb=${x}\nc=$5")
    resolve(properties)
    assert properties == {"a": "${env:HOME}", "b": "${x}", "c": "$5"}
    assert resolved("a=${vault:x:y}") == {"a": "${vault:x:y}"}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("${env:NO_SUCH_WORD}", "there is no NO_SUCH_WORD"),
        ("${env:path:NO_SUCH_WORD}", "the path is empty"),
        ("${file:FOLDER/nothing:key}", "No such file"),
        ("${file:FOLDER/file:key}", "there is no key"),
        ("${file:FOLDER/broken:key}", "is no file of properties"),
        ("${file:FOLDER/binary:key}", "codec can't decode"),
        ("${file:FOLDER/large:key}", "has more than 1048576 bytes"),
        ("${dir:FOLDER:../file}", "is no name of a file"),
        ("${dir:FOLDER:nothing}", "No such file"),
    ],
)
def test_value_that_cannot_be_found_is_refused_with_its_line(value: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("word=s3cret")
    (tmp_path / "broken").write_text("word=s3cret\\u12")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"#" * (1024 * 1024 + 1))
    text = value.replace("FOLDER", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        resolved(f"ssl.key.password={text}")
    assert str(caught.value).startswith(f"FILE: line 5: property ssl.key.password = '***': {text}: ")
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("config.providers=vault", "config.providers.vault.class"),
        ("config.providers=vault\nconfig.providers.vault.class=com.example.Vault", "config.providers.vault.class"),
        ("config.providers.file.param.allowed.paths=/etc", "config.providers.file.param.allowed.paths"),
    ],
)
def test_provider_that_is_unknown_is_refused(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(parse_properties(text))
    assert caught.value.key == key
