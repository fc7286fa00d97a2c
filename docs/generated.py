"""What the generators in this folder share: the part of a file between two markers, and --check."""
import sys


def replace_between(path, text, begin, end, new):
    """The text of the file at ``path`` with ``new`` as the lines between the markers."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path.name} has no '{begin}' ... '{end}'")
    return f"{before}{begin}\n{new}\n{end}{after}"


def write(path, text):
    """Writes the file where its text changes. With --check on the command line it stays, and a change is an error."""
    if path.exists() and path.read_text() == text:
        return
    if "--check" in sys.argv[1:]:
        raise SystemExit(f"{path.name} is not up to date: python docs/{sys.argv[0].rpartition('/')[2]}")
    path.write_text(text)
