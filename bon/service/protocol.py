"""HTTP connections with bounds: how many, how long until a request has come, how much besides
bodies, how many requests at once, how long until an answer is taken.

uvicorn bounds none of them: half-open connections stay for ever, a head or a trailer that never
ends is kept in memory, and so is every request of a client that sends them without reading. What
waits for its client, longest first, makes room for who comes new.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bon.service.settings import Limits

PIPELINED = 16
"""Requests that may wait for the answer to one before them: no client of today sends any."""
TAKEN_SECONDS = 30.0
"""That a client may leave its answers unread, without one more byte of them."""
_Http: Any = HttpToolsProtocol
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's protocol under these limits; all connections of one server share them."""
    waiting: dict[Any, None] = {}  # in the order in which they began to wait

    class Bounded(_Http):  # type: ignore[misc]
        head = 0  # bytes of a request that are no body: its head, marks of chunks, trailers
        body = 0
        trailing = False
        open: tuple[Any, ...] = ()  # what is being answered, and what waits for that
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
            if not self.trailing:  # what comes after a body is no header: no token, no host
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            if len(self.pipeline) >= PIPELINED:
                self.cut()
                raise ValueError("too many requests at once")  # ends the parsing
            self.trailing = True
            super().on_headers_complete()
            still = (one for one in self.open if not one.response_complete)
            self.open = (*still, self.cycle)

        def pause_writing(self) -> None:
            super().pause_writing()
            waiting[self] = None
            loop = asyncio.get_running_loop()
            self.unread = loop.call_later(TAKEN_SECONDS, self.cut)

        def resume_writing(self) -> None:
            super().resume_writing()
            self.taken()
            if not self.cycle.response_complete:  # else it waits for the next request
                waiting.pop(self, None)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            waiting[self] = None  # kept alive: it may go when room is needed

        def connection_lost(self, error: Exception | None) -> None:
            self.served()
            self.taken()
            super().connection_lost(error)

        def wait(self) -> None:
            """A request has begun to come, or is expected."""
            waiting[self] = None
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(limits.head_seconds, self.cut)

        def served(self) -> None:
            """It has come, or never will."""
            waiting.pop(self, None)
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def taken(self) -> None:
            """The client takes its answer, or is gone."""
            if self.unread is not None:
                self.unread.cancel()
                self.unread = None

        def cut(self) -> None:
            """End it at once; nobody writes to it any more."""
            for one in self.open:
                one.disconnected = True
            self.transport.abort()

    return Bounded
