"""Running commands in this process: what they print, and what they refuse."""

from typer.testing import CliRunner, Result

from rankwise.cli.app import app


def run(*words: object, code: int = 0, stdin: bytes | None = None) -> Result:
    """Run a command that must end with this exit code."""
    result = CliRunner().invoke(app, list(map(str, words)), prog_name="rankwise", input=stdin)
    assert result.exit_code == code, result.output
    return result


def refused(*words: object) -> str:
    """Run a command that must be refused with exit code 2; give its message, which must be short and no traceback."""
    result = run(*words, code=2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())
