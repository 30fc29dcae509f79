"""The application: the parts put together, and the server that runs it."""

import asyncio
import hashlib
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

import bon
from bon.core.errors import BonError
from bon.running.rewarded import FILE
from bon.service import pages
from bon.service.access import FIRST, check_access, first_token, identify
from bon.service.api import (
    classifying,
    get_reward,
    online,
    openai,
    operations,
    reranking,
    results,
    rewards,
    scoring,
    validations,
    vouching,
)
from bon.service.api.common import add_error_handlers
from bon.service.backend import RayServe, make_backend
from bon.service.desks import Desks
from bon.service.guard import Guard
from bon.service.interim import Interim
from bon.service.lane import Lane, Short
from bon.service.logs import name_folder, set_up_logs
from bon.service.metrics import Metrics
from bon.service.online import Selector
from bon.service.pages import annotate, login, reports
from bon.service.pages.render import problem_page, wants_page
from bon.service.question_sets import QuestionSets
from bon.service.reward_log import RewardLog
from bon.service.rewarding import Rewarding
from bon.service.settings import Settings
from bon.service.state import Service, open_tokens, opened, server_secret
from bon.service.supervisor import Supervisor
from bon.service.watch import watch

log = logging.getLogger("bon.service")
SHORT = (
    Short("/get_reward", get_reward.get_reward, get_reward.RewardBody, get_reward.RewardAddress),
    Short("/v1/score", scoring.score, scoring.ScoreBody, rewards.RewardQuery),
    Short("/classify", classifying.classify, classifying.ClassifyRequest, rewards.RewardQuery),
    *(
        Short(path, reranking.rerank, reranking.RerankRequest, rewards.RewardQuery)
        for path in ("/rerank", "/v1/rerank", "/v2/rerank")
    ),
)
ONLINE_ROUTES = (online, openai, get_reward, reranking, scoring, classifying, rewards, vouching)


def create_app(service: Service) -> FastAPI:
    """The application over opened parts; its lifespan starts the supervisor."""

    metrics = Metrics()
    selector = make_selector(service, metrics)
    rewarding = None if selector is None else make_rewarding(service.settings, selector)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.closing = asyncio.get_running_loop().create_future()
        await asyncio.to_thread(service.supervisor.start)
        # In the background: validations and pages are there while online models still load.
        loading = asyncio.create_task(_load(selector)) if selector else None
        try:
            yield
        finally:
            close(app)
            if loading is not None:
                loading.cancel()
            if selector is not None:
                await selector.close()
            if rewarding is not None:
                rewarding.log.close()
            await asyncio.to_thread(service.supervisor.stop)

    app = _bare_app(service, metrics, lifespan)
    app.state.streams = {}
    app.state.interim = Interim()
    app.state.desks = Desks(service.settings)
    app.state.online = selector
    app.state.rewarding = rewarding
    for part in (validations, results, *ONLINE_ROUTES, operations, pages, reports, login, annotate):
        app.include_router(part.router)
    watch(service, metrics)
    return app


def _bare_app(service: Service, metrics: Metrics, lifespan: Callable[[FastAPI], Any]) -> FastAPI:
    """An application with its guard and its errors, and no routes yet."""
    settings = service.settings
    for folder, name in (
        (Path.home(), "~"),
        (Path(sys.prefix), "python"),
        (Path(bon.__file__).parent, "bon"),
        (settings.base, "."),
        (settings.data, "data"),
        (settings.runs, "runs"),
        (settings.files, "files"),
    ):
        name_folder(folder, name)
    app = FastAPI(
        title="bon",
        version=bon.__version__,
        summary="Does a reward-model benchmark predict which reward model picks better answers?",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.service = service
    app.state.metrics = metrics
    add_error_handlers(app, wants_page, problem_page)
    app.add_middleware(Lane, routes={route.path: route for route in SHORT})
    app.add_middleware(
        Guard,
        settings=service.settings,
        metrics=metrics,
        identify=identify(service.settings, service.tokens),
    )
    return app


def create_online_app(settings: Settings, find: Callable[[str], Any]) -> FastAPI:
    """The online routes alone, over models that are deployed already (bon.service.deploy)."""
    metrics = Metrics()
    selector = Selector(settings.online, settings.base, metrics)
    selector.use(RayServe(selector.specs(), settings.online.scaling, None, find=find))
    tokens = open_tokens(settings.data)
    service = Service(settings, tokens.jobs, Supervisor(settings, tokens.jobs), tokens)
    check_access(settings, tokens)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await selector.start()
        yield

    app = _bare_app(service, metrics, lifespan)
    app.state.online = selector
    app.state.rewarding = make_rewarding(settings, selector)
    for part in ONLINE_ROUTES:
        app.include_router(part.router)
    app.add_api_route("/healthz", operations.healthz)
    app.add_api_route("/metrics", operations.metrics, response_class=Response)
    return app


def make_rewarding(settings: Settings, selector: Selector) -> Rewarding:
    """What gives rewards; its question sets are read here, so that a wrong one stops the start."""
    sets = QuestionSets.read(settings.online.sets, settings.base, settings.data / "images")
    log = RewardLog(settings.data / FILE)
    selector.remember(log.judged)
    return Rewarding(selector, sets, log)


def make_selector(service: Service, metrics: Metrics) -> Selector | None:
    """The online models, if the operator names any."""
    settings = service.settings
    if not settings.online.policies and not settings.online.rewarders:
        return None
    selector = Selector(settings.online, settings.base, metrics)
    # Two servers on one cluster must not take each other's models for their own.
    mine = "bon-" + hashlib.sha256(server_secret(settings.data)).hexdigest()[:8]
    selector.use(make_backend(settings.online, selector.specs(), settings.ray_address, mine))
    return selector


async def _load(selector: Selector) -> None:
    try:
        await selector.start()
    except Exception:  # Validations and pages go on; /readyz says that models are missing.
        log.exception("no model is online")


def serve(settings: Settings) -> None:
    """Run the server until it is told to stop."""
    import uvicorn

    from bon.service.protocol import bounded

    with opened(settings) as service:
        token = first_token(settings, service.tokens)
        check_access(settings, service.tokens)
        set_up_logs(human=sys.stderr.isatty())
        app = create_app(service)

        class Server(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                """Say where it is, once it is there."""
                await super().startup(sockets)
                if self.started:
                    port = self.servers[0].sockets[0].getsockname()[1]
                    print(welcome(settings, port, token), flush=True)

            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                """Event streams end first: the server waits for open connections."""
                closing = app.state.closing
                closing.get_loop().call_soon_threadsafe(close, app)
                super().handle_exit(sig, frame)

        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=bounded(settings.limits),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=20,
        )
        server = Server(config)
        server.run()
        if not server.started:
            raise BonError(f"cannot listen on {settings.host}:{settings.port}", "see the log")


def welcome(settings: Settings, port: int, token: str | None) -> str:
    """What a person reads who starts the server: where it is and how to get in."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{port}"
    lines = [f"bon {bon.__version__} listens on {address} with its data in {settings.data}"]
    if token is not None:
        lines += [
            f"Sign in: {address}/login#{token}",
            f"This address holds the token {FIRST!r}, which is not shown again. Clients send it as "
            "`Authorization: Bearer TOKEN`.",
        ]
    elif settings.auth:
        lines.append(f"Sign in: {address}/login (`bon token add NAME` makes a token)")
    else:
        lines.append("Without tokens (--no-auth): every user of this machine may do everything.")
    return "\n".join(lines)


def close(app: FastAPI) -> None:
    """Say to whatever waits that the server is about to stop."""
    if not app.state.closing.done():
        app.state.closing.set_result(None)
