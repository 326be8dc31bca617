"""Pages as readers see them: no marks that only programs read, neither those of doctest nor those of Sphinx."""

import logging
import re
from typing import Any

from mkdocs.plugins import get_plugin_logger

_BLOCK = re.compile(r"(?ms)^( *)```.*?^\1```$")
_BLANK = re.compile(r"(?m)^[ \t]*<BLANKLINE>$")
_CODE = re.compile(r"<code>[^<]*</code>")
_OPTION = re.compile(r"(?<=[\s>])--?[\w-]+")
_RAW = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):(?:`|<code>)[^`<]*|&lt;BLANKLINE&gt;")

_log = get_plugin_logger("rankwise")


def on_startup(**_: Any) -> None:
    """Let ``--quiet`` be quiet below warnings: it drops them before ``--strict`` counts them."""
    log = logging.getLogger("mkdocs")
    log.setLevel(min(log.getEffectiveLevel(), logging.WARNING))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show the blank lines of an example's output as blank."""
    return _BLOCK.sub(lambda block: _BLANK.sub("", block[0]), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep the names of options on one line; a browser may end it after each of their hyphens."""
    return _CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Warn of marks that are left, which ``--strict`` makes an error."""
    for mark in sorted(set(raw_marks(output))):
        _log.warning("%s shows %s", page.file.src_uri, mark)
    return output


def raw_marks(html: str) -> list[str]:
    """Give the roles of Sphinx and the marks of doctest that a page shows as they are."""
    return _RAW.findall(html)
