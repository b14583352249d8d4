"""Passes one switch's OpenFlow session on to the controller, until it is stopped: then the switch is frozen.

In the lab one daemon serves all bridges, so that stopping it would freeze them all. Run as a program: takes the port to
listen on and the port to pass to, both on 127.0.0.1.
"""

import asyncio
import sys


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _relay(listen_port: int, target_port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", listen_port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_relay(int(sys.argv[1]), int(sys.argv[2])))
