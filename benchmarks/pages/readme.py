"""The figure and the table of README.md, from what ``rankwise demo`` compares.

python -m benchmarks.pages.readme [--figure docs/img/demo.png]
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image

from rankwise.statistics import BLUE, VERMILLION, draw_means, figure
from rankwise.wings.lab.demo.run import BASELINES, HEADLINE, demonstrate
from rankwise.wings.lab.report.comparison import only

IMAGES = Path(__file__).parents[2] / "docs" / "img"
WIDTH = 1360  # twice the width at which it is shown


def main() -> None:
    parser = argparse.ArgumentParser(description="The figure and the table of README.md.")
    parser.add_argument("--figure", type=Path, default=IMAGES / "demo.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = demonstrate(folder, force=True)
        large = Path(folder, "figure.png")
        with figure(large, 8.0, 3.0, force=True) as drawing:
            colours = {name: "#555555" if name in BASELINES else BLUE for name in result.comparison.systems}
            colours[result.comparison.systems[-1]] = VERMILLION
            draw_means(drawing, only(result.comparison, [HEADLINE]), colours, {HEADLINE: "NDCG@10"})
            drawing.suptitle(result.sentence.rstrip("."), fontweight="bold")
        with Image.open(large) as drawn:
            small = drawn.convert("RGB").resize((WIDTH, round(WIDTH * drawn.height / drawn.width)))
    small.quantize(64).save(options.figure, optimize=True)
    print(f"{result.data}\n\n{result.comparison}\n\n{result.sentence}\n\n{result.why}")
    print(f"\nwrote {options.figure} ({options.figure.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
