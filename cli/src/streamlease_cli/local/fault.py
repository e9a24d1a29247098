"""What this package raises on purpose: one sentence a person can act on."""

from streamlease.errors import StreamleaseError


class LocalFault(StreamleaseError):
    """The local system could not be brought up or kept up. The text names the part and says what to do."""
