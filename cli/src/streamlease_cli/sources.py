"""The texts that `check` and `apply` read: files, folders, standard input. All are read before anything is done."""

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from streamlease_cli.errors import BadInput
from streamlease_cli.output import some

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
LARGEST_MIB = 64
"""A text of more is a mistake, such as a disk's image or a pipe without an end; it would take all memory to tell."""


@dataclass(frozen=True, slots=True)
class Source:
    """One text. `name` is how sentences call it; `folder` is what file names in it are relative to."""

    name: str
    text: str
    folder: Path


def read_sources(given: Sequence[str], *, recursive: bool) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Each file once, in the order given, a folder's in the order of their names; and a sentence for each that cannot
    be read, which hides no other."""
    found: dict[str, Source] = {}
    problems: dict[str, None] = {}
    for word in given:
        try:
            paths: Sequence[Path | None] = [None] if word == STDIN else _files(Path(word), recursive=recursive)
        except BadInput as error:
            problems[str(error)] = None
            continue
        for path in paths:
            try:
                source = _stdin() if path is None else _read(path)
            except BadInput as error:
                problems[str(error)] = None
            else:
                found.setdefault(source.name, source)
    return tuple(found.values()), tuple(problems)


def read_text(path: Path) -> str:
    """A whole file. Raises OSError (also where it is too large), UnicodeDecodeError."""
    return _bytes(path).decode()


def _stdin() -> Source:
    try:
        content = _content(sys.stdin.buffer)
    except OSError as error:
        raise BadInput(f"standard input cannot be read: {error.strerror or type(error).__name__}") from None
    return Source("standard input", _decoded("standard input", content), Path.cwd())


def _files(path: Path, *, recursive: bool) -> Sequence[Path]:
    """The file itself, or those of a folder. Raises BadInput."""
    if not path.is_dir():
        return (path,)
    try:
        files = sorted(file for file in (path.rglob("*") if recursive else path.iterdir()) if _is_ours(file))
    except OSError as error:
        raise _unreadable(path, error) from None
    if not files:
        below = "" if recursive else " (folders in it are read with --recursive)"
        raise BadInput(f"{path} holds no file named {', '.join(f'*{suffix}' for suffix in SUFFIXES)}{below}")
    return files


def _read(path: Path) -> Source:
    try:
        return Source(str(path), _decoded(str(path), _bytes(path)), path.parent)
    except FileNotFoundError:
        beside = sorted(file.name for file in path.parent.glob("*") if _is_ours(file)) if path.parent.is_dir() else []
        there = f"; there is {some(beside)}" if beside else ""
        raise BadInput(f"there is no file or folder {path}{there}") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{error.filename or path} cannot be read: {error.strerror or type(error).__name__}")


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        try:
            return _content(file)
        except OSError as error:
            error.filename = str(path)
            raise


def _content(file: BinaryIO) -> bytes:
    """Raises OSError."""
    content = file.read((LARGEST_MIB << 20) + 1)
    if len(content) > LARGEST_MIB << 20:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST_MIB} MiB; split it")
    return content


def _is_ours(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
