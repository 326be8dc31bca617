"""Code of the documentation that needs a library."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def run_section(title: str) -> dict[str, Any]:
    """Run the blocks of Python below a heading of ``docs/integrations.md``, and return their names."""
    (section,) = re.findall(rf"(?ms)^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", section):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
    return names
