"""Proxies: which one a dial goes through, the way through it, its refusals, and that nothing shows its credentials."""

from collections.abc import Mapping

import pytest
from websockets.asyncio.server import ServerConnection

from streamlease.feed.events import Dial, Fetch, Route
from streamlease_worker import proxy
from streamlease_worker.fetch import fetch
from streamlease_worker.proxy import ProxyFailed, chosen
from streamlease_worker.transport import SocketEnded, WebSockets
from tests.protocols.loopback import routes, run
from tests.worker import hostile
from tests.worker.proxies import Proxying, proxying
from tests.worker.test_addresses import Names
from tests.worker.test_transport import upstream

PASSWORD = "s3cr3t-pass"


async def _echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


def name(asked: str | None, url: str, environment: Mapping[str, str] | None = None) -> str | None:
    found = chosen(asked, url, environment or {})
    return None if found is None else f"{found.scheme}://{found.host}:{found.port}"


@pytest.mark.parametrize(
    ("url", "environment", "found"),
    [
        ("wss://a.example/", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("wss://a.example/", {"https_proxy": "http://small:1", "HTTPS_PROXY": "http://p:1"}, "http://small:1"),
        ("wss://a.example/", {"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ("wss://a.example/", {"HTTP_PROXY": "http://p:1"}, None),
        ("wss://a.example/", {"ALL_PROXY": "socks5://p"}, "socks5://p:1080"),
        ("wss://a.example/", {"WSS_PROXY": "http://ws:1", "HTTPS_PROXY": "http://p:1"}, "http://ws:1"),
        ("ws://a.example/", {"HTTP_PROXY": "http://p"}, "http://p:80"),
        ("wss://a.example/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example, .a.example"}, None),
        ("wss://x.a.example/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example"}, None),
        ("wss://nota.example/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "http://p:1"),
        ("wss://a.example:8443/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:443"}, "http://p:1"),
        ("wss://a.example:8443/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, None),
        ("wss://a.example/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("wss://10.1.2.3/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("wss://[fd00::1]/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "fd00::/8"}, None),
        ("ws://127.0.0.1:9/", {"ALL_PROXY": "http://p:1"}, None),
        ("ws://localhost:9/", {"ALL_PROXY": "http://p:1"}, None),
        ("wss://a.example/", {"HTTPS_PROXY": ""}, None),
    ],
)
def test_the_environments_proxy_is_chosen_as_everybody_does(
    url: str, environment: Mapping[str, str], found: str | None
) -> None:
    assert name("env", url, environment) == found


def test_the_specs_proxy_goes_before_the_environments_and_may_be_none() -> None:
    environment = {"ALL_PROXY": "http://p:1"}
    assert name("socks5h://s", "wss://a.example/", environment) == "socks5h://s:1080"
    assert name(None, "wss://a.example/", environment) is None


def test_a_proxy_that_cannot_be_is_refused_without_its_credentials() -> None:
    for url in (
        f"https://u:{PASSWORD}@p",
        f"ftp://u:{PASSWORD}@p:1",
        f"http://u:{PASSWORD}@p:x",
        "http://",
        "http://[::1",
    ):
        with pytest.raises(ProxyFailed) as refusal:
            chosen(url, "wss://a.example/", {})
        assert PASSWORD not in str(refusal.value)


def test_a_proxy_never_shows_its_password() -> None:
    found = chosen(f"http://u:{PASSWORD}@p:1", "wss://a.example/", {})
    assert PASSWORD not in f"{found} {found!r} {found.name if found else ''}"


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
@pytest.mark.parametrize("user", [None, f"user:{PASSWORD}"])
def test_a_websocket_and_a_call_go_through(scheme: str, user: str | None) -> None:
    through = Proxying(user=user)

    async def main() -> tuple[str | bytes, str, int]:
        kind = "http" if scheme == "http" else "socks5"
        async with upstream(_echo) as url, proxying(through, kind) as place:
            place = place.replace(f"{kind}://", f"{scheme}://" + (f"{user}@" if user else ""))
            socket = await WebSockets(routes()).dial(Dial(url, route=Route(proxy=place)))
            await socket.send("hello")
            said = await socket.recv()
            await socket.close(1000, "")
            answer = hostile.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            async with hostile.upstream(answer) as other:
                called = other.replace("ws://", "http://")
                body = (await fetch(Fetch(1, "GET", called, route=Route(proxy=place)), routes())).body
            return said, body, int(url.rstrip("/").rpartition(":")[2])

    said, body, port = run(main())
    assert (said, body) == ("hello", "ok")
    assert through.asked[0] == f"127.0.0.1:{port}"
    assert through.credentials == [user, user]


def test_a_name_is_the_proxys_to_look_up_unless_it_takes_addresses() -> None:
    for scheme, target in (("http", "feed.example"), ("socks5h", "feed.example"), ("socks5", "127.0.0.1")):
        through = Proxying()

        async def main(scheme: str = scheme, through: Proxying = through) -> None:
            kind = "http" if scheme == "http" else "socks5"
            async with upstream(_echo) as url, proxying(through, kind) as place:
                names = Names(feed_example="127.0.0.1", **{"127.0.0.1": "127.0.0.1"})
                url = url.replace("127.0.0.1", "feed.example")
                route = Route(proxy=place.replace(f"{kind}:", f"{scheme}:"), private_addresses=True)
                socket = await WebSockets(routes(names=names)).dial(Dial(url, route=route))
                await socket.close(1000, "")

        run(main())
        assert through.asked[0].rpartition(":")[0] == target


def test_what_a_name_stands_for_here_is_judged_all_the_same() -> None:
    names = Names(inner_example="169.254.170.2", **{"127.0.0.1": "127.0.0.1"})

    async def main() -> str:
        async with proxying(Proxying(), "http") as place:
            with pytest.raises(SocketEnded) as refusal:
                await WebSockets(routes(names=names)).dial(Dial("wss://inner.example/", route=Route(proxy=place)))
            return str(refusal.value)

    assert "a link-local or metadata address" in run(main())


def test_a_specs_proxy_is_judged_and_the_environments_is_not() -> None:
    async def main() -> None:
        async with upstream(_echo) as url, proxying(Proxying(), "http") as place:
            port = int(url.rstrip("/").rpartition(":")[2])
            public = Names(feed_example="8.8.8.8", **{"127.0.0.1": "127.0.0.1"})
            feed = "ws://feed.example/"
            with pytest.raises(SocketEnded, match="is a loopback address"):
                await WebSockets(routes(permitted="", names=public)).dial(Dial(feed, route=Route(proxy=place)))
            own = routes(permitted="", names=public, environment={"HTTP_PROXY": place})
            socket = await WebSockets(own).dial(Dial(f"ws://feed.example:{port}/"))
            await socket.close(1000, "")

    run(main())


@pytest.mark.parametrize(
    ("through", "scheme", "sentence"),
    [
        (Proxying(user=f"u:{PASSWORD}x"), "http", "with HTTP 407: its credentials are missing or wrong"),
        (Proxying(user=f"u:{PASSWORD}x"), "socks5", "did not connect to"),
        (Proxying(answer=b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), "http", "with HTTP 403"),
        (Proxying(answer=b"SSH-2.0\r\n\r\n"), "http", "did not answer in HTTP"),
        (Proxying(answer=b""), "http", "did not answer in HTTP"),
        (Proxying(answer=b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), "http", "did not answer in HTTP"),
        (Proxying(answer=b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000), "http", "answered with more than 65,536 bytes"),
    ],
)
def test_a_proxys_refusal_is_a_sentence_with_its_name_alone(through: Proxying, scheme: str, sentence: str) -> None:
    async def main() -> str:
        async with proxying(through, scheme) as place:
            route = Route(proxy=place.replace("://", f"://u:{PASSWORD}@"))
            with pytest.raises(SocketEnded) as refusal:
                await WebSockets(routes()).dial(Dial("ws://127.0.0.1:9/", route=route, open_timeout_s=5))
            return str(refusal.value)

    said = run(main())
    assert sentence in said
    assert f"the proxy 127.0.0.1:{through.port}" in said
    assert PASSWORD not in said


def test_a_proxy_that_is_not_there_is_named() -> None:
    async def main() -> str:
        route = Route(proxy="socks5h://127.0.0.1:1")
        with pytest.raises(SocketEnded) as refusal:
            await WebSockets(routes()).dial(Dial("ws://127.0.0.1:9/", route=route))
        return str(refusal.value)

    assert "the proxy 127.0.0.1:1 " in run(main())
    assert proxy.PORTS["socks5h"] == 1080
