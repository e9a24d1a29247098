"""The same thing done to thousands of connections: side by side, with patience for what passes, and an end where
nothing works. Results come as they are known; whatever is left out is found again by the same command."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from streamlease.errors import Fault, Malformed

TRIES = 5
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
HOPELESS = 20
HOPELESS_ROUNDS = 3
"""After 20 faults in a row, or three for each that is tried at once if that is more, the rest is not tried."""

_LOOK_EVERY_S = 0.2
"""Whether it was interrupted meanwhile."""


@dataclass(frozen=True, slots=True)
class Tried[T, R]:
    """One thing that was tried: its result, or what stood in the way."""

    subject: T
    result: R | None
    problem: Fault | Malformed | None = None


class GivenUp(Fault):
    """Nothing worked any more; the rest was not tried. The text says so, and how to go on."""


def each[T, R](
    subjects: Iterable[T],
    act: Callable[[T], R],
    *,
    parallel: int,
    sleep: Callable[[float], None],
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[Tried[T, R]]:
    """`act` on each subject, at most `parallel` at once, yielded as they end, in no order.

    A fault that may pass is tried again a few times over. Once interrupted nothing more is begun, and what is on its
    way is yielded with its answer. Raises GivenUp, with the last fault's sentence.
    """
    waiting: set[Future[Tried[T, R]]] = set()
    faults = 0
    hopeless = max(HOPELESS, HOPELESS_ROUNDS * parallel)

    def attempt(subject: T) -> Tried[T, R]:
        return _patiently(subject, act, sleep, is_interrupted)

    with ThreadPoolExecutor(parallel, thread_name_prefix="bulk") as pool:
        rest = iter(subjects)
        try:
            while True:
                if is_interrupted():
                    waiting = {future for future in waiting if not future.cancel()}
                    rest = iter(())
                for subject in itertools.islice(rest, max(0, 2 * parallel - len(waiting))):
                    waiting.add(pool.submit(attempt, subject))
                if not waiting:
                    return
                ended, waiting = wait(waiting, _LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                for future in ended:
                    tried = future.result()
                    faults = faults + 1 if isinstance(tried.problem, Fault) else 0
                    yield tried
                    if faults >= hopeless:
                        raise GivenUp(
                            f"{tried.problem}; {faults} in a row failed, so the rest was not tried:"
                            " run the same command again once that is put right"
                        )
        finally:
            # What runs is waited for by the pool, so that nothing is left half known; what has not begun is dropped.
            for future in waiting:
                future.cancel()


def _patiently[T, R](
    subject: T, act: Callable[[T], R], sleep: Callable[[float], None], is_interrupted: Callable[[], bool]
) -> Tried[T, R]:
    tries = 0
    while True:
        tries += 1
        try:
            return Tried(subject, act(subject))
        except Malformed as problem:
            return Tried(subject, None, problem)
        except Fault as fault:
            if not fault.retryable or tries == TRIES or is_interrupted():
                return Tried(subject, None, fault)
        sleep(random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**tries)))
