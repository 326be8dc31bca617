"""Rankings in files by name: ``name=FILE``, or after the file, or the tag of a TREC run."""

from collections.abc import Sequence
from pathlib import Path

from rankwise import check
from rankwise.base.files import is_device
from rankwise.data.io.file_formats import STANDARD_INPUT


def named(pairs: Sequence[str]) -> dict[str, Path]:
    """Read ``name=FILE`` pairs; a bare FILE is called by its name without folders and endings.

    >>> named(["old=a/b.txt", "runs/new.txt.gz"])
    {'old': PosixPath('a/b.txt'), 'new': PosixPath('runs/new.txt.gz')}
    """
    files = [ranking_file(pair) for pair in pairs]
    return dict(zip(names([(name, path, "") for name, path in files]), (path for _, path in files), strict=True))


def ranking_file(pair: str) -> tuple[str, Path]:
    """Read one ``name=FILE``; the name of a bare FILE is empty.

    >>> ranking_file("new=runs/b.txt"), ranking_file("runs/b.txt")
    (('new', PosixPath('runs/b.txt')), ('', PosixPath('runs/b.txt')))
    """
    name, equals, path = pair.partition("=")
    if not equals or "://" in name:
        name, path = "", pair
    elif not name or not path:
        raise check.error("rankings are given as name=FILE", got=repr(pair))
    return name, Path(path)


def names(rankings: Sequence[tuple[str, Path, str]]) -> list[str]:
    """Name rankings of (name that the user gave, file, tag of a run), where a name or a tag may be empty.

    A ranking without a name is called after its file; where files have no name, as pipes, or the same, by the tag.

    >>> names([("", Path("one/x.run"), "bm25"), ("", Path("two/x.run"), "net"), ("", Path("two/y.run"), "net")])
    ['bm25', 'net', 'y']
    """
    after_file = [name or ("" if _nameless(path) else path.name.partition(".")[0]) for name, path, _ in rankings]
    collected: dict[str, Path] = {}
    for (name, path, tag), usual in zip(rankings, after_file, strict=True):
        chosen = usual if usual and (name or after_file.count(usual) == 1) else tag or usual or path.name
        if chosen in collected:
            got = f"{chosen!r} for {collected[chosen]} and {path}"
            raise check.error("two rankings have the same name", got=got, hint="give each a name of its own: NAME=FILE")
        collected[chosen] = path
    return list(collected)


def once_from_standard_input(*paths: str) -> None:
    """Refuse to read standard input twice."""
    if paths.count(STANDARD_INPUT) > 1:
        hint = "give the others as files, or as <(command)"
        raise check.error("standard input can be read only once", got=f"- {paths.count('-')} times", hint=hint)


def _nameless(path: Path) -> bool:
    """Whether a path is a pipe or standard input."""
    return str(path) == STANDARD_INPUT or is_device(path)
