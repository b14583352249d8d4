"""Where Heddle's own files and programs are, and how one script of the repository takes this process over."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from controller.cli.errors import CommandError


def root() -> Path:
    """The folder that holds controller/ and apps/: the repository, or site-packages in an installed wheel."""
    return Path(__file__).resolve().parents[2]


def program(name: str) -> str:
    """A console script of this very environment, whatever PATH says."""
    return str(Path(sys.executable).parent / name)


def become(script: str, arguments: Sequence[str]) -> None:
    """Replaces this process by a Python script given relative to the root. CommandError when it is not there."""
    path = root() / script
    if not path.is_file():
        raise CommandError(
            f"{path} is missing: Mininet fabrics are part of the source tree, not of the installed package"
        )
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(path), *arguments])


def effective_user_id() -> int:
    return os.geteuid()
