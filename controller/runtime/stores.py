"""Which store the settings ask for: the embedded one in a file, or none. What a store is, is said in `store`."""

from controller.runtime.sqlite_store import SqliteStore
from controller.runtime.store import NoStore, Store


def open_store(path: str | None) -> Store:
    """The embedded store in the file `path`, which is made when missing; None means none. Raises StoreError."""
    return NoStore() if path is None else SqliteStore(path)
