"""A switch that speaks just enough OpenFlow 1.3 to be connected, for what a real one cannot be made to do."""

import contextlib
import socket
import struct
import threading

_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY = 0, 1, 2, 3
_FEATURES_REQUEST, _FEATURES_REPLY, _PACKET_IN = 5, 6, 10
_MULTIPART_REQUEST, _MULTIPART_REPLY, _BARRIER_REQUEST, _BARRIER_REPLY = 18, 19, 20, 21
_DESCRIPTION, _PORT_DESCRIPTION = 0, 13
_HEADER = struct.Struct("!BBHI")


class FakeSwitch:
    """Connects at once and answers in a thread of its own. `received` holds (type, xid, body) of every message."""

    def __init__(self, port: int, dpid: int, addresses: list[bytes], manufacturer: bytes = b"Example") -> None:
        self._dpid = dpid
        self._addresses = addresses
        self._manufacturer = manufacturer
        self.received: list[tuple[int, int, bytes]] = []
        self.answers_barriers = True
        self.answers_echoes = True
        self.closed = threading.Event()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.settimeout(None)
        self.send(_HELLO, 1, b"")
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def send(self, kind: int, xid: int, body: bytes) -> None:
        self._socket.sendall(_HEADER.pack(4, kind, _HEADER.size + len(body), xid) + body)

    def packet_in(self, data: bytes, in_port: int = 1) -> None:
        match = struct.pack("!HHIIxxxx", 1, 12, 0x80000004, in_port)
        self.send(_PACKET_IN, 0, struct.pack("!IHBBQ", 0xFFFFFFFF, len(data), 0, 0, 0) + match + b"\0\0" + data)

    def error(self, xid: int, error_type: int, code: int, quoted: bytes = b"") -> None:
        self.send(_ERROR, xid, struct.pack("!HH", error_type, code) + quoted)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                _, kind, length, xid = _HEADER.unpack(self._read(_HEADER.size))
                body = self._read(length - _HEADER.size)
                self.received.append((kind, xid, body))
                self._answer(kind, xid, body)
        self.closed.set()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _answer(self, kind: int, xid: int, body: bytes) -> None:
        if kind == _ECHO_REQUEST and self.answers_echoes:
            self.send(_ECHO_REPLY, xid, body)
        elif kind == _FEATURES_REQUEST:
            self.send(_FEATURES_REPLY, xid, struct.pack("!QIBBxxII", self._dpid, 0, 4, 0, 0, 0))
        elif kind == _BARRIER_REQUEST and self.answers_barriers:
            self.send(_BARRIER_REPLY, xid, b"")
        elif kind == _MULTIPART_REQUEST:
            (part,) = struct.unpack_from("!H", body)
            if part == _PORT_DESCRIPTION:
                ports = b"".join(self._port(i, address) for i, address in enumerate(self._addresses, 1))
                self.send(_MULTIPART_REPLY, xid, struct.pack("!HHxxxx", part, 0) + ports)
            elif part == _DESCRIPTION:
                texts = struct.pack("256s256s256s32s256s", self._manufacturer, b"fake", b"1", b"", b"")
                self.send(_MULTIPART_REPLY, xid, struct.pack("!HHxxxx", part, 0) + texts)

    @staticmethod
    def _port(number: int, address: bytes) -> bytes:
        name = f"eth{number}".encode()
        return struct.pack("!Ixxxx6sxx16sIIIIIIII", number, address, name, 0, 4, 0, 0, 0, 0, 0, 0)
