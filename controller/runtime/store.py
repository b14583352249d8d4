"""Where the core's facts outlive the process: what every store offers, and the one that keeps nothing.

A store decides nothing about what is worth keeping; it makes one change durable or says why it cannot. Which one the
settings ask for is decided in `stores`.
"""

from typing import Protocol

from controller.core.commands import Remember
from controller.core.events import Remembered
from controller.core.remembered import Facts


class StoreError(Exception):
    """The store cannot be used; str() names it, says why, and what to do. Starting again will not help."""


class Store(Protocol):
    """Used by one controller at a time. Nothing in it is lost when the process is killed at any moment."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    def load(self) -> Facts:
        """Everything it holds. Raises StoreError when that does not make sense."""
        ...

    def write(self, change: Remember) -> Remembered:
        """All of the change or nothing. Changes of jobs survive a loss of power as well once this returns."""
        ...

    def close(self) -> None: ...


class NoStore:
    """HEDDLE_STATE=none: everything is forgotten when the process ends, and nobody is kept waiting for that."""

    name = "none: jobs are forgotten when the controller ends"

    def load(self) -> Facts:
        return Facts()

    def write(self, change: Remember) -> Remembered:
        return Remembered(change.change_id)

    def close(self) -> None:
        return
