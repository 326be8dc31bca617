"""The command line: parse, call, print. What a command does is written in the package that it belongs to."""

import io
import sys


def main() -> None:
    """Run the command line; an interruption, whenever it comes, ends with 130 and without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")  # a terminal without Greek letters shows ? in their place
    try:
        from rankwise.cli.app import app

        app(prog_name="rankwise")
    except KeyboardInterrupt:
        sys.exit(130)
