"""One run of mypyc and the C compiler, as ``setup.py build_ext`` does it, in a folder that holds a copy of the package.

    python -m compiled.extension build_ext --build-lib OUT --build-temp TEMP

It runs in a process of its own, because setuptools and mypyc work in the current folder.

Source: mypyc's documentation, ``mypycify``.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, Final

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

from compiled.modules import OPT_LEVEL, compiled_files

NAME: Final = "pykraft"
"""The shared code of all modules is in ``pykraft__mypyc``, beside the package."""
OPTIONS: Final = """\
[mypy]
mypy_path = src
explicit_package_bases = true
namespace_packages = true
follow_imports_for_stubs = true
ignore_missing_imports = true

# Without the modules that it imports, mypy finds no order in which to see the types of its tables.
[mypy-pykraft.protocol.messages]
ignore_errors = true
"""
"""The strict check of the sources is another step; this one only has to know the types."""


class BuildOnAllCores(build_ext):  # type: ignore[misc] # setuptools has no types
    """Compiles several files at a time: nearly all of them belong to one extension, and setuptools takes one by one."""

    def build_extensions(self) -> None:
        """Build all extensions."""
        compile_in_turn = self.compiler.compile

        def compile_all(sources: Sequence[str], *arguments: Any, **words: Any) -> list[str]:  # noqa: ANN401 - as given
            def compile_one(source: str) -> list[str]:
                made: list[str] = compile_in_turn([source], *arguments, **words)
                return made

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(chain.from_iterable(pool.map(compile_one, sources)))

        self.compiler.compile = compile_all
        super().build_extensions()


def main() -> None:
    """Compile the modules of ``src/pykraft`` below the current folder."""
    options = Path("mypy.ini")
    options.write_text(OPTIONS)
    files = [str(file) for file in compiled_files(Path("src/pykraft"))]
    options_of_mypy = ["--config-file", str(options), *files]
    extensions = mypycify(options_of_mypy, opt_level=OPT_LEVEL, debug_level="0", multi_file=True, group_name=NAME)
    setup(name=NAME, packages=[], ext_modules=extensions, cmdclass={"build_ext": BuildOnAllCores})


if __name__ == "__main__":
    main()
