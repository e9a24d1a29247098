"""Which sockets a connection has: the main one, and while a rotation lasts the one before or after it."""

from collections.abc import Iterator

from streamlease.feed.feed import Feed
from streamlease.feed.intake import Intake
from streamlease.feed.session import Session, unusable
from streamlease.feed.template import RECEIVED, SEQUENCE, Templates
from streamlease.write import Value

OWN_URL_EACH = 5
"""Of the dials in a row that came to nothing, and that no rule decided about, each fifth goes to the spec's own URL,
whatever URL the upstream named to resume at: its host may be gone for good."""


class Sockets:
    """Of one connection. Dials are numbered from 1."""

    def __init__(self, feed: Feed, intake: Intake) -> None:
        self.main: Session | None = None
        self.next: Session | None = None
        """What is to take the main session's place."""
        self.last: Session | None = None
        """What had that place, until it is closed."""
        self.fresh_secrets = False
        """The next dial looks its secrets up past any cache."""
        self._feed = feed
        self._intake = intake
        self._templates = Templates(feed)
        self._dials = 0
        self._in_vain = 0
        """How many dials in a row have come to nothing."""
        self._url: str | None = None

    def __iter__(self) -> Iterator[Session]:
        """The oldest first."""
        return iter([session for session in (self.last, self.main, self.next) if session is not None])

    def __bool__(self) -> bool:
        return self.last is not None or self.main is not None or self.next is not None

    def of(self, number: int) -> Session | None:
        """0 stands for the newest."""
        main = self.main
        if main is not None and (main.number == number or (number == 0 and self.next is None)):
            return main
        if number == 0:
            return self.next or self.last
        return next((session for session in self if session.number == number), None)

    @property
    def can_rotate(self) -> bool:
        return self.main is not None and self.main.is_open and self.next is None and self.last is None

    @property
    def can_change(self) -> bool:
        return self.next is not None and self.next.is_open

    def use(self, url: str | None) -> None:
        """The next dial goes there, once, if it is a URL that may be used."""
        if url is not None and unusable(url, self._feed) is None:
            self._url = url

    def ended(self, session: Session, *, ruled: bool) -> None:
        """The main one is gone, or was never opened. `ruled`: a rule says what is to be done about that."""
        if session.streaming_since_s is not None:
            self._in_vain = 0
        elif not ruled:
            self._in_vain += 1

    def begun(self) -> Session:
        """One more, with all that is known for it."""
        self._dials += 1
        token, resume_url = self._intake.session
        if resume_url is not None and not self._may_resume_at(resume_url):
            resume_url = None
        variables: dict[str, Value] = {SEQUENCE: self._intake.cursor(), RECEIVED: self._intake.received}
        kept = ((self._feed.resume.token, token), (self._feed.resume.url, resume_url))
        variables.update({name: value for name, value in kept if name is not None and value is not None})
        url, self._url = self._url or resume_url, None
        fresh, self.fresh_secrets = self.fresh_secrets, False
        return Session(self._feed, self._templates, self._dials, variables, url=url, fresh=fresh)

    def _may_resume_at(self, url: str) -> bool:
        return self._in_vain % OWN_URL_EACH != OWN_URL_EACH - 1 and unusable(url, self._feed) is None
