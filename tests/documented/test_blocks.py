"""Finding blocks and commands in Markdown."""

from pathlib import Path

import pytest

from tests.documented import blocks as module
from tests.documented.blocks import Block, blocks

PAGE = """\
A page.

```sh
first   # with a comment
second \\
  --more
cat > file <<END
third
END
# only a comment
```

1. A list

   ```properties
   # some.properties
   node.id=1
   ```

    indented
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return "page.md"


def test_blocks_are_found_in_lists_too(page: str) -> None:
    found = blocks(page)
    assert [(block.place, block.language) for block in found] == [("page.md:3", "sh"), ("page.md:15", "properties")]
    assert found[1].file_name == "some.properties"


def test_a_command_may_have_several_lines(page: str) -> None:
    assert blocks(page)[0].commands == (
        "first   # with a comment",
        "second \\\n  --more",
        "cat > file <<END\nthird\nEND",
    )


def test_a_command_that_does_not_end_is_an_error() -> None:
    with pytest.raises(AssertionError, match="does not end"):
        _ = Block("page.md", 1, "sh", "cat <<END\n").commands


def test_only_a_name_with_an_extension_names_a_file() -> None:
    names = {"# hello.py\n": "hello.py", "# a/b.py: the whole\n": "a/b.py", "# hello\n": "", "x = 1\n": ""}
    assert {text: Block("page.md", 1, "python", text).file_name for text in names} == names
