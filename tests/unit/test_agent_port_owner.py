"""Whether the OpenFlow port is free, and who has it."""

import os
import socket
from pathlib import Path

from apps.port_owner import listener, port_problem


def test_a_free_port_is_no_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert port_problem("127.0.0.1", port) is None


def test_a_taken_port_names_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        port = server.getsockname()[1]
        problem = port_problem("127.0.0.1", port)
    assert problem is not None
    assert f"OpenFlow port {port} is taken by" in problem
    assert f"(pid {os.getpid()})" in problem


def test_an_address_of_another_machine_is_said() -> None:
    problem = port_problem("192.0.2.1", 6653)
    assert problem is not None
    assert problem.startswith("cannot listen on 192.0.2.1:6653")


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
        (tmp_path / str(pid) / "cmdline").write_text(command + "\0")
    assert listener(0x19FD, tmp_path) == "ryu-manager apps/fabric.py (pid 42)"
    assert listener(80, tmp_path) is None
    (tmp_path / "42" / "fd" / "3").unlink()
    assert listener(0x19FD, tmp_path) is None
