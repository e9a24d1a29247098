"""Real sockets on loopback, in virtual time: a day passes as soon as nobody has anything left to read.

What one side writes to loopback can be read once the write has returned, so where no socket is ready nothing is under
way, and the clock may go on to the next timer. A moment of real time is given first, for a kernel that is late.

How fast the machine is, and whether it stands still for seconds, is then of no consequence. Both sides must be in the
one loop, and nothing may wait for a thread: time would pass meanwhile.
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence

from aiohappyeyeballs import AddrInfoType

from streamlease_worker.addresses import GetAddrInfo, Resolver, allowed
from streamlease_worker.routes import Routes
from tests.fakes.loop import VirtualLoop

LATE_S = 0.001
"""Real time that is given to the kernel before any time passes."""
STUCK_S = 5.0


class LoopbackLoop(VirtualLoop):
    def __init__(self) -> None:
        super().__init__(late_s=LATE_S, stuck_s=STUCK_S)


def run[T](main: Coroutine[object, object, T]) -> T:
    """Run `main` to its end."""
    with asyncio.Runner(loop_factory=LoopbackLoop) as runner:
        return runner.run(main)


def in_time[**P](scenario: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """A test of a scenario, run to its end."""

    @functools.wraps(scenario)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(scenario(*args, **kwargs))

    return test


async def passes(seconds: float) -> None:
    """So much time, in which whatever is due happens."""
    await asyncio.sleep(seconds)


def thinks(seconds: float) -> None:
    """So much time goes by in the middle of a step, in which nothing else can happen."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LoopbackLoop)
    loop.busy(seconds)


class AsksHere(Resolver):
    """Asks in no thread."""

    async def _in_a_thread(self, host: str, port: int) -> Sequence[AddrInfoType]:
        return self._found(host, port)


def routes(
    *,
    permitted: str = "loopback",
    names: GetAddrInfo = socket.getaddrinfo,
    environment: Mapping[str, str] | None = None,
    context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> Routes:
    """A worker's, with all that judges addresses. `names` stands for DNS."""
    return Routes(resolver=AsksHere(allowed(permitted), names), environment=environment, context=context)
