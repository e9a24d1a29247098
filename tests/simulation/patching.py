"""Change the code under test for the length of a run, and say so at once where what was to be changed is not there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from streamlease.write import AllOf, Always, AnyOf, Condition, Delete, Item, Put, Update, Value

type Patch = tuple[object, str, Callable[[Any], Any]]
"""Owner, attribute, and what becomes of the original."""


@contextmanager
def patched(patches: tuple[Patch, ...]) -> Iterator[None]:
    """With every attribute replaced; put back at the end. Raises AttributeError where one is missing."""
    undo: list[tuple[object, str, object]] = []
    try:
        for owner, name, change in patches:
            original = vars(owner)[name] if isinstance(owner, type) else getattr(owner, name)
            undo.append((owner, name, original))
            setattr(owner, name, change(original))
        yield
    finally:
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)


def constantly(value: object) -> Callable[[Any], Any]:
    """A function that answers the same, whatever it is asked."""
    return lambda _original: lambda *_args, **_kwargs: value


def writing(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a function that makes a write returns, changed."""
    return lambda original: lambda *args, **kwargs: change(original(*args, **kwargs))


def without(*dropped: str) -> Callable[[Put | Update | Delete], Put | Update | Delete]:
    """The write, with every term of its condition dropped that speaks of one of these attributes.

    A name as `Less:lease_expires_at_ms` drops terms of that kind only.
    """
    return lambda write: replace(write, condition=_stripped(write.condition, dropped) or Always())


def setting(**attributes: Value) -> Callable[[Update | Put], Update | Put]:
    """The write, with these attributes set as well (an update), or in its item (a put)."""

    def change(write: Update | Put) -> Update | Put:
        if isinstance(write, Put):
            return replace(write, item={**write.item, **attributes})
        return replace(write, set={**write.set, **attributes})

    return change


def lacking(*names: str) -> Callable[[Update | Put], Update | Put]:
    """The write, without setting or removing these attributes."""

    def kept(item: Item) -> Item:
        return {name: value for name, value in item.items() if name not in names}

    def change(write: Update | Put) -> Update | Put:
        if isinstance(write, Put):
            return replace(write, item=kept(write.item))
        removed = tuple(name for name in write.remove if name not in names)
        return replace(
            write, set=kept(write.set), remove=removed, add={k: v for k, v in write.add.items() if k not in names}
        )

    return change


def _stripped(condition: Condition, dropped: tuple[str, ...]) -> Condition | None:
    """None where nothing is left of it."""
    match condition:
        case AllOf(terms) | AnyOf(terms):
            kept = [term for each in terms if (term := _stripped(each, dropped)) is not None]
            if isinstance(condition, AnyOf) and len(kept) < len(terms):
                return None  # An alternative that always holds makes the whole hold.
            return AllOf(tuple(kept)) if isinstance(condition, AllOf) and kept else AnyOf(tuple(kept)) if kept else None
        case _:
            attribute = getattr(condition, "attribute", None)
            named = attribute in dropped or f"{type(condition).__name__}:{attribute}" in dropped
            return None if named else condition
