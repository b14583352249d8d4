"""The reliable queue pair against a simulated network that loses, delays, reorders and repeats packets."""

import heapq
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "mininet"))

from roce_receiver import ReceiverQueuePair
from roce_sender import SenderQueuePair
from roce_window import DelayWindow

_ACK_DELAY_S = 0.005


@dataclass(frozen=True)
class Network:
    """One-way delay is `delay_s` plus up to `jitter_s` (which reorders); loss hits data and acknowledgements alike."""

    loss: float
    duplication: float
    jitter_s: float
    seed: int
    delay_s: float = 0.005


networks = st.builds(
    Network,
    loss=st.sampled_from([0.0, 0.01, 0.2, 0.5]),
    duplication=st.sampled_from([0.0, 0.1]),
    jitter_s=st.sampled_from([0.0, 0.001, 0.05]),
    seed=st.integers(0, 1 << 30),
)


class Simulation:
    """Runs one transfer; `delivered` is what the receiver says became in order, packet by packet."""

    def __init__(self, packets: int, network: Network, window: float = 16.0, ack_every: int = 4) -> None:
        self.sender = SenderQueuePair(packets, DelayWindow(0.05, window))
        self.receiver = ReceiverQueuePair(packets, ack_every)
        self.delivered: list[int] = []
        self.now = 0.0
        self.most_under_way = 0
        self._network = network
        self._random = random.Random(network.seed)
        self._events: list[tuple[float, int, str, tuple[int, ...]]] = []
        self._count = 0
        self._arrived: set[int] = set()

    def run(self, limit_s: float = 10_000.0) -> None:
        while not self.sender.done and self.now < limit_s:
            while chosen := self.sender.next_packet(self.now):
                packet, serial, ask = chosen
                self._travel("data", (packet, serial, ask))
            self.most_under_way = max(self.most_under_way, self.sender.under_way)
            self._step()

    def _step(self) -> None:
        deadline = self.sender.next_deadline()
        if not self._events or self._events[0][0] > deadline:
            assert deadline < float("inf"), "nothing is under way, nothing may be sent, and no timer runs: stuck"
            self.now = deadline
            self.sender.on_timer(self.now)
            return
        self.now, _, kind, fields = heapq.heappop(self._events)
        if kind == "data":
            self._arrive(*fields)
        elif kind == "ack":
            cumulative, bitmap, serial = fields
            self.sender.on_ack(cumulative, bitmap, serial, self.now)
        elif self.receiver.ack_waiting:
            self._send_ack()

    def _arrive(self, packet: int, serial: int, ask: int) -> None:
        before = self.receiver.in_order
        self._arrived.add(packet)
        advanced = self.receiver.on_data(packet, serial, ack_request=bool(ask))
        became_usable = range(before, before + advanced)
        assert self._arrived.issuperset(became_usable), "delivered before it arrived"
        self.delivered += became_usable
        if self.receiver.ack_due:
            self._send_ack()
        else:
            self._push(self.now + _ACK_DELAY_S, "timer", ())

    def _send_ack(self) -> None:
        self.receiver.on_ack_sent()
        self._travel("ack", (self.receiver.in_order, self.receiver.bitmap, self.receiver.newest))

    def _travel(self, kind: str, fields: tuple[int, ...]) -> None:
        for _ in range(2 if self._random.random() < self._network.duplication else 1):
            if self._random.random() >= self._network.loss:
                delay = self._network.delay_s + self._random.random() * self._network.jitter_s
                self._push(self.now + delay, kind, fields)

    def _push(self, at: float, kind: str, fields: tuple[int, ...]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, kind, fields))


@settings(max_examples=150, deadline=None)
@given(packets=st.integers(1, 300), network=networks, window=st.integers(1, 64), ack_every=st.integers(1, 8))
def test_every_transfer_completes_and_delivers_once_and_in_order(
    packets: int, network: Network, window: int, ack_every: int
) -> None:
    simulation = Simulation(packets, network, float(window), ack_every)
    simulation.sender.release(packets)
    simulation.run()
    assert simulation.sender.done
    assert simulation.receiver.done
    assert simulation.delivered == list(range(packets))
    assert simulation.most_under_way <= window


def test_without_loss_nothing_is_sent_twice() -> None:
    simulation = Simulation(1000, Network(0.0, 0.0, 0.0, 1))
    simulation.sender.release(1000)
    simulation.run()
    assert simulation.sender.transmissions == 1000
    assert simulation.receiver.duplicates == 0


def test_one_lost_packet_is_repeated_without_waiting_for_the_timer() -> None:
    sender = SenderQueuePair(100, DelayWindow(1.0, 16.0))
    receiver = ReceiverQueuePair(100, 1)
    sender.release(100)
    sent = []
    while chosen := sender.next_packet(0.0):
        sent.append(chosen)
    for packet, serial, ask in sent:
        if packet != 2:
            receiver.on_data(packet, serial, ack_request=ask)
            sender.on_ack(receiver.in_order, receiver.bitmap, receiver.newest, 0.01)
    again = sender.next_packet(0.01)
    assert again is not None
    assert again[0] == 2
    assert sender.timeouts == 0
    assert sender.retransmissions == 1


def test_a_lost_tail_is_repeated_by_the_timer() -> None:
    sender = SenderQueuePair(2, DelayWindow(1.0, 16.0))
    sender.release(2)
    assert [chosen[0] for chosen in iter(lambda: sender.next_packet(0.0), None)] == [0, 1]
    deadline = sender.next_deadline()
    sender.on_timer(deadline - 0.001)
    assert sender.timeouts == 0
    sender.on_timer(deadline)
    assert sender.timeouts == 1
    again = sender.next_packet(deadline)
    assert again is not None
    assert again[0] == 0


def test_only_what_is_released_is_sent() -> None:
    sender = SenderQueuePair(10, DelayWindow(1.0, 16.0))
    assert sender.next_packet(0.0) is None
    sender.release(3)
    assert [chosen[0] for chosen in iter(lambda: sender.next_packet(0.0), None)] == [0, 1, 2]
    sender.release(1)
    assert sender.available == 3


@given(st.integers(0, 1 << 32), st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 32))
def test_an_acknowledgement_of_what_was_never_sent_changes_nothing(cumulative: int, bitmap: int, serial: int) -> None:
    sender = SenderQueuePair(10, DelayWindow(1.0, 4.0))
    sender.release(10)
    for _ in iter(lambda: sender.next_packet(0.0), None):
        pass
    sender.on_ack(cumulative + 5, bitmap, serial, 0.01)
    sender.on_ack(0, bitmap, serial + 4, 0.01)
    assert sender.first_unacked == 0
    assert sender.under_way == 4


def test_the_window_grows_below_the_target_and_shrinks_above_it_once_per_round_trip() -> None:
    window = DelayWindow(0.050, 64.0)
    window.on_ack(1, 0.100, 1.0)
    cut = window.packets
    assert cut == pytest.approx(64 * (1 - 0.8 * 0.5))
    window.on_ack(1, 0.100, 1.01)
    assert window.packets == cut
    window.on_ack(10, 0.020, 1.02)
    assert window.packets == pytest.approx(cut + 10 / cut)
    window.on_timeout(2.0)
    assert window.packets == window.smallest


def test_the_window_stays_within_its_bounds() -> None:
    window = DelayWindow(0.050, 8.0)
    for turn in range(200):
        window.on_ack(4, 0.001, turn * 0.1)
        assert window.packets <= 8.0
    for turn in range(200):
        window.on_loss(100.0 + turn)
    assert window.packets == window.smallest
