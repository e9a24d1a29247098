"""Signs tokens, for the values that a spec computes at the moment of use (`streamlease.feed.computed`)."""

from collections.abc import Mapping
from typing import Any

import jwt


def sign_token(algorithm: str, key: str, headers: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """A JSON Web Token. Raises ValueError, with nothing of the key in it, for a key that the algorithm cannot use."""
    try:
        return jwt.encode(dict(claims), key, algorithm=algorithm, headers=dict(headers))
    except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError) as error:
        # Not the library's words, which may show what it was given.
        raise ValueError(f"its key or claims do not fit {algorithm} ({type(error).__name__})") from None
