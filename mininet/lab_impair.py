"""Cables that can be made to lose packets while both ends keep their carrier.

Such a cable is two: each end's veth leads to a relay, and the kernel hands frames from one relay end to the other
(`tc` mirred), except those that a classic BPF program drops by the kernel's own random numbers. No process is in the
way. Linux counts at the ends as real ports do: the sender has sent what the relay then drops, and the receiver has not
received it. The relay does not pass on that one end has lost its carrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab_namespace import LabError, run

# linux/filter.h: SKF_AD_OFF + SKF_AD_RANDOM as an unsigned offset; a load from there yields a random number.
_RANDOM = 0x1_0000_0000 - 0x1000 + 56
_LOAD, _JUMP_IF_GREATER, _RETURN = 0x20, 0x25, 0x06
_ALL = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Relay:
    """In the middle of a cable between two interfaces; `number` tells relays apart."""

    a: str
    b: str
    number: int

    @property
    def inner(self) -> dict[str, str]:
        """The relay's own interface behind each end."""
        return {self.a: f"relay{self.number}a", self.b: f"relay{self.number}b"}

    def make(self, mtu: int) -> None:
        """Makes the veths of both halves, up, passing everything."""
        lines = []
        for end, inner in self.inner.items():
            lines += [f"link add name {end} mtu {mtu} type veth peer name {inner} mtu {mtu}"]
            # It must not speak for itself.
            lines += [f"link set dev {inner} addrgenmode none", f"link set dev {end} up", f"link set dev {inner} up"]
        run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
        for end, inner in self.inner.items():
            run(["tc", "qdisc", "add", "dev", inner, "ingress"])
            self.lose(0.0, end)

    def lose(self, share: float, sender: str | None = None) -> None:
        """From now on that share of the frames get lost: of those that the named end sends, or of all. 1.0: all."""
        if not 0.0 <= share <= 1.0:
            raise LabError(f"a share of {share:g} cannot get lost; give 0 to 1")
        for end in (self.a, self.b) if sender is None else (sender,):
            inner = self.inner
            far = inner[self.b if end == self.a else self.a]
            arguments = ["dev", inner[end], "parent", "ffff:", "protocol", "all", "prio", "1", "handle", "1"]
            arguments += ["bpf", "bytecode", _program(share), "action", "mirred", "egress", "redirect", "dev", far]
            run(["tc", "filter", "replace", *arguments])


def _program(share: float) -> str:
    """What passes matches, and is redirected; tc-bpf(8) describes the notation."""
    passes = f"{_RETURN} 0 0 {_ALL}"
    if not share:
        return f"1,{passes}"
    threshold = min(_ALL, round(share * _ALL))
    return f"4,{_LOAD} 0 0 {_RANDOM},{_JUMP_IF_GREATER} 1 0 {threshold},{_RETURN} 0 0 0,{passes}"
