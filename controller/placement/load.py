"""The load of every link direction, looked up when asked for.

A placement on a large fabric has tens of thousands of loads, of which callers look at a few; a dictionary of all of
them would cost more than the placement. Decides nothing.
"""

from collections.abc import Iterator, Mapping

from controller.fabric.model import PortRef
from controller.placement.instance import FloatArray


class LoadByPort(Mapping[PortRef, float]):
    """Seconds by sending port, for every port of `known`; 0.0 where nothing is placed."""

    def __init__(self, known: Mapping[PortRef, object], index: Mapping[PortRef, int], load_s: FloatArray) -> None:
        """`load_s[index[port]]` is a port's load; ports without an index carry nothing."""
        self._known, self._index, self._load_s = known, index, load_s

    def __getitem__(self, port: PortRef) -> float:
        number = self._index.get(port)
        if number is not None:
            return float(self._load_s[number])
        if port in self._known:
            return 0.0
        raise KeyError(port)

    def __iter__(self) -> Iterator[PortRef]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)})"
