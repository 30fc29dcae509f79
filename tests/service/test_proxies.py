"""The shipped nginx and Caddy configurations, running before a real server."""

import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest
import yaml

from bon.service.server.state import open_tokens
from tests.service.server import serving
from tests.service.test_deploy import COMPOSE, DEPLOY, SETTINGS
from tests.service.test_pages import HTML
from tests.service.test_serve import wait_ready

NAME = "bon.example.com"
CLIENT = "127.0.0.9"
CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -out cert.pem -keyout key.pem -subj "
    f"/CN={NAME} -addext subjectAltName=DNS:{NAME}"
)
NGINX = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/proxy.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {shipped}
}}
"""
CADDY = """
{{
    admin off
    auto_https disable_redirects
    storage file_system {folder}/storage
    default_bind 127.0.0.1
}}
{shipped}
"""
PROXIES = {
    "nginx": (
        ["nginx", "-e", "stderr", "-c"],
        DEPLOY / "nginx.conf",
        NGINX,
        {
            "listen 443": "listen 127.0.0.1:{port}",
            "/etc/ssl/bon.example.com.pem": "{folder}/cert.pem",
            "/etc/ssl/bon.example.com.key": "{folder}/key.pem",
            "127.0.0.1:8321;": "127.0.0.1:{upstream};",
        },
    ),
    "caddy": (
        ["caddy", "run", "--adapter", "caddyfile", "--config"],
        DEPLOY / "Caddyfile",
        CADDY,
        {
            f"{NAME} {{": NAME + ":{port} {\n\ttls {folder}/cert.pem {folder}/key.pem",
            "bon:8321": "127.0.0.1:{upstream}",
        },
    ),
}


@contextmanager
def proxying(name, folder, upstream):
    """The proxy before a server on port `upstream`; yields its own port."""
    command, shipped, frame, changes = PROXIES[name]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
    text = shipped.read_text()
    for old, new in changes.items():
        assert old in text
        for key, value in (("port", port), ("folder", folder), ("upstream", upstream)):
            new = new.replace(f"{{{key}}}", str(value))
        text = text.replace(old, new)
    (folder / "proxy.conf").write_text(frame.format(folder=folder, shipped=text))
    with (folder / "proxy.out").open("wb") as out:
        process = subprocess.Popen([*command, folder / "proxy.conf"], stdout=out, stderr=out)
    try:
        end = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            ended = process.poll() is not None or time.monotonic() > end
            assert not ended, (folder / "proxy.out").read_text()
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.ray
@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", PROXIES)
def test_people_sign_in_through_the_shipped_proxy(tmp_path, monkeypatch, name):
    for program in (name, "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo",
        lambda host, *more, **options: resolve(
            "127.0.0.1" if host == NAME else host, *more, **options
        ),
    )  # fmt: skip
    # Caddy stands before the server of the Compose file, which nginx's does not need to be.
    settings = {"allow": {"hosts": [NAME]}}
    if name == "caddy":
        settings = yaml.safe_load(SETTINGS["compose"])
        del settings["data"]
    token = open_tokens(tmp_path / "data").add("ann", "submit")
    with (
        serving(tmp_path, auth=True, **settings) as server,
        proxying(name, tmp_path, server.port) as port,
        httpx.Client(
            base_url=f"https://{NAME}:{port}",
            headers=HTML,
            follow_redirects=True,
            transport=httpx.HTTPTransport(
                verify=ssl.create_default_context(cafile=tmp_path / "cert.pem"),
                local_address=CLIENT,
            ),
        ) as browser,
    ):
        wait_ready(browser)
        python, *probe = COMPOSE["services"]["bon"]["healthcheck"]["test"][1:]
        probe = [part.replace("8321", str(server.port)) for part in probe]
        assert python == "python"
        subprocess.run([sys.executable, *probe], check=True)
        assert browser.get("/validations").url.path == "/login"
        form = {"data": {"token": token}, "follow_redirects": False}
        elsewhere = browser.post("/login", **form, headers={"origin": "https://evil.example"})
        assert elsewhere.status_code == 403
        answer = browser.post("/login", **form, headers={"origin": f"https://{NAME}"})
        assert answer.status_code == 303
        assert "Secure" in answer.headers["set-cookie"]
        page = browser.get("/validations")
        assert page.url.path == "/validations"
        assert f"https://{NAME}" in page.text
        # As large as bon accepts: it is bon that answers, not the proxy.
        large = browser.post(
            "/v1/score", content=b" " * (20 << 20),
            headers={"origin": f"https://{NAME}", "accept": "application/json"},
        )  # fmt: skip
        assert "error" in large.json()
        assert f'"{CLIENT}"' in (tmp_path / "server.log").read_text()


@pytest.mark.slow
def test_nginx_limits_how_large_and_slow_the_head_of_a_request_is(tmp_path):
    """The server leaves that to its proxy."""
    for program in ("nginx", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    with proxying("nginx", tmp_path, upstream=9) as port:
        context = ssl.create_default_context(cafile=tmp_path / "cert.pem")

        def reply_to(data):
            plain = socket.create_connection(("127.0.0.1", port), timeout=60)
            with context.wrap_socket(plain, server_hostname=NAME) as sock:
                sock.sendall(data)
                return sock.recv(4096)

        head = f"GET / HTTP/1.1\r\nhost: {NAME}\r\nx-more: ".encode()
        assert reply_to(head + b"y" * 40_000).startswith(b"HTTP/1.1 400")
        assert reply_to(head) == b""  # it closes the connection
