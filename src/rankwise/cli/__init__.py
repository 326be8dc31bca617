"""The command line: parse, call, print. What a command does is written in the room that it belongs to."""

import sys


def main() -> None:
    """Run the command line; an interruption, whenever it comes, ends with 130 and without a traceback."""
    try:
        from rankwise.cli.app import app

        app(prog_name="rankwise")
    except KeyboardInterrupt:
        sys.exit(130)
