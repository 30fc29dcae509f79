"""What clients without a token may cost a server: attacks on a real one, each bounded."""

import re
import socket
import time

import psutil
import pytest

from bon.service.server.middleware import FORM_SECONDS
from tests.service.server import serving

pytestmark = pytest.mark.slow
MB = 1024 * 1024
CONNECTIONS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    limits = {"connections": CONNECTIONS}
    with serving(tmp_path_factory.mktemp("server"), auth=True, limits=limits) as running:
        yield running


@pytest.fixture
def cost(server):
    """Memory that the server gained, and how long a health check takes then, the best of five."""
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss

    def measured():
        took = []
        while len(took) < 5 and min(took, default=1) >= 1:
            started = time.monotonic()
            assert server.client.get("/healthz").status_code == 200
            took.append(time.monotonic() - started)
        return (process.memory_info().rss - before) / MB, min(took)

    return measured


def connected(server, window=None):
    """A connection; `window` is how much of its answers it takes in unread."""
    sock = socket.socket()
    if window is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    sock.settimeout(10)
    sock.connect(("127.0.0.1", server.port))
    return sock


def push(sock, data, times):
    """Send until the other side has had enough; bytes that went out."""
    sent = 0
    try:
        for _ in range(times):
            sock.sendall(data)
            sent += len(data)
    except OSError:
        pass
    return sent


def closed(sock):
    """Whether the other side ends the connection; what it still says is read."""
    try:
        while sock.recv(65536):
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


HEAD = b"POST /v1/score HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize("length", [b"content-length: 30000000", b"transfer-encoding: chunked"])
def test_no_body_is_read_without_a_token(server, cost, length):
    with connected(server) as sock:
        sock.sendall(HEAD + length + b"\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 401")
        assert push(sock, b"x" * MB, 30) < 30 * MB
    memory, seconds = cost()
    assert (memory < 10, seconds < 1) == (True, True)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"content-length: 1000000\r\n\r\n" + b"x" * 100_000, 401),  # half of the body
        (b"x-more: " + b"y" * 40_000 + b"\r\n\r\n", 431),
    ],
)
def test_nothing_more_is_waited_for(server, cost, sent, status):
    socks = [connected(server) for _ in range(30)]
    for sock in socks:
        push(sock, HEAD + sent, 1)
    assert all(sock.recv(4096).startswith(b"HTTP/1.1 %d" % status) for sock in socks)
    assert all(closed(sock) for sock in socks)
    memory, seconds = cost()
    assert (memory < 10, seconds < 1) == (True, True)


LOGIN = b"POST /login HTTP/1.1\r\nhost: localhost\r\n"


def test_forms_that_are_sent_slowly_leave_room(server, cost):
    """A form is all that is read without a token."""
    socks = [connected(server) for _ in range(CONNECTIONS - 2)]  # more of them would cut the first
    for sock in socks:
        sock.sendall(LOGIN + b"content-length: 100\r\n\r\nx")
    memory, seconds = cost()
    assert (memory < 5, seconds < 1) == (True, True)
    time.sleep(FORM_SECONDS + 0.5)
    answers = [sock.recv(4096)[:12] for sock in socks]
    assert set(answers) == {b"HTTP/1.1 408", b"HTTP/1.1 429"}
    assert answers.count(b"HTTP/1.1 408") == CONNECTIONS * 0.2
    assert all(closed(sock) for sock in socks)


def test_one_token_leaves_room_for_others(server, cost):
    slow = b"POST /v1/plan HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer "
    slow += server.printed_token.encode() + b"\r\ncontent-length: 100\r\n\r\nx"
    socks = [connected(server) for _ in range(CONNECTIONS - 2)]
    for sock in socks:
        sock.sendall(slow)
    time.sleep(0.2)
    memory, seconds = cost()
    assert (memory < 5, seconds < 1) == (True, True)
    refused = 0
    for sock in socks:
        sock.settimeout(0.05)
        try:
            refused += sock.recv(4096).startswith(b"HTTP/1.1 429")
        except TimeoutError:
            sock.close()
    assert refused == CONNECTIONS - 2 - CONNECTIONS * 0.8


# ------------------------------------------------------------------ what is no proper request

GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
NEXT = GET + b"\r\n"
MODELS = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
WIRE = {
    # A second request hidden in the first one's body would be a second answer.
    "two framings": (LOGIN + b"content-length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + NEXT, [400]),
    "the other order": (LOGIN + CHUNKED + b"content-length: 5\r\n\r\n0\r\n\r\n" + NEXT, [400]),
    "two lengths": (LOGIN + b"content-length: 0\r\ncontent-length: 9\r\n\r\n" + NEXT, [400]),
    "one length twice": (LOGIN + b"content-length: 0\r\ncontent-length: 0\r\n\r\n" + NEXT, [400]),
    "a list of lengths": (LOGIN + b"content-length: 0, 0\r\n\r\n" + NEXT, [400]),
    "a signed length": (LOGIN + b"content-length: +0\r\n\r\n" + NEXT, [400]),
    "a negative length": (LOGIN + b"content-length: -1\r\n\r\n" + NEXT, [400]),
    "a length in hex": (LOGIN + b"content-length: 0x0\r\n\r\n" + NEXT, [400]),
    "a length of 30 digits": (LOGIN + b"content-length: " + b"9" * 30 + b"\r\n\r\n" + NEXT, [400]),
    "a length that is ²": (LOGIN + b"content-length: \xb2\r\n\r\n" + NEXT, [400]),
    "unknown coding": (LOGIN + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + NEXT, [400]),
    "two codings": (LOGIN + CHUNKED + b"transfer-encoding: identity\r\n\r\n0\r\n\r\n", [400]),
    "a space before the colon": (LOGIN + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n", [400]),
    "a folded coding": (LOGIN + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + NEXT, [400]),
    "a folded header": (GET + b"x-a: b\r\n c\r\n\r\n", [400]),
    "a first line that is folded": (b"GET /healthz HTTP/1.1\r\n host: localhost\r\n\r\n", [400]),
    "line feeds alone": (NEXT.replace(b"\r", b""), [400]),
    "carriage returns alone": (NEXT.replace(b"\n", b""), [400]),
    "a bare carriage return": (GET + b"x-a: b\rx-c: d\r\n\r\n", [400]),
    "a null in a header": (GET + b"x-a: b\0c\r\n\r\n", [400]),
    "a chunk that ends in a line feed": (LOGIN + CHUNKED + b"\r\n1\na\n0\n\n" + NEXT, [400]),
    "a negative chunk": (LOGIN + CHUNKED + b"\r\n-1\r\na\r\n0\r\n\r\n" + NEXT, [400]),
    "a chunk of 2^68": (LOGIN + CHUNKED + b"\r\n" + b"F" * 17 + b"\r\na\r\n", [400]),
    "a trailer with a token": (
        LOGIN + CHUNKED + b"\r\n0\r\nauthorization: Bearer x\r\nhost: evil\r\n\r\n" + NEXT,
        [421, 200],  # two hosts
    ),
    "two requests": (NEXT + NEXT, [200, 200]),
    # Names and paths.
    "two hosts": (b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n", [421]),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", [421]),
    "a host with a user": (b"GET / HTTP/1.1\r\nhost: localhost:80@evil\r\n\r\n", [421]),
    "a host in brackets": (b"GET / HTTP/1.1\r\nhost: [::1]evil\r\n\r\n", [421]),
    "a list of hosts": (b"GET / HTTP/1.1\r\nhost: localhost, evil\r\n\r\n", [421]),
    "a host in capitals": (b"GET /v1/models HTTP/1.1\r\nhost: LOCALHOST\r\n\r\n", [401]),
    "another host in the target": (MODELS.replace(b"/v1", b"http://evil/v1") + b"\r\n", [401]),
    "a tunnel": (b"CONNECT evil:443 HTTP/1.1\r\nhost: localhost\r\n\r\n", [400]),
    "an unknown method": (b"FOO / HTTP/1.1\r\nhost: localhost\r\n\r\n", [400]),
    "a small method": (NEXT.replace(b"GET", b"get"), [400]),
    "version 1.9": (NEXT.replace(b"1.1", b"1.9"), [400]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 99, [400]),
    "an upgrade": (GET + b"upgrade: h2c\r\nconnection: Upgrade, HTTP2-Settings\r\n\r\n", [200]),
    "slashes": (GET.replace(b"/healthz", b"//healthz") + b"\r\n", [404]),
    "dots": (GET.replace(b"/healthz", b"/static/../healthz") + b"\r\n", [404]),
    "encoded dots": (GET.replace(b"/healthz", b"/static/%2e%2e/settings.py") + b"\r\n", [404]),
    "encoded slashes": (GET.replace(b"/healthz", b"/static/..%2f..%2fguard.py") + b"\r\n", [404]),
    "an encoded null": (GET.replace(b"/healthz", b"/static/style.css%00") + b"\r\n", [404]),
    "a null": (GET.replace(b"/healthz", b"/static/\0") + b"\r\n", [400]),
    "half of UTF-8": (GET.replace(b"/healthz", b"/static/%c3%28%zz") + b"\r\n", [404]),
    "a path of 30 kB": (GET.replace(b"/healthz", b"/" + b"a" * 30_000) + b"\r\n", [404]),
    "a path of 200 kB": (GET.replace(b"/healthz", b"/" + b"a" * 200_000) + b"\r\n", [400]),
    "10,000 headers": (GET + b"a:\r\n" * 7000 + b"\r\n", [200]),
    "bytes as a token": (MODELS + b"authorization: Bearer \xff\r\n\r\n", [401]),
    "bytes as a session": (MODELS + b"cookie: bon_session_PORT=\xff\r\n\r\n", [401]),
}  # fmt: skip


@pytest.fixture(scope="module")
def answered(server):
    """The statuses that each was answered with, and the seconds until the last."""
    result = {}
    names = list(WIRE)
    for start in range(0, len(names), 20):
        socks = {name: connected(server) for name in names[start : start + 20]}
        for name, sock in socks.items():
            push(sock, WIRE[name][0].replace(b"PORT", str(server.port).encode()), 1)
        time.sleep(0.5)
        for name, sock in socks.items():
            sock.settimeout(0.01)
            text = b""
            try:
                while part := sock.recv(65536):
                    text += part
            except OSError:  # it stays open, or was cut
                pass
            result[name] = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", text)]
            sock.close()
    return result


@pytest.mark.parametrize("name", WIRE)
def test_what_is_no_proper_request(answered, name):
    assert answered[name] == WIRE[name][1]


def test_none_of_them_broke_or_cost_anything(server, answered, cost):
    memory, seconds = cost()
    assert (memory < 5, seconds < 1) == (True, True)
    log = (server.folder / "server.log").read_text().lower()
    assert "traceback" not in log, log[log.index("traceback") :][2000:5500]
    assert max(map(len, log.splitlines())) < 2000
