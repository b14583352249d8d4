"""The parts of the southbound link that need no socket: frames, the outgoing queue, addresses."""

import pytest
from heddle.southbound.framing import MAX_FRAME_BYTES, FrameError, FrameReader, frame
from heddle.southbound.v1 import link_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from apps.outgoing import Outgoing
from apps.southbound_settings import SettingsError, parse_southbound, read_settings


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_frames_survive_any_chopping(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(payload) for payload in payloads)
    reader = FrameReader()
    received: list[bytes] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        received += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert received == payloads
    assert reader.pending_bytes == 0


def test_a_frame_cut_off_is_noticed_at_the_end() -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"whole") + frame(b"half")[:-1]) == [b"whole"]
    assert reader.pending_bytes == 4 + 3


def test_a_peer_that_speaks_something_else_is_noticed() -> None:
    with pytest.raises(FrameError, match="does not speak this protocol"):
        FrameReader().feed(b"GET / HTTP/1.1\r\n")


def test_a_message_nobody_would_accept_is_not_sent() -> None:
    with pytest.raises(FrameError, match="longer than"):
        frame(bytes(MAX_FRAME_BYTES + 1))


def _packet(number: int) -> pb.AgentMessage:
    return pb.AgentMessage(packet_in=pb.PacketIn(in_port=number))


def _result(number: int) -> pb.AgentMessage:
    return pb.AgentMessage(batch_result=pb.BatchResult(batch_id=number))


def test_packets_are_dropped_oldest_first_and_results_never() -> None:
    queue = Outgoing(max_droppable=3, max_certain=1000)
    for number in range(10):
        queue.put(_packet(number))
        queue.put(_result(number))
    queue.put(pb.AgentMessage(port_statistics=pb.PortStatistics(request_id=1)))
    assert queue.dropped == 8
    taken = []
    while message := queue.get():
        taken.append(message)
    assert [m.batch_result.batch_id for m in taken if m.HasField("batch_result")] == list(range(10))
    assert [m.packet_in.in_port for m in taken if m.HasField("packet_in")] == [8, 9]
    assert len(queue) == 0


def test_a_controller_that_reads_nothing_overflows_the_queue() -> None:
    queue = Outgoing(max_certain=10)
    for number in range(11):
        assert not queue.overflowing
        queue.put(_result(number))
    assert queue.overflowing
    queue.clear()
    assert not queue.overflowing
    assert queue.get() is None


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("unix:/run/heddle/controller.sock", "/run/heddle/controller.sock"),
        ("tcp:127.0.0.1:6699", ("127.0.0.1", 6699)),
        ("tcp:[::1]:6699", ("::1", 6699)),
        ("tcp:controller.example:1", ("controller.example", 1)),
    ],
)
def test_addresses(text: str, target: object) -> None:
    address = parse_southbound(text)
    assert address.target == target
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["unix:relative", "tcp:127.0.0.1", "tcp::6699", "tcp:h:0", "tcp:h:65536", "tcp:h:+1", "nonsense"]
)
def test_what_is_no_address_is_said_with_examples(text: str) -> None:
    with pytest.raises(SettingsError, match=r"write unix:/run/heddle/controller.sock or tcp:127.0.0.1:6699"):
        parse_southbound(text)


def test_an_empty_environment_has_defaults() -> None:
    settings = read_settings({})
    assert settings.southbound.text == "unix:/run/heddle/controller.sock"
    assert settings.agent_id
    assert read_settings({"HEDDLE_AGENT_ID": "pod-7"}).agent_id == "pod-7"
