"""A figure that shows itself in notebooks, whichever backend matplotlib has there."""

import io

from matplotlib.figure import Figure

_DPI = 110  # of a figure beside text


class Picture(Figure):
    """A figure drawn without pyplot."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=_DPI)
        return content.getvalue()
