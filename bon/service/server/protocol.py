"""Bounds on HTTP connections that uvicorn lacks.

They limit how many are open, how long a head may take, how large heads, chunk marks and trailers
are, how many requests are pipelined, and how long a reply may stay unread. The connection that
has waited longest for its client makes room for a new one.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bon.service.settings import Limits

PIPELINED = 16
"""Requests that may wait for an earlier reply; today's clients pipeline none."""
UNREAD_SECONDS = 30.0
"""How long a client may read no byte of a reply that waits for it."""
_Http: Any = HttpToolsProtocol
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with limits that all connections of one server share."""
    waiting: dict[Any, None] = {}  # in the order in which the wait began

    class Bounded(_Http):  # type: ignore[misc]
        head = 0  # bytes of a request besides its body: head, chunk marks, trailers
        body = 0
        trailing = False
        open: tuple[Any, ...] = ()  # the request being handled and those pipelined behind it
        timer: asyncio.TimerHandle | None = None
        unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                next(iter(waiting), self).cut()
            self.wait()

        def data_received(self, data: bytes) -> None:
            cycle = self.cycle
            in_body = cycle is not None and cycle.more_body and not cycle.response_complete
            if not in_body and self.timer is None:  # the first bytes of another request
                self.wait()
            before = self.body
            super().data_received(data)
            if self.cycle is not cycle:
                self.head = self.body = 0
                self.served()
                return
            self.head += len(data) - (self.body - before)
            if self.head > limits.header_bytes + self.body:
                if not in_body:
                    self.transport.write(_TOO_LONG)
                self.transport.close()

        def on_body(self, body: bytes) -> None:
            self.body += len(body)
            super().on_body(body)

        def on_message_begin(self) -> None:
            self.trailing = False
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self.trailing:  # a trailer is no header: no token, no host
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            if len(self.pipeline) >= PIPELINED:
                self.cut()
                raise ValueError("too many requests at once")  # ends the parsing
            self.trailing = True
            super().on_headers_complete()
            pending = (cycle for cycle in self.open if not cycle.response_complete)
            self.open = (*pending, self.cycle)

        def pause_writing(self) -> None:
            super().pause_writing()
            waiting[self] = None
            loop = asyncio.get_running_loop()
            self.unread = loop.call_later(UNREAD_SECONDS, self.cut)

        def resume_writing(self) -> None:
            super().resume_writing()
            self.drained()
            if not self.cycle.response_complete:  # else it waits for the next request
                waiting.pop(self, None)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            waiting[self] = None  # kept alive: it may go when room is needed

        def connection_lost(self, error: Exception | None) -> None:
            self.served()
            self.drained()
            super().connection_lost(error)

        def wait(self) -> None:
            """Start the time limit of a request's head."""
            waiting[self] = None
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(limits.head_seconds, self.cut)

        def served(self) -> None:
            """Stop it: the head is complete or never will be."""
            waiting.pop(self, None)
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def drained(self) -> None:
            """Stop the time limit of an unread reply."""
            if self.unread is not None:
                self.unread.cancel()
                self.unread = None

        def cut(self) -> None:
            """Abort the connection, with all its requests."""
            waiting.pop(self, None)  # lost in the loop's next round: until then others may come
            for cycle in self.open:
                cycle.disconnected = True
            self.transport.abort()

    return Bounded
