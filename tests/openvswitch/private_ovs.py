"""A private Open vSwitch for one test, and the network namespace it lives in.

`PrivateOvs` starts an ovsdb-server and a userspace ovs-vswitchd in the *current* network namespace, with all their
files in a temporary folder, and stops them by process id. Two userspace datapaths in one namespace fight over a tap
device, so every test gets a namespace of its own: `@in_namespace` runs a test function there, in a child pytest.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_INSIDE = "HEDDLE_TEST_INSIDE_NAMESPACE"
_TEST_TIMEOUT_S = 240

needs_ovs = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ovs-vswitchd") is None or shutil.which("unshare") is None,
    reason="needs root, util-linux and Open vSwitch",
)


def in_namespace(test: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a test function in new network and process namespaces, with `lo` up.

    The process namespace guarantees that nothing survives the test: its first process takes all others with it. Use
    fixtures as usual; they are made inside. Skipped without root or Open vSwitch.
    """

    @functools.wraps(test)
    def inside(*args: Any, **kwargs: Any) -> None:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        test(*args, **kwargs)

    def outside(request: pytest.FixtureRequest) -> None:
        node = f"{request.path}::{request.node.name}"
        command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", node]
        environment = {**os.environ, _INSIDE: "1"}
        done = subprocess.run(
            command,
            env=environment,
            cwd=request.config.rootpath,
            capture_output=True,
            text=True,
            timeout=_TEST_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"inside the namespace:\n{done.stdout}{done.stderr}", pytrace=False)

    if os.environ.get(_INSIDE):
        return inside
    outside.__name__, outside.__doc__ = test.__name__, test.__doc__
    # Marks such as parametrize would want the test's own arguments, which only exist inside.
    return needs_ovs(outside)


class PrivateOvs:
    """A context manager. `run_dir` holds the sockets, the database and the logs."""

    def __init__(self) -> None:
        self.run_dir = Path(tempfile.mkdtemp(prefix="ovs-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._veths: list[str] = []

    def __enter__(self) -> "PrivateOvs":
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """For every program that shall talk to this Open vSwitch."""
        folder = str(self.run_dir)
        return {**os.environ, "OVS_RUNDIR": folder, "OVS_LOGDIR": folder, "OVS_DBDIR": folder, "OVS_SYSCONFDIR": folder}

    @property
    def database(self) -> str:
        """As `ovs-vsctl --db` and OVSDB clients take it."""
        return f"unix:{self.run_dir}/db.sock"

    @property
    def switch_daemon_pid(self) -> int:
        """ovs-vswitchd, for tests that freeze or kill it."""
        return self._processes[1].pid

    @property
    def is_running(self) -> bool:
        return all(process.poll() is None for process in self._processes)

    def vsctl(self, *arguments: str) -> str:
        return self._run("ovs-vsctl", f"--db={self.database}", "--timeout=30", *arguments)

    def ofctl(self, *arguments: str) -> str:
        """`ovs-ofctl -O OpenFlow13`; a bridge's name is enough for its address."""
        return self._run("ovs-ofctl", "-O", "OpenFlow13", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self._run("ovs-appctl", *arguments)

    def add_bridge(self, name: str, dpid: int, controller: str | None = None) -> None:
        """A userspace bridge for OpenFlow 1.3 that never acts on its own (fail_mode=secure)."""
        settings = ["datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"]
        settings.append(f"other_config:datapath-id={dpid:016x}")
        self.vsctl("add-br", name, "--", "set", "bridge", name, *settings)
        if controller:
            self.set_controller(name, controller)

    def set_controller(self, bridge: str, controller: str) -> None:
        """`controller` like "tcp:127.0.0.1:6653". Reconnects within a second instead of the default of eight.

        Let it listen before: Open vSwitch 3.1 heeds max_backoff only once a connection has been made. The private
        namespace has no route by which in-band rules could be made, hence out-of-band.
        """
        settings = ["max_backoff=1000", "connection_mode=out-of-band"]
        self.vsctl("set-controller", bridge, controller, "--", "set", "controller", bridge, *settings)

    def add_veth(self, bridge: str, port: str, number: int, peer: str) -> None:
        """A veth pair: `port` in `bridge` as OpenFlow port `number`, `peer` outside, both up."""
        subprocess.run(["ip", "link", "add", port, "type", "veth", "peer", "name", peer], check=True)
        self._veths.append(port)
        for interface in (port, peer):
            subprocess.run(["ip", "link", "set", interface, "up"], check=True)
        self.vsctl("add-port", bridge, port, "--", "set", "interface", port, f"ofport_request={number}")

    def add_patch(self, a: str, a_number: int, b: str, b_number: int) -> None:
        """A cable between two bridges. Mind that taking a patch port down raises no port status."""
        a_name, b_name = f"{a}-{a_number}", f"{b}-{b_number}"
        arguments: list[str] = []
        for bridge, name, peer, number in ((a, a_name, b_name, a_number), (b, b_name, a_name, b_number)):
            arguments += ["--", "add-port", bridge, name, "--", "set", "interface", name, "type=patch"]
            arguments += [f"options:peer={peer}", f"ofport_request={number}"]
        self.vsctl(*arguments[1:])

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()  # Gentler ends take a second each and leave nothing more behind in a private folder.
            process.wait()
        self._processes.clear()
        for veth in self._veths:
            subprocess.run(["ip", "link", "delete", veth], check=False, capture_output=True)
        self._veths.clear()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def _start(self) -> None:
        database = self.run_dir / "conf.db"
        self._run("ovsdb-tool", "create", str(database), str(_SCHEMA))
        self._spawn("ovsdb-server", str(database), f"--remote=punix:{self.run_dir}/db.sock")
        self._wait_for(self.run_dir / "db.sock")
        self.vsctl("--no-wait", "init")
        self._spawn("ovs-vswitchd", self.database, "--disable-system", f"--pidfile={self.run_dir}/ovs-vswitchd.pid")
        self._wait_for(self.run_dir / "ovs-vswitchd.pid")

    def _spawn(self, program: str, *arguments: str) -> None:
        with (self.run_dir / f"{program}.out").open("wb") as output:
            process = subprocess.Popen(
                [program, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.append(process)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def _wait_for(self, path: Path) -> None:
        deadline_s = time.monotonic() + 30
        while not path.exists():
            if time.monotonic() > deadline_s or any(process.poll() is not None for process in self._processes):
                said = "\n".join(file.read_text(errors="replace") for file in self.run_dir.glob("*.out"))
                raise RuntimeError(f"Open vSwitch does not start: {said}")
            time.sleep(0.02)
