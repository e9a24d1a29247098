"""TLS: own authorities, client certificates, the name that is asked for; and contexts that are shared."""

import ssl
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

from streamlease.feed.events import Dial, Route, Tls
from streamlease_worker import tls
from streamlease_worker.tls import BadTls, Contexts
from streamlease_worker.transport import SocketEnded, WebSockets
from tests.protocols.loopback import routes, run
from tests.worker.certificates import Authority
from tests.worker.test_transport import upstream


async def _echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


def dialled(tmp_path: Path, served: ssl.SSLContext, asked: Tls, host: str = "127.0.0.1") -> str | bytes:
    """What an echoed word comes back as. Raises SocketEnded."""

    async def main() -> str | bytes:
        async with upstream(_echo, ssl=served) as url:
            url = url.replace("ws://127.0.0.1", f"wss://{host}")
            socket = await WebSockets(routes()).dial(Dial(url, route=Route(tls=asked)))
            await socket.send("hello")
            answer = await socket.recv()
            await socket.close(1000, "")
            return answer

    return run(main())


def test_an_authority_of_the_specs_own_is_trusted_and_no_other(tmp_path: Path) -> None:
    ours, other = Authority(), Authority("other")
    served = ours.server(tmp_path, "127.0.0.1")
    assert dialled(tmp_path, served, Tls(ca=ours.pem)) == "hello"
    for asked in (Tls(ca=other.pem), Tls()):
        with pytest.raises(SocketEnded, match="cannot be trusted"):
            dialled(tmp_path, served, asked)


def test_a_certificate_for_another_host_is_refused_unless_its_name_is_asked_for(tmp_path: Path) -> None:
    ours = Authority()
    served = ours.server(tmp_path, "feed.example")
    with pytest.raises(SocketEnded, match="cannot be trusted"):
        dialled(tmp_path, served, Tls(ca=ours.pem))
    assert dialled(tmp_path, served, Tls(ca=ours.pem, server_name="feed.example")) == "hello"


def test_the_name_that_is_asked_for_is_the_urls_host(tmp_path: Path) -> None:
    ours = Authority()
    served, names = ours.server(tmp_path, "localhost"), []
    served.sni_callback = lambda _, name, __: names.append(name)
    assert dialled(tmp_path, served, Tls(ca=ours.pem), host="localhost") == "hello"
    assert names == ["localhost"]


def test_a_client_certificate_is_shown_with_its_key_beside_it_or_in_it(tmp_path: Path) -> None:
    ours, theirs = Authority(), Authority("clients")
    served = ours.server(tmp_path, "127.0.0.1", clients=theirs)
    certificate, key = theirs.vouch("worker")
    assert dialled(tmp_path, served, Tls(ca=ours.pem, certificate=certificate, key=key)) == "hello"
    assert dialled(tmp_path, served, Tls(ca=ours.pem, certificate=certificate + key)) == "hello"
    with pytest.raises(SocketEnded):
        dialled(tmp_path, served, Tls(ca=ours.pem))


def test_what_is_no_certificate_is_said_without_a_word_of_it() -> None:
    certificate, key = Authority().vouch("worker")
    _, another = Authority().vouch("worker")
    for asked, field in (
        (Tls(ca="s3cr3t"), "tls.ca"),
        (Tls(ca=""), "tls.ca"),
        (Tls(certificate="s3cr3t", key=key), "tls.certificate"),
        (Tls(certificate=certificate, key="s3cr3t"), "tls.certificate"),
        (Tls(certificate=certificate, key=another), "tls.certificate"),
        (Tls(certificate=certificate), "tls.certificate"),
    ):
        with pytest.raises(BadTls, match=field) as refusal:
            Contexts().of(asked)
        assert "s3cr3t" not in str(refusal.value)
        assert key not in str(refusal.value)


def test_w3_all_connections_that_trust_the_same_share_a_context() -> None:
    contexts, ours = Contexts(), Authority()
    assert contexts.of(Tls()) is contexts.of(Tls())
    assert contexts.of(Tls(ca=ours.pem)) is contexts.of(Tls(ca=ours.pem, server_name="other.example"))
    assert contexts.of(Tls()) is not contexts.of(Tls(ca=ours.pem))


def test_so_many_contexts_are_kept_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST_CONTEXTS", 2)
    contexts = Contexts()
    pems = [Authority().pem for _ in range(3)]
    made = [contexts.of(Tls(ca=pem)) for pem in pems]
    assert contexts.of(Tls(ca=pems[2])) is made[2]
    assert contexts.of(Tls(ca=pems[0])) is not made[0]


def test_no_key_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    certificate, key = Authority().vouch("worker")
    Contexts().of(Tls(certificate=certificate, key=key))
    monkeypatch.delattr("os.memfd_create", raising=False)
    Contexts().of(Tls(certificate=certificate, key=key))
    assert list(tmp_path.iterdir()) == []
