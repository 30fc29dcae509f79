"""Annotation of benchmarks in the making: the page, and what it requests and sends.

Annotators never see which model wrote a response, which one is right or why an item was chosen.
"""

import re
import threading
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from bon.core.errors import BonError
from bon.curating.labelling.annotation_queue import (
    AnnotationQueue,
    Progress,
    Submission,
    shown_order,
)
from bon.curating.workbench import open_workbench
from bon.service.api.common import require
from bon.service.errors import ApiError, no_token
from bon.service.pages.render import page
from bon.service.server.access import Identity
from bon.service.server.logs import name_folder, public_text
from bon.service.settings import Settings

RESERVED = "tuwxz"
"""Keys of the page itself: tags, undo, why, cannot judge, zoom."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

router = APIRouter(include_in_schema=False)


class AnnotationQueues:
    """One queue per benchmark folder, kept while the server runs: leases are the server's."""

    def __init__(self, settings: Settings) -> None:
        """Folders in the settings must exist; those of the data directory may be added later."""
        self._data = settings.benchmarks
        self._folders: dict[str, Path] = {}
        for folder in settings.annotate:
            path = open_workbench(folder).directory.resolve()
            if not _NAME.fullmatch(path.name):
                raise BonError(
                    f"annotate: {folder}: its name cannot be part of an address",
                    "call the folder by letters, digits and . _ -",
                )
            if self._folders.setdefault(path.name, path) != path:
                raise BonError(f"annotate: two folders are called {path.name}", "rename one")
            name_folder(path, path.name)
        self._queues: dict[str, AnnotationQueue] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return every benchmark that can be annotated here."""
        own = {path.parent.name for path in self._data.glob("*/recipe.yaml")}
        return sorted({*self._folders, *filter(_NAME.fullmatch, own)})

    def find(self, name: str) -> AnnotationQueue | None:
        """Return the queue of a benchmark, if there is one."""
        if name not in self.names():
            return None
        with self._lock:
            if name not in self._queues:
                self._queues[name] = AnnotationQueue(self._folders.get(name, self._data / name))
            return self._queues[name]


Annotator = Annotated[Identity, Depends(require("annotate"))]


def _queue(request: Request, name: str) -> AnnotationQueue:
    if request.scope["identity"] is None:  # a stranger learns no names
        raise no_token()
    queues: AnnotationQueues = request.app.state.annotation_queues
    queue = queues.find(name)
    if queue is None or not queue.bench:
        raise ApiError(404, "there is no such benchmark to label", "bon serve --annotate DIR")
    return queue


Queue = Annotated[AnnotationQueue, Depends(_queue)]


class AnnotatorName(BaseModel):
    """The annotator's name, on a server without tokens."""

    model_config = ConfigDict(extra="forbid")
    annotator: str = Field("", max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")

    def name(self, identity: Identity) -> str:
        """Return the token's name, or else the one that was sent."""
        name = identity.name if identity.token else self.annotator.strip()
        if not name:
            raise ApiError(422, "the annotator has no name", "write your name first")
        return name


class Annotation(AnnotatorName, Submission):
    """One answer, and who gave it."""


@router.get("/annotate")
def annotate_list(request: Request, _: Annotator) -> Response:
    """The benchmarks to annotate."""
    queues: AnnotationQueues = request.app.state.annotation_queues
    benches: list[tuple[str, Progress | None, str]] = []
    for name in queues.names():
        try:
            if (queue := queues.find(name)) is not None:
                benches.append((name, queue.progress(""), ""))
        except BonError as error:
            benches.append((name, None, public_text(error.message)))
    return page(request, "annotate_list.html.jinja", benches=benches)


@router.get("/annotate/{name}")
def annotate_page(queue: Queue, request: Request, identity: Annotator) -> Response:
    """The page that shows one item after another."""
    annotating = queue.bench.recipe.annotating
    return page(
        request,
        "annotate.html.jinja",
        bench=queue.bench.name,
        annotator=identity.name if identity.token else "",
        guidelines=annotating.guidelines,
        tags=tag_letters(annotating.tags),
    )


@router.post("/annotate/{name}/next")
def annotate_next(body: AnnotatorName, queue: Queue, identity: Annotator) -> dict[str, Any]:
    """Return the annotator's next item and lease it to them for a while."""
    annotator = body.name(identity)
    item = queue.lease_next(annotator)
    reply: dict[str, Any] = {"item": None, **_progress(queue, annotator)}
    if item is not None:
        order = shown_order(item.key, annotator, len(item.responses))
        reply["item"] = {
            "key": item.key,
            "prompt": item.prompt,
            "images": [image.rpartition("/")[2] for image in item.images],
            "responses": [item.responses[place] for place in order],
        }
    return reply


@router.post("/annotate/{name}/answers")
def annotate_answer(body: Annotation, queue: Queue, identity: Annotator) -> dict[str, Any]:
    """Store an answer; it is on disk when this returns."""
    annotator = body.name(identity)
    queue.submit(annotator, body)
    return _progress(queue, annotator)


@router.get("/annotate/{name}/images/{image}")
def annotate_image(image: str, queue: Queue, _: Annotator) -> Response:
    """An image of one of the items, and no other file."""
    path = queue.image(image)
    if path is None:
        raise ApiError(404, "no such image")
    return FileResponse(path, headers={"cache-control": "private, max-age=86400"})


def tag_letters(tags: tuple[str, ...]) -> dict[str, str]:
    """Assign each tag a key: its initial, else another of its letters, else any; "" if none."""
    letters: dict[str, str] = {}
    for initial_only in (True, False):
        for tag in tags:
            own = [char for char in tag.lower() if "a" <= char <= "z"]
            candidates = own[:1] if initial_only else [*own, *ascii_lowercase]
            free = (char for char in candidates if char not in {*RESERVED, *letters.values()})
            if tag not in letters and (letter := next(free, "")):
                letters[tag] = letter
    return {tag: letters.get(tag, "") for tag in tags}


def _progress(queue: AnnotationQueue, annotator: str) -> dict[str, Any]:
    progress = queue.progress(annotator)
    return {
        "last": queue.last_answered(annotator),
        "done": progress.answered,
        "left": progress.remaining,
        "pace": progress.pace,
    }
