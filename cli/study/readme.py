"""The table of claims in README: the comparisons with `readme: true`, between two markers."""

from failure import Failure

BEGIN, END = "<!-- claims: buttress study report -->", "<!-- end of claims -->"
HEAD = ("claim", "source", "[verdict](docs/evidence.md)", "effect, 95 %", "seeds", "command")
MOST_ROWS = 12


def section(table):
    return f"{BEGIN}\n{table}{END}"


def between(path, text):
    """What stands there now, markers included."""
    begin, end = text.find(BEGIN), text.find(END)
    if not 0 <= begin < end:
        raise Failure(f"{path}: expected the lines {BEGIN} and {END}, between which the table of "
                      "claims stands")
    return text[begin:end + len(END)]


def update(path, rows, table):
    """Replaces the table; `table` makes it of rows."""
    if len(rows) > MOST_ROWS:
        raise Failure(f"{path}: {len(rows)} comparisons have readme: true, and {MOST_ROWS} is the "
                      "bound; docs/evidence.md has them all")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path}: cannot be read: {error.strerror}") from error
    path.write_text(text.replace(between(path, text), section(table(HEAD, rows))),
                    encoding="utf-8")
