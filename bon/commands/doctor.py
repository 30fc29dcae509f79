"""`bon doctor`: what this machine has, what each missing part disables, and how to get it.

Nothing heavy is imported (a broken torch must not break its own check), no model is loaded, and
of keys only the names are shown.
"""

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil

from bon.engines import ENGINES
from bon.planning.model_sizes import hub_cache, hub_home

State = Literal["ok", "missing", "warning"]

# Alternative distributions, what needs them, how to install them.
PACKAGES = (
    (("ray",), "runs: nothing can be computed", "pip install 'bon'"),
    *(
        (names, entry.unavailable, f"pip install 'bon[{engine}]'")
        for engine, entry in ENGINES.items()
        for names in entry.packages
    ),
    (("accelerate",), "device_map: one model on several GPUs", "pip install 'bon[transformers]'"),
    (("torchvision",), "Pixtral on the transformers engine", "pip install 'bon[vision]'"),
    (("datasets",), "datasets from the hub (a local `path` works)", "pip install 'bon[hub]'"),
    (("huggingface-hub",), "models and datasets from the hub", "pip install 'bon[hub]'"),
    (("fastapi",), "bon serve", "pip install 'bon[service]'"),
)
KEYS = (
    ("HF_TOKEN", "gated models and datasets (Llama 3.2, Skywork-VL-Reward)"),
    ("OPENAI_API_KEY", "GPT models of OpenAI"),
    ("GEMINI_API_KEY", "Gemini"),
    ("ANTHROPIC_API_KEY", "Claude"),
)
HUB = "huggingface.co"


@dataclass(frozen=True)
class Finding:
    """One check; `disables` and `fix` are empty where all is well."""

    name: str
    state: State
    found: str
    disables: str = ""
    fix: str = ""


def examine(*, network: bool = True) -> list[Finding]:
    """Run all checks; `network` also tries to reach the hub."""
    return [*_machine(), *_packages(), _gpu(), *_room(), *([_hub()] if network else []), *_keys()]


def show_findings(findings: list[Finding]) -> str:
    """Format one line per finding, with what to do about problems."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<7}  {finding.name:<{width}}  {finding.found}")
        if finding.disables:
            lines.append(f"{'':<{width + 11}}unavailable: {finding.disables}")
        if finding.fix:
            lines.append(f"{'':<{width + 11}}fix: {finding.fix}")
    return "\n".join(lines)


def _machine() -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")
    memory = _bytes(psutil.virtual_memory().total)
    system = f"{platform.system()} {platform.machine()}"
    yield Finding("machine", "ok", f"{os.cpu_count()} CPUs, {memory} memory, {system}")
    cluster = os.environ.get("BON_RAY_ADDRESS", "none named: each run starts its own here")
    yield Finding("Ray cluster", "ok", cluster)


def _packages() -> Iterator[Finding]:
    for names, use, fix in PACKAGES:
        for name in names:
            try:
                yield Finding(names[0], "ok", f"{name} {version(name)}")
                break
            except PackageNotFoundError:
                continue
        else:
            yield Finding(names[0], "missing", "not installed", use, fix)


def _gpu() -> Finding:
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        output = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        if gpus := output.stdout.strip().replace("\n", "; "):
            return Finding("GPU", "ok", gpus)
    return Finding(
        "GPU",
        "missing",
        "nvidia-smi finds none",
        "models above about one billion parameters; the demo and API models need none",
        "a machine with an NVIDIA GPU and its driver, or a cluster by --ray-address",
    )


def _room() -> Iterator[Finding]:
    """Check free space; in a container, shared memory may be small."""
    for name, folder, minimum, use, fix in (
        ("disk here", Path.cwd(), 5e9, "runs with images", "free some space"),
        ("disk for models", hub_cache(), 20e9, "a 7B to 8B checkpoint", "move HF_HOME elsewhere"),
        ("shared memory", Path("/dev/shm"), 1e9, "fast exchange with Ray", "--shm-size=4g"),
    ):
        if name == "shared memory" and not folder.is_dir():
            continue  # not Linux
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        details = f"{_bytes(free)} free for {folder}"
        if free >= minimum:
            yield Finding(name, "ok", details)
        else:
            yield Finding(name, "warning", details, f"{use} (about {_bytes(minimum)})", fix)


def _hub() -> Finding:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        use = "models and datasets that are not cached"
        return Finding("hub", "warning", "HF_HUB_OFFLINE is set", use, "unset it")
    host = os.environ.get("HF_ENDPOINT", f"https://{HUB}").split("//")[-1].split("/")[0]
    name, _, port = host.partition(":")
    try:
        with socket.create_connection((name, int(port or 443)), timeout=5):
            return Finding("hub", "ok", f"{host} can be reached")
    except (OSError, ValueError) as error:
        return Finding(
            "hub",
            "warning",
            f"{host} cannot be reached ({error})",
            "models and datasets that are not cached or local",
            "check the network or a proxy; set HF_ENDPOINT to a mirror; give a `path`",
        )


def _keys() -> Iterator[Finding]:
    token_file = Path(os.environ.get("HF_TOKEN_PATH") or hub_home() / "token")
    for name, use in KEYS:
        if os.environ.get(name):
            yield Finding(name, "ok", "set")
        elif name == "HF_TOKEN" and token_file.is_file():
            yield Finding(name, "ok", "logged in")
        else:
            fix = "hf auth login" if name == "HF_TOKEN" else f"export {name}=…"
            yield Finding(name, "warning", "not set", use, fix)


def _bytes(count: float) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
