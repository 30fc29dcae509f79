"""Images of online requests: data URLs, and addresses on hosts that the operator allows.

A fetch resolves the name itself, refuses every address that is not public, connects to the
checked address (so the name cannot change in between), checks every redirect alike, and stops at
the size and time limits.
"""

import asyncio
import base64
import ctypes
import ipaddress
import re
import socket
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

import httpx

from bon.core.images import ImageError, open_image
from bon.engines.base import ImagePart
from bon.service.errors import ApiError
from bon.service.online.selector import image_part
from bon.service.settings import Limits, Settings

MAX_REDIRECTS = 3
MAX_RATIO = 200
"""Of an image's sides: Qwen-VL's processors refuse more."""
_LARGE = 4_000_000
_OPENING = asyncio.Semaphore(2)  # so that other requests find a thread and a core
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)


def _bad(message: str) -> ApiError:
    return ApiError(422, message)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the image is larger than {most} bytes")


async def read_image(url: str, settings: Settings, pixels: int) -> tuple[ImagePart, int]:
    """Return the image and its pixels, at most `pixels`; it is decoded to check it."""
    limits = settings.limits
    if url[:5].lower() == "data:":
        data = _decode(url, limits.image_bytes)
    else:
        try:
            async with asyncio.timeout(limits.image_seconds):
                data = await _fetch(url, settings)
        except TimeoutError:
            raise _bad(f"the image took longer than {limits.image_seconds:g} s") from None
    try:
        async with _OPENING:
            size = await asyncio.to_thread(_size, data, min(pixels, limits.image_pixels), limits)
    except ImageError as error:
        raise ApiError(413 if "pixels" in str(error) else 422, str(error)) from None
    return image_part(data), size


def _size(data: bytes, pixels: int, limits: Limits) -> int:
    """Decode an image to check it, and return its pixels."""
    image = open_image(data, pixels, limits.image_side, MAX_RATIO)
    size = image.width * image.height
    del image
    if size > _LARGE:  # glibc keeps the memory of a thread: 470 MB after 39 million pixels
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    return size


def _decode(url: str, most: int) -> bytes:
    head = _DATA_URL.match(url)
    if head is None:
        raise _bad("an image's data URL begins with data:image/TYPE;base64,")
    if len(url) - head.end() > most * 4 / 3 + 4:
        raise _too_large(most)
    try:
        return base64.b64decode(url[head.end() :], validate=True)
    except ValueError:
        raise _bad("the image is not valid base64") from None


async def _fetch(url: str, settings: Settings) -> bytes:
    if not settings.allow.image_hosts:
        raise _bad("image addresses are off on this server: send the image as a data URL")
    for _ in range(MAX_REDIRECTS + 1):
        address, host = await _check_url(url, settings.allow.image_hosts)
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        literal = f"[{address}]" if ":" in address else address
        target = parts._replace(netloc=f"{literal}{port}", fragment="").geturl()
        async with (
            httpx.AsyncClient(timeout=settings.limits.image_seconds, trust_env=False) as client,
            client.stream(
                "GET",
                target,
                headers={"host": host + port, "accept": "image/*", "accept-encoding": "identity"},
                extensions={"sni_hostname": host},
            ) as response,
        ):
            if response.is_redirect:
                url = urljoin(url, response.headers.get("location", ""))
                continue
            if response.status_code != 200:
                raise _bad(f"the image's server answered {response.status_code}")
            if not response.headers.get("content-type", "").startswith("image/"):
                raise _bad("what the address returned is not an image")
            return await _body(response, settings.limits.image_bytes)
    raise _bad(f"more than {MAX_REDIRECTS} redirects")


async def _check_url(url: str, allowed: tuple[str, ...]) -> tuple[str, str]:
    """Return (address, host) of a URL that may be fetched."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _bad("the image's address is not valid") from None
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise _bad("an image's address is http(s)://HOST/… without a user")
    if "*" not in allowed and host not in allowed:
        raise _bad(f"images from {host[:100]!r} are not allowed on this server")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        loop = asyncio.get_running_loop()
        entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _bad(f"no address for {host[:100]!r}") from None
    addresses = [str(entry[4][0]) for entry in entries]
    if not all(map(public, addresses)):
        raise _bad(f"{host[:100]!r} is not a public address")
    return addresses[0], host


def public(address: str) -> bool:
    """Whether an address, wrapped in another form or not, is on the public internet."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return public(str(inner))
    return ip.is_global and not ip.is_multicast


async def _body(response: httpx.Response, most: int) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > most:
            raise _too_large(most)
    return bytes(data)
