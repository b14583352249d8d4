"""A private Open vSwitch: its own database, sockets, logs and daemons, ended by their own process handles.

Only the daemons and their tools are here; which bridges they hold is decided in `lab_fabric`.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from lab_namespace import LabError, die_with_parent, run, stop_process
from lab_priority import SWITCH_NICENESS, favour_self
from lab_sockets import widen_packet_sockets

RUN_BASE = Path("/run/heddle")
_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_START_PATIENCE_S = 20.0
# A Unix socket's path holds 107 characters, and the longest here is "<dir>/<switch>.mgmt".
_LONGEST_DIRECTORY = 80
_TOOLS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")


class PrivateOvs:
    """Use as a context manager, inside the network namespace where the bridges shall live.

    `directory` is made and removed; it holds `db.sock` (OVSDB), pid files, logs and control sockets. The environment
    variables OVS_RUNDIR, OVS_LOGDIR and OVS_DBDIR point there meanwhile, so that plain `ovs-vsctl` works as well.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment: dict[str, str | None] = {}

    @property
    def database(self) -> str:
        return f"unix:{self.directory}/db.sock"

    @property
    def switch_pid(self) -> int:
        """Process id of ovs-vswitchd."""
        return self._processes[-1].pid

    def __enter__(self) -> "PrivateOvs":
        check_tools(_TOOLS, "apt-get install openvswitch-switch")
        self._claim_directory()
        try:
            self._set_environment()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the daemons, restores the environment and removes the directory. May be called twice."""
        while self._processes:
            stop_process(self._processes.pop())
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._environment.clear()
        shutil.rmtree(self.directory, ignore_errors=True)
        # The base goes with the last lab.
        if self.directory.parent == RUN_BASE:
            try:
                RUN_BASE.rmdir()
            except OSError:
                return

    def vsctl(self, *arguments: str) -> str:
        """`ovs-vsctl` on this database, bounded to 30 s."""
        return run(["ovs-vsctl", f"--db={self.database}", "--timeout=30", *arguments])

    def ofctl(self, *arguments: str, stdin: str | None = None) -> str:
        """`ovs-ofctl -O OpenFlow13`, at these bridges."""
        return run(["ovs-ofctl", "-O", "OpenFlow13", "--timeout=30", *arguments], stdin=stdin)

    def appctl(self, *arguments: str) -> str:
        """`ovs-appctl` at the switch daemon."""
        return run(["ovs-appctl", "--timeout=30", f"--target={self.directory}/ovs-vswitchd.ctl", *arguments])

    def widen_buffers(self) -> bool:
        """Gives the daemon's packet sockets room; see `lab_sockets`. Call again after ports were added."""
        return widen_packet_sockets(self.switch_pid)

    def _claim_directory(self) -> None:
        if len(str(self.directory)) > _LONGEST_DIRECTORY:
            raise LabError(f"{self.directory} is too long for Unix sockets; choose a shorter lab name")
        owner = self.directory / "lab.pid"
        if owner.exists():
            pid = owner.read_text().strip()
            if pid.isdigit() and _is_alive(int(pid)):
                raise LabError(f"the lab in {self.directory} is in use by process {pid}; stop it or use another name")
            # Its owner died without cleaning up; the kernel has ended its daemons and its namespace.
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        owner.write_text(f"{os.getpid()}\n")

    def _set_environment(self) -> None:
        for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"):
            self._environment[name] = os.environ.get(name)
            os.environ[name] = str(self.directory)

    def _start(self) -> None:
        here = self.directory
        run(["ovsdb-tool", "create", str(here / "conf.db"), str(_SCHEMA)])
        self._spawn("ovsdb-server", str(here / "conf.db"), f"--remote=punix:{here}/db.sock")
        self._wait_for(here / "db.sock", "ovsdb-server")
        self.vsctl("--no-wait", "init")
        self._spawn("ovs-vswitchd", self.database, niceness=SWITCH_NICENESS)
        self._wait_for(here / "ovs-vswitchd.ctl", "ovs-vswitchd")

    def _spawn(self, program: str, *arguments: str, niceness: int = 0) -> None:
        def prepare() -> None:
            die_with_parent()
            favour_self(niceness)

        command = [program, "-vconsole:off", *arguments, f"--unixctl={self.directory}/{program}.ctl", "--no-chdir"]
        command += [f"--pidfile={self.directory}/{program}.pid", f"--log-file={self.directory}/{program}.log"]
        self._processes.append(subprocess.Popen(command, preexec_fn=prepare, stdin=subprocess.DEVNULL))

    def _wait_for(self, path: Path, program: str) -> None:
        deadline = time.monotonic() + _START_PATIENCE_S
        while not path.exists():
            status = self._processes[-1].poll()
            if status is not None:
                raise LabError(f"{program} ended with status {status} at its start:\n{self._log_tail(program)}")
            if time.monotonic() > deadline:
                raise LabError(f"{program} did not start within {_START_PATIENCE_S:.0f} s:\n{self._log_tail(program)}")
            time.sleep(0.02)

    def _log_tail(self, program: str) -> str:
        log = self.directory / f"{program}.log"
        return "\n".join(log.read_text().splitlines()[-10:]) if log.exists() else "(no log)"


def check_tools(names: Iterable[str], cure: str) -> None:
    """Raises LabError that names every missing program at once."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        raise LabError(f"not installed: {', '.join(missing)}; {cure}")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
