"""Whole frames through the model and through Open vSwitch: the same bytes leave by the same ports.

The frames go into the ports of Open vSwitch's dummy datapath, which writes what leaves a port to a capture file. That
also checks the model's encoding: a wrong checksum would differ from Open vSwitch's incrementally updated one.
"""

import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from controller.simulation.frame import encode
from tests.openvswitch.model_pair import PORTS, DummyOvs, Pair, dummy_ovs
from tests.openvswitch.model_pipelines import RandomPipeline, fabric_like, some_packet
from tests.openvswitch.private_ovs import needs_ovs

pytestmark = needs_ovs


@pytest.fixture
def ovs() -> Iterator[DummyOvs]:
    with dummy_ovs() as running:
        for port in PORTS:
            running.vsctl("set", "interface", f"p{port}", f"options:tx_pcap={capture(running, port)}")
        yield running


def capture(ovs: DummyOvs, port: int) -> Path:
    return ovs.run_dir / f"p{port}.pcap"


def read_pcap(path: Path) -> list[bytes]:
    """The whole frames of a classic pcap file in this machine's byte order."""
    data = path.read_bytes()
    frames, offset = [], 24
    while offset + 16 <= len(data):
        (length,) = struct.unpack_from("=I", data, offset + 8)
        if offset + 16 + length > len(data):
            break
        frames.append(data[offset + 16 : offset + 16 + length])
        offset += 16 + length
    return frames


def captured(ovs: DummyOvs, expected: int) -> Counter[tuple[int, bytes]]:
    """What left by each port, once as much as expected has, and a moment for what should not."""
    deadline_s, settled_s = time.monotonic() + 20, None
    while True:
        frames = Counter((port, frame) for port in PORTS for frame in read_pcap(capture(ovs, port)))
        if frames.total() >= expected:
            settled_s = settled_s or time.monotonic()
        if time.monotonic() > deadline_s or (settled_s and time.monotonic() > settled_s + 0.3):
            return frames
        time.sleep(0.05)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_bytes_leave_by_the_same_ports(ovs: DummyOvs, seed: int) -> None:
    random = Random(seed)
    pair = Pair(ovs)
    if seed == 0:
        pair.load(*fabric_like())
    else:
        pipeline = RandomPipeline(random, hashes=False)
        pair.load(pipeline.rules, pipeline.groups)
    expected: Counter[tuple[int, bytes]] = Counter()
    for number in range(300):
        packet, in_port = some_packet(random), random.choice(PORTS)
        if packet.get("udp_src") is not None:
            packet = type(packet)(packet.headers, number.to_bytes(3, "big"))
        ovs.ask("netdev-dummy/receive", f"p{in_port}", encode(packet).hex())
        expected.update((sent.port_no, encode(sent.packet)) for sent in pair.model.forward(packet, in_port).sent)
    assert expected.total() > 50
    theirs = captured(ovs, expected.total())
    assert theirs - expected == Counter()
    assert expected - theirs == Counter()
