"""Makes Ryu 4.34's own programs start with today's eventlet. It decides nothing else and does nothing elsewhere.

The .pth file of the same name imports this module at interpreter start when the word "ryu" is on the command line;
here it is settled whether the program really is one of Ryu's. Any other program keeps its start-up time and its
warnings. docs/decisions/0003 says why.
"""

import contextlib
import sys
import warnings
from collections.abc import Sequence
from os.path import basename

_DEBUGGER = "--enable-debugger"
PROGRAMS = frozenset({"ryu-manager", "ryu", "ryu.cmd.manager", "ryu.cmd.ryu_base"})


def program(argv: Sequence[str], orig_argv: Sequence[str]) -> str:
    """The script's file name, or the module's name under `python -m`, where `argv[0]` still reads "-m" at this time."""
    if not argv:
        return ""
    if argv[0] != "-m":
        return basename(argv[0])
    # The module's name is the word before the program's own arguments: `-m NAME` or `-mNAME`.
    return orig_argv[len(orig_argv) - len(argv)].removeprefix("-m")


def mend() -> None:
    """Gives eventlet the name that Ryu imports, and keeps warnings about other people's code off the terminal."""
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # Ryu compares with `is not 0` and has stray escapes: shown whenever its byte code is not cached.
    warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*[/.]ryu[/.]")
    # Without a working eventlet Ryu's own error is the clearer one, and an interpreter start must not fail here.
    with contextlib.suppress(Exception):
        import eventlet

        if _DEBUGGER not in sys.argv:
            # Ryu does this in two steps and opens its log between them, with a lock that the second step cannot reach:
            # "1 RLock(s) were not greened". Only for its debugger does it leave threads as they are.
            eventlet.monkey_patch()
        from eventlet import wsgi

        if not hasattr(wsgi, "ALREADY_HANDLED"):
            # Ryu returns it after a WebSocket has ended. eventlet's WebSocket code itself tells its server by then
            # that the response is out, so an empty body is all that is left to say.
            wsgi.ALREADY_HANDLED = ()


if program(sys.argv, sys.orig_argv) in PROGRAMS:
    mend()
