"""From files to specs: defaults, for_each, duplicates, and problems that can be found again."""

import pytest

from streamlease.spec import BadSpec, load, parse
from tests.core.spec.files import load_yaml, problems_of


def test_a_document_is_a_map_a_list_or_one_connection() -> None:
    for text in ("connections: [{id: x, url: 'ws://a'}]", "- {id: x, url: 'ws://a'}", "{id: x, url: 'ws://a'}"):
        assert [spec.id for spec in load_yaml(text)] == ["x"]


def test_defaults_are_merged_deep_and_an_empty_value_takes_one_away() -> None:
    first, second = load_yaml("""
        defaults:
          {url: 'ws://a', labels: {team: x, tier: '1'}, keepalive: {ping_every: 5s, stale_after: 60s}, open: [hi]}
        connections:
          - {id: a, labels: {tier: '2'}, keepalive: {stale_after: 9s}}
          - {id: b, keepalive: {stale_after: }, open: [], labels: }
    """)
    assert (first.url, first.labels, first.open) == ("ws://a", {"team": "x", "tier": "2"}, ["hi"])
    assert (first.keepalive.ping_every, first.keepalive.stale_after) == ("5s", "9s")
    assert (second.keepalive.ping_every, second.keepalive.stale_after) == ("5s", None)
    assert (second.labels, second.open) == ({}, [])


def test_an_empty_value_in_a_message_is_sent_as_null() -> None:
    (spec,) = load_yaml("{id: x, url: 'ws://a', open: [{a: , b: 1}, ]}")
    assert spec.open == [{"a": None, "b": 1}]


def test_for_each_fills_in_texts_and_keeps_the_type_of_a_whole_value() -> None:
    specs = load_yaml("""
        defaults: {url: 'ws://a/{symbol}'}
        connections:
          - id: trades-{symbol}
            for_each: [{symbol: btc, kind: 1}, {symbol: eth, kind: 2}]
            labels: {symbol: '{symbol}'}
            open: [{sub: 'trades.{symbol}', kinds: ['{kind}'], since: '{{since}}'}]
    """)
    assert [(spec.id, spec.url, spec.labels["symbol"]) for spec in specs] == [
        ("trades-btc", "ws://a/btc", "btc"),
        ("trades-eth", "ws://a/eth", "eth"),
    ]
    assert specs[1].open == [{"sub": "trades.eth", "kinds": [2], "since": "{{since}}"}]


def test_a_row_that_is_one_value_is_called_item() -> None:
    assert [spec.id for spec in load_yaml("{id: 'a-{item}', url: 'ws://a', for_each: [x, 7]}")] == ["a-x", "a-7"]


def test_for_each_reads_a_csv() -> None:
    text = "{id: 'a-{name}', url: 'ws://a/{code}', for_each: rows.csv}"
    csv = '\ufeffname, code\r\nx,"1,5"\r\n\r\ny,007\r\n'
    assert [(spec.id, spec.url) for spec in load_yaml(text, {"rows.csv": csv})] == [
        ("a-x", "ws://a/1,5"),
        ("a-y", "ws://a/007"),
    ]


@pytest.mark.parametrize(
    ("csv", "says"),
    [
        (None, "for_each names rows.csv, which cannot be read: No such file or directory"),
        ("", "for_each names rows.csv, which is empty; its first line must name the columns"),
        ("name\n", "for_each names rows.csv, which has no rows below its first line"),
        ("name,name\nx,y\n", "whose first line has the column name twice"),
        ("na me\nx\n", "whose first line has the name 'na me'; a name is letters, digits and _"),
        ("sequence\nx\n", "whose first line has the name sequence, which means something else already"),
        ("name,b\nx\n", "whose line 2 has 1 cells; 2 columns are named"),
        ('name\nx\n"y\n', "is no CSV"),
    ],
)
def test_a_bad_csv_is_named_with_its_line(csv: str | None, says: str) -> None:
    files = {} if csv is None else {"rows.csv": csv}
    (problem,) = problems_of("{id: 'a-{name}', url: 'ws://a', for_each: rows.csv}", files)
    assert problem.startswith('feeds.yaml: connection "a-{name}": for_each')
    assert says in problem


@pytest.mark.parametrize("given", ["5", "[]", "{a: [1]}", "[{a: [1]}]", "[{'1a': 1}]", "[{sequence: 1}]", "[null]"])
def test_a_bad_for_each_is_told(given: str) -> None:
    (problem,) = problems_of(f"{{id: x, url: 'ws://a', for_each: {given}}}")
    assert problem.startswith('feeds.yaml: connection "x": for_each ')


def test_a_mistake_that_every_row_makes_is_told_once() -> None:
    (problem,) = problems_of("{id: 'a-{item}', url: 'http://a', for_each: [x, y, z]}")
    assert problem.endswith("did you mean ws://a? (in 3 of the 3 rows)")


def test_ids_are_there_once_across_rows_and_files() -> None:
    assert problems_of("[{id: x, url: 'ws://a'}, {id: x, url: 'ws://b'}]") == [
        'feeds.yaml: connection "x": id x is there twice'
    ]
    (problem,) = problems_of("{id: x, url: 'ws://a', for_each: [1, 2]}")
    assert "put a name that differs from row to row into id" in problem
    with pytest.raises(BadSpec, match=r'^b\.yaml: connection "x": id x is there twice; a\.yaml has it too$'):
        load([("a.yaml", {"id": "x", "url": "ws://a"}), ("b.yaml", {"id": "x", "url": "ws://a"})], lambda _, path: path)


def test_problems_name_file_connection_field_and_what_would_be_right() -> None:
    assert problems_of("""
        defaults: {recrd: {}, id: x, keepalive: {stale: 5s}}
        conections: []
        connections:
          - {id: x, url: 'ws://a', record: {sequense: a}}
          - {url: 'ws://a'}
          - hello
    """) == [
        "feeds.yaml: field conections is not known; did you mean connections?",
        "feeds.yaml: defaults: id belongs to a connection, not to all of them",
        "feeds.yaml: defaults: field keepalive.stale is not known; did you mean keepalive.stale_after?",
        "feeds.yaml: defaults: field recrd is not known; did you mean record?",
        'feeds.yaml: connection "x": field record.sequense is not known; did you mean record.sequence?',
        "feeds.yaml: connections[1]: id is missing",
        "feeds.yaml: connections[2]: is 'hello'; it must be a map with id and url",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "feeds.yaml: is empty; write connections:"),
        ("hello", "feeds.yaml: is 'hello'; it must be a map with connections"),
        ("{}", "feeds.yaml: is empty"),
        ("{defaults: {}}", "feeds.yaml: has no connections; write connections:"),
        ("{connections: 5}", "feeds.yaml: connections: is 5; it must be a list"),
        ("{connections: [], defaults: 5}", "feeds.yaml: defaults: is 5; it must be a map of fields"),
    ],
)
def test_a_document_that_is_none_is_told(text: str, says: str) -> None:
    assert problems_of(text)[0].startswith(says)


def test_no_connections_are_no_problem() -> None:
    assert load_yaml("connections: []") == ()


def test_a_spec_larger_than_an_item_is_refused() -> None:
    (problem,) = problems_of(f"{{id: x, url: 'ws://a', open: [{', '.join(['a' * 4_000] * 70)}]}}")
    assert "262144 are the most that its item can hold" in problem


def test_one_connection_can_be_read_alone() -> None:
    assert parse({"id": "x", "url": "ws://a"}).id == "x"
    with pytest.raises(BadSpec, match='connection "x": url is missing'):
        parse({"id": "x"})
