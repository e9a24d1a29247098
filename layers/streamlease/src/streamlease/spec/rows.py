"""`for_each`: one entry of a file, many connections. Fills `{name}` in every text of the entry from each row."""

import csv
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from streamlease.spec.fields import shown
from streamlease.spec.placeholders import NAME, RESERVED
from streamlease.spec.unfit import Unfit

type ReadFile = Callable[[str], str]
"""The text of a file named in a document. Raises OSError, UnicodeDecodeError."""

ITEM = "item"
"""What a row that is a single value fills in."""


def rows(given: object, read_file: ReadFile) -> list[dict[str, Any]]:
    """Raises Unfit."""
    if isinstance(given, str):
        return _csv_rows(given, read_file)
    if not isinstance(given, list) or not given:
        raise Unfit(f"is {shown(given)}; it must be a list of maps or values, or the path of a CSV file")
    found = []
    for index, entry in enumerate(given):
        row = entry if isinstance(entry, dict) else {ITEM: entry}
        for name, value in row.items():
            _name(name, f"has at [{index}] ")
            if not isinstance(value, str | int | float):
                raise Unfit(f"has at [{index}] {name}: {shown(value)}; it must be a text or a number")
        found.append(row)
    return found


def filled(template: Any, row: Mapping[str, Any]) -> Any:
    """`template` with the row's names filled in. A text that is one name and no more becomes the row's value itself."""
    if isinstance(template, str):
        whole = NAME.fullmatch(template)
        if whole is not None and whole[1] in row:
            return row[whole[1]]
        return NAME.sub(lambda match: str(row[match[1]]) if match[1] in row else match[0], template)
    if isinstance(template, dict):
        return {name: filled(value, row) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, row) for value in template]
    return template


def _csv_rows(path: str, read_file: ReadFile) -> list[dict[str, Any]]:
    try:
        text = read_file(path)
    except OSError as error:
        raise Unfit(f"names {path}, which cannot be read: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise Unfit(f"names {path}, which is not UTF-8 text") from None
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True), strict=True)
    try:
        return list(_csv(path, reader))
    except csv.Error as error:
        raise Unfit(f"names {path}, whose line {reader.line_num} is no CSV: {error}") from None


def _csv(path: str, reader: Any) -> Iterator[dict[str, Any]]:
    names = [name.strip() for name in next(reader, [])]
    if not names:
        raise Unfit(f"names {path}, which is empty; its first line must name the columns")
    for name in names:
        _name(name, f"names {path}, whose first line has ")
        if names.count(name) > 1:
            raise Unfit(f"names {path}, whose first line has the column {name} twice")
    empty = True
    for cells in reader:
        if not any(cells):
            continue
        if len(cells) != len(names):
            raise Unfit(
                f"names {path}, whose line {reader.line_num} has {len(cells)} cells; {len(names)} columns are named"
            )
        empty = False
        yield dict(zip(names, (cell.strip() for cell in cells), strict=True))
    if empty:
        raise Unfit(f"names {path}, which has no rows below its first line")


def _name(name: object, where: str) -> None:
    if not isinstance(name, str) or NAME.fullmatch(f"{{{name}}}") is None:
        raise Unfit(f"{where}the name {shown(name)}; a name is letters, digits and _, not beginning with a digit")
    if name in RESERVED:
        raise Unfit(f"{where}the name {name}, which means something else already; choose another")
