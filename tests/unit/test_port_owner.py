"""Who listens on a port: with real sockets and processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes import free_port
from heddle.southbound.port_owner import port_owner

LISTENER = """\
import socket, sys
listener = socket.create_server(("{host}", 0){more})
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_nobody() -> None:
    assert port_owner(free_port()) is None


def test_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        owner = port_owner(listener.getsockname()[1])
    assert owner is not None
    assert owner.pid == os.getpid()
    assert str(owner).endswith(f"(pid {os.getpid()}, user {owner.user})")


@pytest.mark.parametrize(("host", "more"), [("127.0.0.1", ""), ("::1", ", family=socket.AF_INET6")])
def test_another_process_is_named_by_its_script(host: str, more: str, tmp_path: Path) -> None:
    script = tmp_path / "other_controller.py"
    script.write_text(LISTENER.format(host=host, more=more))
    with subprocess.Popen(
        [sys.executable, "-u", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        owner = port_owner(port)
        process.communicate()
    assert owner is not None
    assert owner.pid == process.pid
    assert owner.name.endswith("other_controller.py")


def test_a_connection_is_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        assert port_owner(client.getsockname()[1]) is None


def test_a_process_of_another_user_is_said_to_be_one(tmp_path: Path) -> None:
    """As an unprivileged user sees it: the table has the socket, no readable process does."""
    (tmp_path / "net").mkdir()
    (tmp_path / "42").mkdir()
    line = "0: 00000000:19FD 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 1 0 100 0 0 10 0"
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address ...\n{line}\n")
    owner = port_owner(6653, tmp_path)
    assert owner is not None
    assert owner.pid is None
    assert str(owner) == "a process of user root (its pid is visible to root only)"


def test_proc_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    established = "   0: 0100007F:19FD 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 111 1\n"
    listening = "   1: 00000000:19FD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1\n"
    (tmp_path / "net" / "tcp").write_text(head + established + listening)
    for pid, inode, command in ((41, 111, "other"), (42, 222, "/usr/bin/ryu-manager\0apps/fabric.py")):
        descriptors = tmp_path / str(pid) / "fd"
        descriptors.mkdir(parents=True)
        (descriptors / "3").symlink_to(f"socket:[{inode}]")
        (tmp_path / str(pid) / "cmdline").write_text(f"python3\0{command}\0")
        (tmp_path / str(pid) / "comm").write_text("python3\n")
    assert str(port_owner(0x19FD, tmp_path)) == "python3 ryu-manager (pid 42, user root)"
    assert port_owner(80, tmp_path) is None
