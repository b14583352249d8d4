"""`heddle version`: what is installed, for bug reports."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from controller.cli import output
from controller.cli.options import JsonOption

_PACKAGES = ("heddle", "ryu", "eventlet", "grpcio", "protobuf", "ovsdbapp")


def version(as_json: JsonOption = False) -> None:
    """Show the versions of Heddle and of what it stands on."""
    versions = {name: _installed(name) for name in _PACKAGES} | {"python": platform.python_version()}
    if as_json:
        output.print_json(versions)
        return
    others = ", ".join(f"{name} {number or 'missing'}" for name, number in versions.items() if name != "heddle")
    output.stdout().print(f"heddle {versions['heddle'] or '(not installed)'} ({others})")


def _installed(name: str) -> str | None:
    try:
        return installed(name)
    except PackageNotFoundError:
        return None
