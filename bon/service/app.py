"""The application, and the server that runs it."""

import asyncio
import logging
import math
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI

import bon
from bon import analysis, policies, rewarders
from bon.core.errors import BonError
from bon.dispatch.listeners import Watch
from bon.service import pages
from bon.service.api import metrics, openai, operations, rewards, validations
from bon.service.api.common import add_error_handlers
from bon.service.online.backend import RETRY_SECONDS
from bon.service.online.selector import FILE, JudgementStore, Selector
from bon.service.pages import annotate, render, reports, sign_in
from bon.service.server.access import FIRST, check_access, first_token
from bon.service.server.logs import name_folder, set_up_logs
from bon.service.server.middleware import Guard
from bon.service.server.state import Service, open_service
from bon.service.settings import Settings

log = logging.getLogger("bon.service")
WATCH_SECONDS = 2.0
PATIENCE_SECONDS = 2.0
ROUTES = (validations, openai, rewards, operations, metrics, pages, reports, sign_in, annotate)


def create_app(service: Service) -> FastAPI:
    """Return the application; its lifespan starts the supervisor and loads the online models."""
    settings = service.settings
    for folder, name in (
        (Path.home(), "~"),
        (Path(sys.prefix), "python"),
        *((Path(str(m.__file__)).parent, m.__name__) for m in (bon, analysis, policies, rewarders)),
        (settings.base, "."),
        (settings.data, "data"),
        (settings.runs, "runs"),
        (settings.files, "files"),
    ):
        name_folder(folder, name)
    online, selector = settings.online, None
    if online.policies or online.rewarders:  # read here, so that an invalid card stops the start
        store = JudgementStore(settings.data / FILE)
        selector = Selector(online, settings.base, settings.ray_address, service.ledger, store)

    async def load() -> None:
        while selector:
            try:
                return await selector.backend.start()
            except Exception:  # Validations and pages go on; /readyz reports the missing models.
                log.exception("no model is online")
            await asyncio.sleep(RETRY_SECONDS[0])

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.supervisor.start)
        # In the background: validations and pages are available while online models load.
        loading = asyncio.create_task(load())
        try:
            yield
        finally:
            loading.cancel()
            if selector:
                await selector.close()
            await asyncio.to_thread(service.supervisor.stop)

    app = FastAPI(
        title="bon",
        version=bon.__version__,
        summary="Does a reward-model benchmark predict which reward model picks better answers?",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    add_error_handlers(app, render.wants_page, render.error_page)
    app.add_middleware(Guard, settings=settings, tokens=service.tokens)
    app.state.service, app.state.online = service, selector
    app.state.metrics = metrics.Metrics(service, selector)
    app.state.annotation_queues = annotate.AnnotationQueues(settings)
    for part in ROUTES:
        app.include_router(part.router)
    return app


def serve(settings: Settings) -> None:
    """Run the server until it is stopped."""
    import uvicorn

    with open_service(settings) as service:
        check_access(settings, service.tokens)
        set_up_logs()
        ended = threading.Event()
        refusals: list[BonError] = []

        def watch_listeners(watch: Watch) -> None:
            """Stop if a model, or a process that it started, can be reached from other machines."""
            while not (refusals or ended.wait(WATCH_SECONDS)):
                try:
                    watch(without=service.supervisor.pids)
                except BonError as error:
                    refusals.append(error)
                    server.should_exit = True

        class Server(uvicorn.Server):
            asked_to_stop = math.inf

            def handle_exit(self, sig: int, frame: Any) -> None:
                """Stop; only Ctrl-C pressed again later, not at once, drops open requests."""
                now = time.monotonic()
                self.asked_to_stop = min(self.asked_to_stop, now)
                if not self.should_exit or now > self.asked_to_stop + PATIENCE_SECONDS:
                    super().handle_exit(sig, frame)

            async def startup(self, sockets: Any = None) -> None:
                """Print the address once the server listens."""
                await super().startup(sockets)
                if self.started:
                    # Last of all, so that no start that fails uses it up.
                    token = first_token(settings, service.tokens)
                    print(welcome(settings, port, token), flush=True)
                if refusals:  # already: uvicorn would end without its lifespan
                    await self.shutdown(sockets)

        config = uvicorn.Config(
            create_app(service),
            host=settings.host,
            port=settings.port,
            http="httptools",  # stricter than h11 on where a request ends
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=20,
        )
        server = Server(config)
        with listening_socket(settings.host, settings.port) as listener:
            port = listener.getsockname()[1]
            watch = Watch("listen_beyond_loopback", allowed_ports=[port])
            if not settings.listen_beyond_loopback:
                watch()
                threading.Thread(target=watch_listeners, args=[watch], daemon=True).start()
            try:
                server.run([listener])
            finally:
                ended.set()
        if refusals:
            raise refusals[0]
        if not server.started:
            raise BonError("the server did not start", "see the log")


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address; BonError if it is taken or not one's own."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        fix = "stop what listens there, or choose another --port or --host"
        raise BonError(f"cannot listen on {host}:{port}: {error.strerror}", fix) from None
    return listener


def welcome(settings: Settings, port: int, token: str | None) -> str:
    """Return the server's address and how to sign in."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{port}{settings.root_path}"
    access = "Without tokens (--no-auth): every user of this machine may do everything."
    if token is not None:
        access = f"Sign in: {address}/login#{token}\nThis address holds the token {FIRST!r}, which "
        access += "is not shown again. Clients send it as `Authorization: Bearer TOKEN`."
    elif settings.auth:
        access = f"Sign in: {address}/login (`bon token add NAME` makes a token)"
    head = f"bon {bon.__version__} listens on {address} with its data in {settings.data}"
    return f"{head}\n{access}"
