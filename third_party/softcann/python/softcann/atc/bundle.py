"""Several models in one .om, for aclmdlBundle*: python -m softcann bundle --output=all.om encoder.om decoder.om."""

import argparse
import hashlib
import sys

from .container import ALIGN, HEADER, LAYOUT, MAGIC, TABLE_ENTRY, TABLE_HEAD, VERSION, aligned, read_parts
from .errors import AtcError
from .ge_ir import get_attr

BUNDLE, BUNDLED_MODEL = 4, 24  # the header's modeltype, the partition's type
MOST = 64  # partitions of a file


def bundle(paths, output):
    """Writes the .om files `paths`, in that order, into the file `output`. All are checked, and of one SoC.

    Raises AtcError for a file that is no .om, and for none or more than 64.
    """
    if not 0 < len(paths) <= MOST:
        raise AtcError("E10001", f"a bundle of {len(paths)} models; 1 to {MOST} are possible", solution="Name the models.")
    socs = {get_attr(read_parts(path)[1].attr, "soc_version") for path in paths}
    if len(socs) > 1:
        raise AtcError("E10001", f"the models are of {', '.join(sorted(socs))}", solution="Convert them for one SoC.")
    contents = []
    for path in paths:
        with open(path, "rb") as file:
            contents.append(file.read())
    table = TABLE_HEAD.size + len(paths) * TABLE_ENTRY.size
    # Each model begins at a multiple of ALIGN in the file, so that its weights can be used where they are mapped.
    at = first = aligned(HEADER + table) - HEADER - table
    entries, pieces = [], [b"\0" * first]
    for content in contents:
        entries.append(TABLE_ENTRY.pack(BUNDLED_MODEL, at, len(content)))
        pieces += [content, b"\0" * (-len(content) % ALIGN)]
        at += aligned(len(content))
    body = b"".join([TABLE_HEAD.pack(len(paths)), *entries, *pieces])
    digest = hashlib.sha256(body).hexdigest().encode()
    length, soc = min(len(body), 2**32 - 1), socs.pop().encode()[:19]
    kind = (0, 0, BUNDLE, 0, b"bundle", 0, b"softcann", 1, len(paths), soc, 0, b"")
    header = LAYOUT.pack(MAGIC, HEADER, VERSION, digest, length, *kind, len(body), 0, 0, b"")
    with open(output, "wb") as file:
        file.write(header + body)


def main(words=None):
    """Makes a bundle; 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m softcann bundle", description="Puts several .om files into one.")
    parser.add_argument("--output", required=True, help="the file to write")
    parser.add_argument("models", nargs="+", help=".om files, in the order of their indices")
    given = parser.parse_args(words)
    try:
        bundle(given.models, given.output)
    except (AtcError, OSError) as error:
        print(f"softcann bundle: {error}", file=sys.stderr)
        return 1
    print(f"{given.output}: {len(given.models)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
