"""Plain `ryu-manager` starts with today's eventlet, and no other program pays for it."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.setup_tree import ROOT, run

BIN = Path(sys.executable).parent
SOURCES = ROOT / "deploy" / "packaging"

APP = """
import os
from ryu.base import app_manager
from ryu.lib import hub

class Hello(app_manager.RyuApp):
    def start(self):
        super().start()
        print("hello from an app", flush=True)
        os._exit(7)
"""


@pytest.mark.parametrize(
    "command",
    [
        [BIN / "ryu-manager", "--version"],
        [BIN / "ryu", "run", "--version"],
        [BIN / "python", BIN / "ryu-manager", "--version"],
        [BIN / "python", "-m", "ryu.cmd.manager", "--version"],
        [BIN / "python", "-X", "dev", "-W", "error::Warning:eventlet", "-mryu.cmd.manager", "--version"],
    ],
    ids=lambda command: " ".join(Path(word).name for word in command),
)
def test_every_way_to_start_ryu(command: Sequence[str | Path], tmp_path: Path) -> None:
    done = run(*command, cwd=tmp_path, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.stdout.split() == ["ryu-manager", "4.34"]


def test_nothing_but_ryu_speaks(tmp_path: Path) -> None:
    """Without cached byte code every SyntaxWarning of Ryu's would be shown, and eventlet's banner always is."""
    done = run(BIN / "ryu-manager", "--version", cwd=tmp_path, env={"PYTHONPYCACHEPREFIX": str(tmp_path / "no-cache")})
    assert done.stderr == ""


def test_an_application_is_run(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(APP)
    assert "hello from an app" in run(BIN / "ryu-manager", "hello.py", cwd=tmp_path, status=7).stdout


@pytest.mark.parametrize("arguments", [["ryu-manager"], ["apps/fabric.py", "-m", "ryu.cmd.manager"]])
def test_other_programs_do_not_load_eventlet(arguments: list[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print('eventlet' in sys.modules)")
    assert run(BIN / "python", program, *arguments).stdout == "False\n"


def test_most_programs_load_nothing() -> None:
    program = "import sys; print([name for name in sys.modules if name.startswith('heddle')])"
    assert run(BIN / "python", "-c", program).stdout == "[]\n"


def test_a_broken_eventlet_does_not_break_the_start(tmp_path: Path) -> None:
    """The interpreter comes up silently; what is wrong is then Ryu's to say, in its own words."""
    (tmp_path / "eventlet").mkdir()
    (tmp_path / "eventlet" / "__init__.py").write_text("raise RuntimeError('broken on purpose')")
    program = tmp_path / "ryu-manager"
    program.write_text("print('up')")
    done = run(BIN / "python", program, env={"PYTHONPATH": str(tmp_path)})
    assert (done.stdout, done.stderr) == ("up\n", "")


def test_without_its_module_the_line_is_silent_elsewhere(tmp_path: Path) -> None:
    """What an incomplete uninstallation leaves behind must not print at every interpreter start."""
    line = (SOURCES / "heddle_ryu_manager.pth").read_text()
    assert line.count("\n") == 1, "site runs a .pth file line by line"
    program = tmp_path / "program.py"
    program.write_text(f"import sys; sys.modules['heddle_ryu_manager'] = None\n{line}")
    assert run(BIN / "python", program).stderr == ""


def test_installed_files_are_those_of_the_tree() -> None:
    installed = run(BIN / "python", "-c", "import heddle_ryu_manager as m; print(m.__file__)").stdout.strip()
    assert Path(installed).read_text() == (SOURCES / "heddle_ryu_manager.py").read_text()
    assert Path(installed).with_suffix(".pth").read_text() == (SOURCES / "heddle_ryu_manager.pth").read_text()


def test_no_lock_is_left_behind_that_would_block_every_greenlet(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(APP)
    assert "not greened" not in run(BIN / "ryu-manager", "hello.py", cwd=tmp_path, status=7).stderr


def test_a_debugger_finds_threads_as_they_are(tmp_path: Path) -> None:
    program = tmp_path / "ryu-manager"
    program.write_text("import threading; print(threading.current_thread.__module__)")
    usual, debugged = (run(BIN / "python", program, *more).stdout for more in ((), ("--enable-debugger",)))
    assert (usual, debugged) == ("eventlet.green.threading\n", "threading\n")
