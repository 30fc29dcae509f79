"""Labelling a benchmark in the making: the page, and what it asks and sends.

Nobody learns here which model wrote a response, which one is right or why an item was chosen;
a draft is sent only once its reader has answered.
"""

from string import ascii_lowercase
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from bon.core.errors import BonError
from bon.curating.assigning import shown_order
from bon.curating.desk import Desk, Progress, Stated, as_shown
from bon.service.api.common import Problem, Reader, who
from bon.service.desks import Desks
from bon.service.logs import told
from bon.service.pages.render import page
from bon.service.pages.reports import sandboxed
from bon.service.tokens import Identity

RESERVED = "tuwxz"
"""Keys of the page itself: tags, undo, why, cannot judge, zoom."""

router = APIRouter(include_in_schema=False)
Annotator = Annotated[Identity, Depends(who("annotate"))]


def _desk(request: Request, name: str) -> Desk:
    desks: Desks = request.app.state.desks
    try:
        found = desks.find(name)
        if found is not None and found.bench:
            return found
    except BonError as error:
        raise Problem(422, told(error.message), told(error.fix)) from None
    raise Problem(404, "there is no such benchmark to label", "bon serve --annotate DIR")


Found = Annotated[Desk, Depends(_desk)]


class Asker(BaseModel):
    """Who asks: by name where the server wants no tokens, else by their token."""

    model_config = ConfigDict(extra="forbid")
    annotator: str = Field("", max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")

    def name(self, identity: Identity) -> str:
        """The annotator."""
        found = identity.name if identity.token else self.annotator.strip()
        if not found:
            raise Problem(422, "who answers has no name", "write your name first")
        return found


class Sent(Asker):
    """One answer. `choice` is a place as shown, from 1, or one of the words."""

    event: str = Field(pattern=r"^[A-Za-z0-9-]{8,64}$")
    item: str = Field(max_length=100)
    choice: Literal["1", "2", "3", "4", "tie", "cannot", "withdrawn"]
    tags: list[Annotated[str, Field(max_length=200)]] = Field([], max_length=100)
    rationale: str = Field("", max_length=4000)
    seconds: float | None = Field(None, ge=0, le=1e6)

    def stated(self) -> Stated:
        """As the desk takes it."""
        place = int(self.choice) - 1 if self.choice.isdigit() else None
        choice = "" if self.choice.isdigit() else self.choice
        tags = tuple(dict.fromkeys(self.tags))
        return Stated(
            self.event, self.item, choice, place, tags, self.rationale.strip(), self.seconds
        )


@router.get("/annotate")
def annotate_list(request: Request, me: Annotator) -> Response:
    """The benchmarks that can be labelled here, and their audits for those who may see labels."""
    desks: Desks = request.app.state.desks
    found: list[tuple[str, Progress | None, str]] = []
    audited: set[str] = set()
    for name in desks.names():
        try:
            if (desk := desks.find(name)) is not None:
                found.append((name, desk.progress(""), ""))
                if me.may("read") and desk.bench.audit_page.is_file():
                    audited.add(name)
        except BonError as error:
            found.append((name, None, told(error.message)))
    return page(request, "annotate_list.html.jinja", benches=found, audited=audited)


@router.get("/annotate/{name}")
def annotate_page(desk: Found, request: Request, me: Annotator) -> Response:
    """One item after another."""
    annotating = desk.bench.recipe.annotating
    return page(
        request,
        "annotate.html.jinja",
        bench=desk.bench.name,
        annotator=me.name if me.token else "",
        guidelines=annotating.guidelines,
        tags=tag_letters(annotating.tags),
    )


@router.post("/annotate/{name}/next")
def annotate_next(asker: Asker, desk: Found, me: Annotator) -> dict[str, Any]:
    """What this person is asked now; it is held for them for a while."""
    annotator = asker.name(me)
    item = desk.ask(annotator)
    found: dict[str, Any] = {"item": None, **_around(desk, annotator)}
    if item is not None:
        order = shown_order(item.key, annotator, len(item.responses))
        found["item"] = {
            "key": item.key,
            "prompt": item.prompt,
            "images": [image.rpartition("/")[2] for image in item.images],
            "responses": [item.responses[place] for place in order],
        }
    return found


@router.post("/annotate/{name}/answers")
def annotate_answer(sent: Sent, desk: Found, me: Annotator) -> dict[str, Any]:
    """Keep an answer: when this has been answered, it is on the disk."""
    annotator = sent.name(me)
    draft = desk.answer(annotator, sent.stated())
    shown = None
    if draft is not None:
        responses = len(desk.item(sent.item).responses)
        mine = as_shown(draft, shown_order(sent.item, annotator, responses))
        choice = str(int(mine.label) + 1) if mine.label.isdigit() else mine.label
        shown = {"choice": choice, "rationale": mine.rationale, "tag": mine.tag}
    return {"draft": shown, **_around(desk, annotator)}


@router.get("/annotate/{name}/audit")
def annotate_audit(desk: Found, _: Reader) -> Response:
    """What `bon curate audit` wrote: it tells labels, so not to those who may only annotate."""
    path = desk.bench.audit_page
    if not path.is_file():
        raise Problem(404, "it was not audited yet", "bon curate audit DIR")
    return sandboxed(path)


@router.get("/annotate/{name}/images/{image}")
def annotate_image(image: str, desk: Found, _: Annotator) -> Response:
    """An image of one of the items, and no other file."""
    path = desk.image(image)
    if path is None:
        raise Problem(404, "no such image")
    return FileResponse(path, headers={"cache-control": "private, max-age=86400"})


def tag_letters(tags: tuple[str, ...]) -> dict[str, str]:
    """A key of its own for each tag, of its letters where possible; empty when all are taken."""
    letters: dict[str, str] = {}
    for wanted in ("initial", "any"):
        for tag in tags:
            known = [one for one in tag.lower() if "a" <= one <= "z"]
            found = known[:1] if wanted == "initial" else [*known, *ascii_lowercase]
            free = (one for one in found if one not in {*RESERVED, *letters.values()})
            if tag not in letters and (letter := next(free, "")):
                letters[tag] = letter
    return {tag: letters.get(tag, "") for tag in tags}


def _around(desk: Desk, annotator: str) -> dict[str, Any]:
    progress = desk.progress(annotator)
    return {
        "last": desk.last(annotator),
        "done": progress.mine,
        "left": progress.left,
        "pace": progress.pace,
    }
