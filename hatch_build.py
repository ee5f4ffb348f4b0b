"""Puts the compiled modules into a wheel, if asked to.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip wheel .

Such a wheel is for one Python and platform, and pip prefers it to the plain one. Without the variable nothing here
runs, the wheel is plain Python, and building it needs no compiler.

Source: hatchling's documentation of build hooks; ADR 116.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface[Any]):
    """The hook that hatchling finds in this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled modules and the tag of their platform, except for an editable install."""
        if version == "editable":
            return
        sys.path[:0] = [self.root, str(Path(self.root, "src"))]
        from compiled.build import build

        folder = build(Path(self.root))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for file in folder.rglob("*.so"):
            build_data["force_include"][str(file)] = str(file.relative_to(folder))
