"""Shortest paths between the switches of a plan, as next hops. Pure."""

from collections import defaultdict, deque

from controller.fabric.plan import FabricPlan

# One end of a cable: switch name and port number.
End = tuple[str, int]


class ShortestPaths:
    """Counts hops, as routing daemons in a fabric do; rates only weigh the ports that are left."""

    def __init__(self, plan: FabricPlan, down: frozenset[End]) -> None:
        # Switch -> (port, neighbour, rate) of every usable link.
        self._links: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
        self._distances: dict[str, dict[str, int]] = {}
        for link in plan.links:
            if (link.a, link.a_port) not in down and (link.b, link.b_port) not in down:
                self._links[link.a].append((link.a_port, link.b, link.rate_bps))
                self._links[link.b].append((link.b_port, link.a, link.rate_bps))

    def next_hops(self, here: str, destination: str) -> list[tuple[int, int]]:
        """(port, rate) of every link from `here` that is on a shortest path; empty when there is no path."""
        distance = self._distances_to(destination)
        if here not in distance:
            return []
        nearer = distance[here] - 1
        return [(port, rate) for port, neighbour, rate in self._links[here] if distance.get(neighbour) == nearer]

    def _distances_to(self, destination: str) -> dict[str, int]:
        if destination in self._distances:
            return self._distances[destination]
        distance = {destination: 0}
        waiting = deque([destination])
        while waiting:
            switch = waiting.popleft()
            for _, neighbour, _ in self._links[switch]:
                if neighbour not in distance:
                    distance[neighbour] = distance[switch] + 1
                    waiting.append(neighbour)
        self._distances[destination] = distance
        return distance
