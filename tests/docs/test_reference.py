"""What the site makes of docstrings and pages: links for roles, code for examples, and nothing raw."""

import importlib.util
import logging
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

griffe = pytest.importorskip("griffe")
pytest.importorskip("mkdocs")

DOCS, SOURCE = (Path(__file__).parents[2] / name for name in ("docs", "src"))
EXTENSIONS = DOCS / "extensions"


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", EXTENSIONS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def package():
    with griffe.temporary_visited_package(
        "rankwise",
        {
            "__init__.py": "from rankwise.inside import Thing",
            "inside.py": '''
                class Base:
                    def save(self): ...
                class Thing(Base):
                    """A :class:`Base` that :meth:`save` keeps."""
                    def of(self): ...
            ''',
            "conventions.py": "def conventions(): ...",
        },
    ) as loaded:
        yield loaded


@pytest.mark.parametrize(
    ("role", "path", "shown"),
    [
        (":class:`Base`", "rankwise.inside.Base", "Base"),
        (":meth:`of`", "rankwise.inside.Thing.of", "of"),
        (":meth:`save`", "rankwise.inside.Base.save", "save"),
        (":class:`rankwise.Thing`", "rankwise.inside.Thing", "rankwise.Thing"),
        (":meth:`~rw.Thing.of`", "rankwise.inside.Thing.of", "of"),
        (":func:`rw.keep <rankwise.inside.Base.save>`", "rankwise.inside.Base.save", "rw.keep"),
        (":func:`rw.keep\n<rankwise.inside.Base.save>`", "rankwise.inside.Base.save", "rw.keep"),
        (":func:`rankwise.conventions`", "rankwise.conventions.conventions", "rankwise.conventions"),
    ],
)
def test_roles_are_links(package, role, path, shown):
    linked = extension("roles").linked(f"See {role}.", package["inside.Thing"])
    assert linked == f'See <autoref optional identifier="{path}"><code>{shown}</code></autoref>.'


def test_unknown_names_are_code_and_fences_stay(package):
    linked = extension("roles").linked
    assert linked("a :func:`a_b` there", package["inside"]) == "a <code>a_b</code> there"
    fence = "```pycon\n>>> ':func:`Base`'\n```"
    assert linked(f"{fence}\n:class:`Base`", package["inside"]).startswith(f"{fence}\n<autoref ")


def test_examples_are_fenced_without_marks():
    fenced = extension("doctest_fences").fenced
    assert fenced(">>> show()\na\n<BLANKLINE>\nb\n") == "```pycon\n>>> show()\na\n\nb\n```\n"


def test_pages_are_shown_without_marks():
    hooks = extension("page_hooks")
    text = "<BLANKLINE> is a mark\n\n```python\n>>> show()\na\n<BLANKLINE>\nb\n```\n"
    assert hooks.on_page_markdown(text) == text.replace("\n<BLANKLINE>\n", "\n\n")


def test_options_stay_on_one_line():
    html = extension("page_hooks").on_page_content("<p><code>a --minutes 10 x-y</code></p><pre><code><i>--b</i></code>")
    assert html == '<p><code>a <span class="option">--minutes</span> 10 x-y</code></p><pre><code><i>--b</i></code>'


def test_raw_marks_are_found(caplog):
    hooks = extension("page_hooks")
    html = "<p>see :class:<code>Thing</code>, :func:`of`</p><span>&lt;BLANKLINE&gt;</span><p>class: <code>x</code></p>"
    assert hooks.raw_marks(html) == [":class:<code>Thing", ":func:`of", "&lt;BLANKLINE&gt;"]
    with caplog.at_level(logging.WARNING, "mkdocs"):
        assert hooks.on_post_page(html, page=SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))) == html
    assert len(caplog.messages) == 3
    caplog.clear()
    hooks.on_post_page("<p>all is well</p>", page=None)
    assert not caplog.messages


def test_quiet_builds_still_count_warnings():
    log = logging.getLogger("mkdocs")
    before = log.level
    try:
        log.setLevel(logging.ERROR)  # as --quiet does
        extension("page_hooks").on_startup()
        assert log.isEnabledFor(logging.WARNING)
    finally:
        log.setLevel(before)


PAGE = (DOCS / "reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "members"), re.findall(r"^::: ([\w.]+)\n(?: +options: \{members: \[([^\]]*)\]\})?", PAGE, re.MULTILINE)
)
def test_reference_names_what_there_is(module, members):
    path = SOURCE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    assert path.is_file(), f"docs/reference.md names {module}"
    names = griffe.visit(module, path, path.read_text(encoding="utf-8")).members
    assert {name.strip('" ') for name in members.split(",") if name} <= names.keys()
