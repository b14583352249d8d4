"""Generates the protobuf stubs when a wheel or an editable install is built. What a stub contains is protoc's decision,
what goes into the wheel besides them is pyproject.toml's."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StubsHook(BuildHookInterface[Any]):
    """Stubs are git-ignored, and hatchling leaves out what git ignores unless it is named an artifact."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (hatchling's signature)
        """Raises RuntimeError when protoc refuses a file."""
        generator = runpy.run_path(str(Path(self.root) / "proto" / "generate.py"))
        generator["write"]()
        build_data["artifacts"] += ["*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py"]
