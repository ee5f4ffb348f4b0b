"""The hot modules of the package, compiled with mypyc: an option, from the same source.

A node passes a record through some two thousand calls of Python, so compiled modules save a third to a half of its
processor time. Nothing depends on them: the package is complete without, and installing it needs no compiler. The
tests run worlds and scenarios with both and compare.

    python -m compiled                  build them and print the folder for PYTHONPATH
    HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip wheel .    a wheel that contains them

- `compiled.modules`: which modules, and why the others are not.
- `compiled.constructors`: gives dataclasses constructors that can be compiled.
- `compiled.extension`: one run of mypyc and the C compiler.
- `compiled.build`: a complete package with compiled modules, kept in the user's cache folder.

Source: ADR 116; mypyc's documentation on native classes and dataclasses.
"""
