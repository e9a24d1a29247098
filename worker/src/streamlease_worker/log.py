"""What a worker says: one JSON object a line, with its event's name, the wall clock and the worker's id.

Lines go out on a thread of their own, from a bounded queue: a log that stalls must stall no lease. What does not fit is
counted and said later.
"""

import contextlib
import json
import logging
import logging.handlers
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TextIO

LOGGER = logging.getLogger("streamlease_worker")
MOST_WAITING = 10_000
MOST_PROBLEMS = 1_000
CLOSE_WITHIN_S = 2.0


class Log:
    """Says events. `fields` go with each line; they must be JSON-ready and hold no secret."""

    def __init__(self, logger: logging.Logger = LOGGER, **fields: object) -> None:
        self._logger = logger
        self._fields = fields

    def about(self, **fields: object) -> "Log":
        """A log that says these too."""
        return Log(self._logger, **{**self._fields, **fields})

    def info(self, event: str, **fields: object) -> None:
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._say(logging.WARNING, event, fields)

    def crashed(self, event: str, error: BaseException, **fields: object) -> None:
        """For what should not have happened: its traceback goes along."""
        self._say(logging.ERROR, event, fields, error)

    def _say(self, level: int, event: str, fields: Mapping[str, object], error: BaseException | None = None) -> None:
        self._logger.log(level, event, extra={"fields": {**self._fields, **fields}}, exc_info=error)


class Problems:
    """Says a problem once, and again when it has gone on for a while: a fault that is met on every turn is one line a
    minute. Safe to share between threads."""

    def __init__(self, log: Log, *, now_s: Callable[[], float] = time.monotonic, again_s: float = 60.0) -> None:
        self._log = log
        self._now_s = now_s
        self._again_s = again_s
        self._said: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def say(self, event: str, reason: str) -> None:
        now_s = self._now_s()
        with self._lock:
            if now_s - self._said.get((event, reason), float("-inf")) < self._again_s:
                return
            if len(self._said) >= MOST_PROBLEMS:
                self._said.clear()
            self._said[event, reason] = now_s
        self._log.warning(event, reason=reason)


class JsonLines(logging.Formatter):
    """A record as one JSON object. Also those of libraries, whose message is then the text of an event `log`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, object] | None = getattr(record, "fields", None)
        line: dict[str, object] = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "event": "log" if fields is None else record.getMessage(),
        }
        if fields is None:
            line |= {"logger": record.name, "text": record.getMessage()}
        else:
            line |= fields
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, separators=(",", ":"), ensure_ascii=False)


class _Waiting(logging.handlers.QueueHandler):
    """Never blocks who logs."""

    def __init__(self, waiting: "queue.Queue[logging.LogRecord | None]") -> None:
        super().__init__(waiting)
        self.dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record


class Logging:
    """Sets logging up for a process; `close` puts out what waits, but waits for no stream that stalls."""

    def __init__(self, level: str, stream: TextIO | None = None) -> None:
        """`level` is a name such as INFO; another counts as INFO."""
        known = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(MOST_WAITING)
        self._waiting = _Waiting(self._queue)
        self._out = logging.StreamHandler(stream or sys.stdout)
        self._out.setFormatter(JsonLines())
        self._thread = threading.Thread(target=self._put_out, name="log", daemon=True)
        root = logging.getLogger()
        root.handlers[:] = [self._waiting]
        root.setLevel(logging.WARNING)
        LOGGER.setLevel(known)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=CLOSE_WITHIN_S)
        self._thread.join(CLOSE_WITHIN_S)
        if self._thread.is_alive():
            return
        logging.getLogger().handlers[:] = [self._out]
        if self._waiting.dropped:
            Log().warning("log_dropped", lines=self._waiting.dropped)

    def _put_out(self) -> None:
        while (record := self._queue.get()) is not None:
            self._out.handle(record)


def last_words(event: str, **fields: object) -> None:
    """Say it now, past any queue: the process is about to end."""
    line = json.dumps({"level": "error", "event": event, **fields}, default=str, separators=(",", ":"))
    os.write(sys.stderr.fileno(), line.encode() + b"\n")
