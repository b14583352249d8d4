"""How a command fails: what it says and the exit code it leaves. It decides nothing about which failure it is."""

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What scripts can rely on."""

    OK = 0
    FAILED = 1  # The controller, or the machine, could not do it.
    BAD_INPUT = 2  # The command line, a file, or a name in them is wrong.
    NO_CONTROLLER = 3


class CommandError(Exception):
    """Everything that is wrong, one sentence each, in the words the user should read."""

    def __init__(self, problems: str | Iterable[str], exit_code: ExitCode = ExitCode.FAILED) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        self.exit_code = exit_code
        super().__init__("; ".join(self.problems))


def bad_input(problems: str | Iterable[str]) -> CommandError:
    return CommandError(problems, ExitCode.BAD_INPUT)
