"""The figure and the table of README.md: what ``rankwise demo`` draws and prints.

python -m benchmarks.pages.readme [--figure docs/img/demo.png]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

FIGURE = Path(__file__).parents[2] / "docs" / "img" / "demo.png"
WIDTH = 1360  # twice the width at which it is shown


def main() -> None:
    parser = argparse.ArgumentParser(description="The figure and the table of README.md.")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rankwise", "demo", "--output", folder]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        with Image.open(Path(folder, "means.png")) as drawn:
            small = drawn.convert("RGB").resize(
                (WIDTH, round(WIDTH * drawn.height / drawn.width)), Image.Resampling.LANCZOS
            )
    small.quantize(64).save(options.figure, optimize=True)
    print(printed[printed.index("   system") : printed.index("And with nothing")].strip())
    print(f"\nwrote {options.figure} ({options.figure.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
