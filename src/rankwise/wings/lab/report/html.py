"""The page: sections, figures that follow the reader's light or dark, and the explorer, in one file for no network."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from string import Template

from rankwise import __version__
from rankwise.base import pages
from rankwise.base.files import replacing
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.explorer import COLOUR_NAMES, Packed, embedded

escape = html.escape
_SCRIPTS = ("packs.js", "list.js", "query.js", "explorer.js")
_COLOURS = COLOUR_NAMES | {
    "#444444": "soft", "#555555": "soft", "#262626": "ink", "#ffffff": "paper", "#dddddd": "line", "#e4e4e4": "line",
    "#8c8c8c": "grey",
}  # fmt: skip
_PAINT = re.compile(r"(fill|stroke): ?(#[0-9a-fA-F]{6})")
_NAMES = re.compile(r'(\bid="|url\(#|xlink:href="#)')
_HEAD = re.compile(r"^.*?<svg[^>]*?viewBox=\"([^\"]+)\"[^>]*>", re.DOTALL)
_MARKS = re.compile(r"<sup>([^<]*)</sup>")
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def file(name: str) -> str:
    """Read one of the page's own files."""
    return resources.files("rankwise.wings.lab.report").joinpath("page", name).read_text(encoding="utf-8")


def write_page(
    path: str | Path,
    *,
    title: str,
    kicker: str,
    claim: tuple[str, str] = ("", ""),
    sections: Iterable[tuple[str, str, str]],
    packed: Packed | None = None,
    force: bool,
) -> Path:
    """Write everything as one HTML document; gives its path.

    A claim is (whose, what), or what alone is an introduction; a section is (name, title, HTML).
    """
    whose, what = claim
    sections = list(sections)
    script = "\n".join(["(() => {", '"use strict";', pages.shared("words.js"), *map(file, _SCRIPTS), "})();\n"])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    data = ""
    if packed is not None:
        data = f'<script type="application/json" id="explorer-index">{as_data(packed.index)}</script>\n'
        data += embedded(packed.packs.items())
    text = Template(file("page.html")).substitute(
        version=escape(__version__),
        digest=f"sha256-{digest}",
        title=escape(title),
        kicker=escape(kicker),
        claim=f'<p class="claim">{f"<b>{escape(whose)}:</b> " if whose else ""}{escape(what)}</p>' if what else "",
        style=pages.shared("page.css"),
        contents="\n".join(f'<li><a href="#{name}">{escape(heading)}</a></li>' for name, heading, _ in sections),
        body="\n".join(map(_section, sections)),
        data=data,
        script=script,
    )
    with replacing(path, force=force) as new:
        new.write_text(text, encoding="utf-8")
    return Path(path)


def as_data(value: object) -> str:
    r"""Write JSON that can stand inside a script element whatever its texts say.

    >>> as_data({"id": "</script>"})
    '{"id":"\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(section: tuple[str, str, str]) -> str:
    name, heading, body = section
    broad = ' class="broad"' if name == "explorer" else ' class="made"' if name == "made" else ""
    title = f'<h2 id="{name}-title">{escape(heading)}</h2>'
    return f'<section id="{name}"{broad} aria-labelledby="{name}-title">\n{title}\n{body}\n</section>'


def paragraphs(texts: Iterable[str]) -> str:
    """Write paragraphs."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def table(name: str, title: str, caption: str, content: str) -> str:
    """Write a table under its title; ``content`` is HTML already."""
    label = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    inside, _, notes = content.partition("</table>")
    room = max(map(len, _MARKS.findall(inside)), default=0)  # marks hang to the right of their numbers
    return (
        f'<h3 id="{name}">{escape(title)}</h3>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}" style="--marks:{room}">'
        f"{inside}</table></div>\n"
        f"{label}{notes}"
    )


def figure(plot: Plot, svg: str = "") -> str:
    """Write a figure with its title, its caption and words for those who cannot see it; ``svg`` is its drawing."""
    return (
        f'<figure id="{plot.name}"><h3>{escape(plot.title)}</h3>\n{drawing(svg or plot.svg(), plot.name, plot.alt)}\n'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def definitions(rows: Mapping[str, str], *, code: bool = False) -> str:
    """Write a list of names and what they stand for."""
    start, end = ("<code>", "</code>") if code else ("", "")
    entries = (f"<dt>{escape(name)}</dt><dd>{start}{escape(text)}{end}</dd>" for name, text in rows.items())
    return f"<dl>{''.join(entries)}</dl>"


def folded(summary: str, content: str) -> str:
    """Write something that is opened by who wants it."""
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"


def drawing(svg: str, name: str, alt: str) -> str:
    """Make an SVG file part of the page: names of its own, the page's colours, and words instead of the picture."""
    body = _METADATA.sub("", svg)
    head = _HEAD.match(body)
    view, body = (head[1], body[head.end() :]) if head else ("0 0 1 1", body)
    body = _PAINT.sub(lambda part: f"{part[1]}: {_colour(part[2])}", body)
    body = _NAMES.sub(lambda part: f"{part[1]}{name}-", body)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{view}" '
        f'role="img" aria-label="{escape(alt)}">'
    )
    return opening + body.strip()


def _colour(colour: str) -> str:
    name = _COLOURS.get(colour.lower())
    return f"var(--{name})" if name else colour
