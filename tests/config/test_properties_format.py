r"""The text of properties files is read as Java reads it.

What `test_java_format` expects was compared with what ``java.util.Properties`` of JDK 17 makes of the same texts.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.config.properties import node_config
from pykraft.config.properties_format import Properties, is_bare, origin_of, parse_properties, with_origins
from pykraft.errors import AddressInUseError, ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("a\fb", {"a": "b"}),
        ("  a  =  b  ", {"a": "b  "}),
        ("a = = b", {"a": "= b"}),
        ("a==b", {"a": "=b"}),
        ("a : = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# a=b\n! c=d\n \t# e=f", {}),
        ("\n\r\n\r a=b", {"a": "b"}),
        ("a=b\rc=d\r\ne=f\ng=h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
        ("a=b\x0bc\x1cd\u2028e", {"a": "b\x0bc\x1cd\u2028e"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\r\n#c", {"a": "b#c"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\\n=b", {"a": "b"}),
        ("\\\n#a=b", {}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a\:b\ c=d", {"a:b c": "d"}),
        (r"\#a=b", {"#a": "b"}),
        (r"a=\t\n\r\f\z\"\\", {"a": '\t\n\r\fz"\\'}),
        (r"a=\u00fc\u00DF", {"a": "üß"}),
        (r"a=\uD83D\uDE00", {"a": "\U0001f600"}),
        ("a=1\nb=2\na=3", {"a": "3", "b": "2"}),
        ("ü=ö", {"ü": "ö"}),
        ("", {}),
    ],
)
def test_java_format(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("value", [r"\u12", r"\uZZZZ", r"\u", r"\uD83D", r"\uDE00\uD83D"])
def test_a_broken_unicode_escape_is_refused_with_its_key(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties(f"some.key={value}")
    assert (caught.value.key, caught.value.value) == ("some.key", value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        return
    "".join([*properties, *properties.values()]).encode("utf-8")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8)))
def test_what_is_escaped_like_java_does_comes_back(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in properties.items())
    assert parse_properties(text) == properties


def test_the_origin_of_a_key_is_the_line_where_its_last_value_begins() -> None:
    properties = parse_properties("# one\na=1\n\nb=2,\\\n  3\r\nc=4\na=5\nd=\\\n")
    assert properties == {"a": "5", "b": "2,3", "c": "4", "d": ""}
    assert properties.origins == {"a": "line 7", "b": "line 4", "c": "line 6", "d": "line 8"}
    assert (origin_of(properties, "b"), origin_of(properties, "e"), origin_of({"a": "1"}, "a")) == ("line 4", "", "")


def test_the_origin_names_the_file_or_the_option() -> None:
    properties = parse_properties("a=1\nb=2\n", "some.file")
    properties.give("b", "3", "--override")
    properties.give("c", "4", "--override")
    assert properties == {"a": "1", "b": "3", "c": "4"}
    assert [origin_of(properties, key) for key in "abcd"] == [
        "some.file: line 1",
        "--override",
        "--override",
        "some.file",
    ]
    assert origin_of(properties, "d", "b") == "--override"
    with pytest.raises(ConfigError, match=r"^some\.file: line 2: property b = "):
        parse_properties("a=1\nb=\\uZZ\n", "some.file")


def test_an_error_about_a_property_gets_its_origin_once() -> None:
    properties = parse_properties("a=1\n", "some.file")
    with (
        pytest.raises(AddressInUseError, match=r"^some\.file: line 1: property a = '1': no$"),
        with_origins(Properties("another.file")),
        with_origins(properties),
    ):
        raise AddressInUseError("a", "1", "no")


def test_a_line_without_a_separator_is_told() -> None:
    found = parse_properties("foo\nbar=\nbaz \t\nqux:\nlisten ers\na\\=b\nback=1\nback\nforth\nforth=1\n")
    assert found.bare == {"foo", "baz", "a=b", "back"}
    assert not found["foo"]
    assert is_bare(found, "foo")
    assert not is_bare(dict(found), "foo")


def test_a_warning_or_error_says_that_the_line_has_no_value() -> None:
    rest = "node.id=1\nlisteners=A://h:1\ncontroller.quorum.voters=1@h:1\nlog.dirs=d\n"
    what = "has no value, and is no known property"
    hint = "a line is key=value, and goes on in the next after a backslash"
    assert node_config(parse_properties(f"{rest}foo\nlistners\nlog.dir\n")).warnings == (
        f"line 5: 'foo' {what}; {hint}",
        f"line 6: 'listners' {what}; did you mean listeners?; {hint}",
        "line 7: property log.dir has no value and no effect: write log.dir=VALUE",
    )
    with pytest.raises(
        ConfigError, match=r"f: line 5: property log\.dirs is required: .*; this line has no value: write"
    ):
        node_config(parse_properties(f"{rest}log.dirs\n", "f"))
