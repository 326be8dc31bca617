"""What every page that we write for a browser shares: its style sheet, its words in other forms, and what it may do."""

import base64
import hashlib
from functools import cache
from importlib import resources
from string import Template


@cache
def shared(name: str) -> str:
    """Read ``page.css`` or ``words.js``."""
    return resources.files("rankwise.base").joinpath("page", name).read_text(encoding="utf-8")


def of_package(package: str, name: str) -> tuple[str, str]:
    """Return the page NAME.html of a package and its content security policy: NAME.js, and requests to its service."""
    markup, script = (
        resources.files(package).joinpath(f"{name}.{kind}").read_text(encoding="utf-8") for kind in ("html", "js")
    )
    script = '(() => {\n"use strict";\n' + shared("words.js") + script + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
    policy += "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return Template(markup).substitute(style=shared("page.css"), script=script), policy
