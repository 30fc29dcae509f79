"""The operator's settings: one YAML file, overridden by the flags of `bon serve`."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from bon.core.validation import Strict, validate
from bon.experiment.config import CardRef
from bon.experiment.yamlfile import read_yaml

Role = Literal["annotate", "read", "submit", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


class Limits(Strict):
    """What one request, validation or owner may take: what depends on the machine and the team.

    What does not is a constant where it is enforced.
    """

    n: int = Field(256, ge=1, description="candidates of a question, also of judging.deep")
    tokens: int = Field(32_768, ge=1, description="of a reply, with what the model thinks")
    calls: int = Field(50_000_000, ge=1, description="planned model calls of a validation")
    gpus_per_run: float = Field(8, ge=0, description="that a validation needs at once")
    hours: float = Field(72, gt=0, description="of one attempt of a validation")
    dollars_per_owner: float = Field(20, ge=0, description="that an owner may spend, ever")
    dollars: float = Field(100, ge=0, description="that all owners may spend together")
    connections: int = Field(500, ge=10, description="requests that are open at once")
    requests_per_minute: int = Field(6000, ge=0, description="of one token or address; 0: any")
    request_seconds: float = Field(300, gt=0, description="of an online request")


class Allow(Strict):
    """Features that are off unless listed here."""

    python: tuple[str, ...] = Field((), description="module:Class that experiments may name")
    remote_code: bool = False
    base_urls: tuple[str, ...] = Field((), description="endpoints that cards may call")
    api_cards: tuple[str, ...] = Field(
        (), description="shipped cards of paid endpoints that experiments may name"
    )
    hubs: tuple[str, ...] = Field(
        (), description="datasets of the hub besides those of bon's benchmarks; '*' for any"
    )
    hosts: tuple[str, ...] = Field(
        (), description="Host headers besides loopback (NAME:PORT where browsers use one); '*': any"
    )


class Scaling(Strict):
    """Replicas and queue of an online model."""

    max_replicas: int = Field(1, ge=1)
    max_ongoing_requests: int = Field(64, ge=1, description="a replica works on at once")
    max_queued_requests: int = Field(256, ge=0, description="wait; more are answered 429")


class Online(Strict):
    """Policies and rewarders that answer online. Cards are the operator's: names or files."""

    policies: tuple[CardRef, ...] = ()
    rewarders: tuple[CardRef, ...] = ()
    backend: Literal["ray", "process"] = Field(
        "ray", description="models in Ray actors, or in the server's process"
    )
    scaling: Scaling = Scaling()
    validated: Path | None = Field(None, description="the run whose units of scores are served")
    scales: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="units of scores by rewarder, in place of those of the validated run"
    )
    allow_remote_code: bool = False


class Settings(Strict):
    """The service's settings."""

    data: Path = Path("bon-data")
    host: str = "127.0.0.1"
    port: int = Field(8321, ge=0, le=65535)
    root_path: str = Field(
        "",
        pattern=r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
        description="prefix under which a proxy serves the server, as /bon",
    )
    auth: bool = Field(True, description="every request needs a token; false only on loopback")
    listen_beyond_loopback: bool = Field(
        False, description="ports besides the server's own may be reachable from other machines"
    )
    ray_address: str | None = None
    max_running: int = Field(1, ge=1, description="validations that run at once")
    miniature: bool = Field(True, description="put the miniature's data into files/")
    annotate: tuple[Path, ...] = Field(
        (), description="folders of bon curate that people label here, besides data/benchmarks/*"
    )
    limits: Limits = Limits()
    allow: Allow = Allow()
    online: Online = Online()
    base: Path = Field(Path("."), description="where card files are relative to; set by the file")

    @property
    def files(self) -> Path:
        """The only folder that an experiment's paths can reach."""
        return self.data / "files"

    @property
    def runs(self) -> Path:
        """The validations' run directories."""
        return self.data / "runs"

    @property
    def benchmarks(self) -> Path:
        """The folders of benchmarks in the making."""
        return self.data / "benchmarks"


def read_settings(path: Path | None, **flags: Any) -> Settings:
    """Read settings from a file, overridden by the flags that are not None."""
    data: dict[str, Any] = {} if path is None else read_yaml(path)
    if path is not None:
        data.setdefault("base", str(path.parent))
    data |= {key: value for key, value in flags.items() if value is not None}
    settings = validate(Settings, data, str(path or "bon serve"))
    absolute = {"data": settings.data.absolute(), "base": settings.base.absolute()}
    return settings.model_copy(update=absolute)
