"""One Open vSwitch database: a connection that is made when needed, and work done there. Blocking.

Belongs to a worker thread of its own (see `ovsdb_databases`); every call returns or raises within about `timeout_s`.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from controller.runtime.ovsdb_reconcile import SCHEMA

# The ovs library looks whether eventlet is there, and eventlet then tells everybody that it is deprecated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ovs.db import idl
    from ovsdbapp import exceptions
    from ovsdbapp.backend import ovs_idl
    from ovsdbapp.backend.ovs_idl import command, connection, transaction

TIMEOUT_S = 5.0
# After a failure others that ask are told so at once, instead of each waiting for the time-out in turn.
_REST_S = 1.0


class EndpointError(Exception):
    """The database cannot be reached or refused the change; the text says which."""


class _Backend(ovs_idl.Backend):  # type: ignore[misc]  # ovsdbapp is untyped
    # ovsdbapp keeps the connection in the class, one for the whole process; here it is one for each instance.
    ovsdb_connection: Any = None
    schema = SCHEMA["name"]


class _Replica(connection.OvsdbIdl):  # type: ignore[misc]  # ovsdbapp is untyped
    """Says when anything about an interface has changed, in the connection's thread."""

    changed: Callable[[], None] = staticmethod(lambda: None)

    def notify(self, event: str, row: Any, updates: Any = None) -> None:  # noqa: ARG002 - as the ovs library calls it
        if row._table.name == "Interface":
            self.changed()


Result = TypeVar("Result")
# Reads the tables, and writes what is to change into the transaction. It is called again when somebody else has changed
# something meanwhile.
Work = Callable[[Mapping[str, Any], Any], Result]


class _Command(command.BaseCommand):  # type: ignore[misc]  # ovsdbapp is untyped
    """Runs in the connection's thread, where the replica stands still."""

    def __init__(self, api: _Backend, work: Work[Any]) -> None:
        super().__init__(api)
        self._work = work

    def run_idl(self, txn: Any) -> None:
        if not self.api.idl._session.is_connected():
            raise EndpointError("the connection is lost")
        self.result = self._work(self.api.tables, txn)


class Endpoint:
    """`address` is as ovs-vsctl takes it: unix:/path or tcp:host:port. `changed` is called, in some other thread, when
    anything about an interface has changed."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S, changed: Callable[[], None] = lambda: None) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._changed = changed
        self._backend: _Backend | None = None
        self._failed_at_s = float("-inf")

    def do(self, work: Work[Result]) -> Result:
        """The work's result. No transaction is sent when it writes nothing. Raises EndpointError."""
        if time.monotonic() - self._failed_at_s < _REST_S:
            raise EndpointError(f"{self.address} failed a moment ago")
        try:
            return self._do(work)
        except Exception as error:  # ovsdbapp raises whatever the ovs library does, RuntimeError and its own
            self._failed_at_s = time.monotonic()
            self.close()
            raise EndpointError(f"{self.address}: {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        """ovsdbapp's own exceptions are for its log, and str() of some of them fails."""
        if isinstance(error, exceptions.TimeoutException | exceptions.OvsdbConnectionUnavailable):
            return f"does not answer within {self._timeout_s:g} s"
        return str(error) or type(error).__name__

    def _do(self, work: Work[Result]) -> Result:
        backend = self._connected()
        # Not ovsdbapp's OvsVsctlTransaction: that raises next_cfg, so writes something every time.
        change = transaction.Transaction(
            backend, backend.ovsdb_connection, self._timeout_s, check_error=True, log_errors=False
        )
        done = change.add(_Command(backend, work))
        change.commit()
        result: Result = done.result
        return result

    def _connected(self) -> _Backend:
        if self._backend is None:
            # The schema is ours, not fetched: ovsdbapp's way to fetch it waits for ever on a server that hangs.
            helper = idl.SchemaHelper(schema_json=SCHEMA)
            replica = _Replica.from_server(self.address, SCHEMA["name"], helper=helper)
            replica.changed = self._changed
            link = connection.Connection(replica, self._timeout_s)
            try:
                self._backend = _Backend(link, auto_index=False)
            except BaseException:
                replica.close()
                raise
        return self._backend

    def close(self) -> None:
        """Ends the connection; the next call makes a new one."""
        if self._backend is not None:
            self._backend.ovsdb_connection.stop(self._timeout_s)
            self._backend = None
