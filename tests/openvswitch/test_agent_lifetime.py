"""How the agent starts, what it starts, and how both end."""

import os
import signal
import socket
import sys
from pathlib import Path

from tests.openvswitch.agent_harness import Controller, RyuApp, wait_until
from tests.openvswitch.fake_switch import FakeSwitch
from tests.openvswitch.private_ovs import in_namespace

# A controller that only writes down that it lives. It does not watch its standard input, on purpose.
_CHILD = """
import os, signal, sys, time
with open("child.pids", "a") as file:
    file.write(f"{os.getpid()} {os.environ['HEDDLE_SOUTHBOUND']} {sys.argv[1]}\\n")
%s
"""


def _controller_package(folder: Path, body: str) -> None:
    """`-m controller.runtime` is looked for in the working folder first."""
    runtime = folder / "controller" / "runtime"
    runtime.mkdir(parents=True)
    (folder / "controller" / "__init__.py").touch()
    (runtime / "__init__.py").touch()
    (runtime / "__main__.py").write_text(_CHILD % body)


def _children(folder: Path) -> list[int]:
    path = folder / "child.pids"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def _gone(pid: int) -> bool:
    """Ended; a zombie whose parent died before it counts."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@in_namespace
def test_the_controller_dies_with_a_killed_agent(tmp_path: Path) -> None:
    _controller_package(tmp_path, "time.sleep(600)")
    address = f"unix:{tmp_path}/c.sock"
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=address) as agent:
        wait_until(lambda: len(_children(tmp_path)) == 1, "the controller is started")
        (line,) = (tmp_path / "child.pids").read_text().splitlines()
        assert line.split()[1:] == [address, "--exit-with-parent"]
        agent.wait_for_log("none answers on")
        os.kill(agent.process.pid, signal.SIGKILL)
        (child,) = _children(tmp_path)
        wait_until(lambda: _gone(child), "the controller ends")


@in_namespace
def test_sigterm_and_sigint_end_both_in_order(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        folder = tmp_path / number.name
        folder.mkdir()
        _controller_package(folder, "time.sleep(600)")
        with RyuApp("fabric", folder, HEDDLE_SOUTHBOUND=f"unix:{folder}/c.sock") as agent:
            wait_until(lambda where=folder: len(_children(where)) == 1, "the controller is started")  # type: ignore[misc]
            switch = FakeSwitch(6653, 1, [bytes.fromhex("020000000101")])
            agent.wait_for_log("is up")
            agent.process.send_signal(number)
            assert agent.process.wait(30) == 0
            assert _gone(_children(folder)[0])
            assert switch.closed.wait(20)
            assert "Traceback" not in agent.log


@in_namespace
def test_a_dead_controller_is_started_again(tmp_path: Path) -> None:
    _controller_package(tmp_path, "time.sleep(0.2); sys.exit(3) if not os.path.exists('second') else time.sleep(600)")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=f"unix:{tmp_path}/c.sock") as agent:
        agent.wait_for_log("ended with exit status 3")
        (tmp_path / "second").touch()
        wait_until(lambda: len(_children(tmp_path)) >= 2, "a second start")
        wait_until(lambda: not _gone(_children(tmp_path)[-1]), "it lives")


@in_namespace
def test_a_configuration_error_of_the_controller_ends_everything(tmp_path: Path) -> None:
    _controller_package(tmp_path, "print('topology.yaml:3: no such leaf', file=sys.stderr); sys.exit(2)")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=f"unix:{tmp_path}/c.sock") as agent:
        assert agent.process.wait(30) == 2
        assert len(_children(tmp_path)) == 1
        assert "topology.yaml:3: no such leaf" in agent.log
        assert agent.log.rstrip().endswith("heddle: the controller's configuration is wrong; its message is above")
        assert "Traceback" not in agent.log


@in_namespace
def test_a_controller_that_came_first_is_used_and_one_that_was_ending_replaced(tmp_path: Path) -> None:
    """Two units that start at the same moment, or an agent that comes back while the last one's controller ends."""
    _controller_package(tmp_path, "sys.exit(4) if not os.path.exists('over') else time.sleep(600)")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=f"unix:{tmp_path}/c.sock") as agent:
        wait_until(lambda: len(_children(tmp_path)) >= 2, "it is tried again while nobody answers")
        (tmp_path / "over").touch()
        wait_until(lambda: not _gone(_children(tmp_path)[-1]), "it lives")
        assert agent.process.poll() is None
    other = tmp_path / "other"
    other.mkdir()
    _controller_package(other, "time.sleep(1); sys.exit(4)")
    with RyuApp("fabric", other, HEDDLE_SOUTHBOUND=f"unix:{other}/c.sock") as agent:
        wait_until(lambda: len(_children(other)) == 1, "a first start")
        controller = Controller(other / "c.sock")
        controller.accept()
        agent.wait_for_log("it is used")
        assert len(_children(other)) == 1


@in_namespace
def test_no_controller_is_started_where_one_answers(tmp_path: Path) -> None:
    _controller_package(tmp_path, "time.sleep(600)")
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address, HEDDLE_AGENT_ID="pod-7") as agent:
        hello = controller.accept()
        assert (hello.agent_id, hello.listen_address) == ("pod-7", "127.0.0.1:6653")
        controller.close()
        agent.wait_for_log("no controller answers")
        assert _children(tmp_path) == []


@in_namespace
def test_a_taken_port_is_said_with_the_process_that_holds_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Two listeners with SO_REUSEPORT would share the switches between them, which is worse than an error.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 6653))
        taken.listen()
        with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=f"unix:{tmp_path}/c.sock") as agent:
            assert agent.process.wait(30) == 2
            last = agent.log.rstrip().splitlines()[-1]
            assert last.startswith(f"heddle: OpenFlow port 6653 is taken by {Path(sys.executable).name} ")
            assert f"(pid {os.getpid()}, user " in last
            assert "--ofp-tcp-listen-port" in last
            assert "Traceback" not in agent.log


@in_namespace
def test_a_wrong_address_is_said_before_anything_starts(tmp_path: Path) -> None:
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND="http://controller") as agent:
        assert agent.process.wait(30) == 2
        assert "HEDDLE_SOUTHBOUND='http://controller' is not an address" in agent.log
        assert "Traceback" not in agent.log
    with RyuApp("ecmp", tmp_path, HEDDLE_TOPOLOGY="/nowhere.yaml") as agent:
        assert agent.process.wait(30) == 2
        assert "/nowhere.yaml: cannot be read" in agent.log


@in_namespace
def test_the_link_works_over_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 6699)) as server:
        server.settimeout(30)
        with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND="tcp:127.0.0.1:6699"):
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                assert int.from_bytes(connection.recv(4), "big") > 0


@in_namespace
def test_the_real_controller_is_brought_up_and_taken_down(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/c.sock"
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=address, HEDDLE_GRPC=f"unix:{tmp_path}/grpc.sock") as agent:
        agent.wait_for_log("connected to the controller on")
        child = int(agent.log.partition("--exit-with-parent (pid ")[2].partition(")")[0])
        assert not _gone(child)
        os.kill(agent.process.pid, signal.SIGKILL)
        wait_until(lambda: _gone(child), "the controller ends")
