"""Which adapter a spec names: found, refused or missing."""

from typing import Any

import pytest
from pydantic import ValidationError

from streamlease.adapters.socketio import SocketIo
from streamlease.feed import secrets
from streamlease.spec import adapters
from streamlease.spec.compile import compile_spec
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.problems import sentences


def spec(**fields: Any) -> ConnectionSpec:
    return ConnectionSpec.model_validate({"id": "x", "url": "wss://a.test/", **fields})


def test_an_adapter_is_found_by_its_name_and_gets_its_options_with_references_in_braces() -> None:
    feed = compile_spec(
        spec(adapter={"name": "socketio", "options": {"auth": {"token": "env:TOKEN"}}, "budget": "20ms"})
    )
    assert feed.adapter is not None
    assert feed.adapter.factory is SocketIo
    assert feed.adapter.options == {"auth": {"token": "{env:TOKEN}"}}
    assert feed.adapter.budget_s == 0.02
    assert secrets.references(feed) == {"env:TOKEN"}


def test_its_name_alone_will_do_and_what_it_keeps_may_stand_in_templates() -> None:
    assert spec(adapter="socketio").adapter == adapters.Adapter(name="socketio")
    made = spec(adapter={"name": "socketio", "keeps": ["sid"]}, open=[{"sid": "{sid}"}])
    assert made.stored()["adapter"] == {"name": "socketio", "keeps": ["sid"]}


def test_one_that_is_not_installed_here_is_told_where_it_is_needed() -> None:
    feed = compile_spec(spec(adapter="elsewhere"))
    assert feed.adapter is not None
    assert feed.adapter.factory is None
    assert "elsewhere is not installed on this worker; installed are" in feed.adapter.problem


@pytest.mark.parametrize(
    ("loaded", "says"),
    [
        (lambda: type("Old", (), {"version": 0, "__call__": None}), "is written for version 0 of the port"),
        (lambda: object(), "is written for version None"),
        (lambda: 1 / 0, "cannot be imported (ZeroDivisionError)"),
    ],
)
def test_one_that_does_not_fit_this_release_is_none(loaded: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        @staticmethod
        def load() -> object:
            return loaded()

    class Points:
        names = frozenset({"odd"})

        @staticmethod
        def select(name: str) -> list[type[Point]]:
            del name
            return [Point]

    monkeypatch.setattr(adapters, "entry_points", lambda group: Points())
    adapters.installed.cache_clear()
    try:
        factory, problem = adapters.installed("odd")
    finally:
        adapters.installed.cache_clear()
    assert factory is None
    assert says in problem


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        ({"name": "socketio", "options": {"aut": "x"}}, "adapter.options have aut, which is not known"),
        ({"name": "socketio", "keeps": ["sequence"]}, "adapter.keeps has 'sequence'"),
        ({"name": "socketio", "budget": "2s"}, "adapter.budget is 2s; it must be at most 1s"),
        ({"name": "socketio", "option": {}}, "field adapter.option is not known"),
        ({"name": "socketio", "options": {"auth": {"password": "hunter2hunter2"}}}, "holds a secret in the clear"),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(adapter: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as raised:
        spec(adapter=adapter)
    said = sentences(raised.value)
    assert any(sentence in line for line in said), said


def test_an_adapter_and_unwrap_do_not_go_together() -> None:
    with pytest.raises(ValidationError, match="unwrap says nothing: the adapter gets what comes in"):
        spec(adapter="socketio", unwrap="gzip")
