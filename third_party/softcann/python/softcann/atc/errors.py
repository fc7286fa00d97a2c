"""The one error of the converter: a code of CANN's, and a text that says what to do."""

import datetime
import os


def first_line(error):
    """Of what an exception says; of one that says nothing, what it is."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


class AtcError(Exception):
    """`code` is what scripts look for ("E10016"); `solution` completes the text."""

    def __init__(self, code, text, cause="", solution=""):
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.cause, self.solution = code, text, cause, solution

    def block(self):
        """The lines that atc prints: the code and the text, then cause and remedy."""
        now = datetime.datetime.now()
        stamp = now.strftime("%Y-%m-%d-%H:%M:%S.") + f"{now.microsecond // 1000:03d}.{now.microsecond % 1000:03d}"
        lines = [f"{self.code}: [PID: {os.getpid()}] {stamp} {self.text}"]
        if self.cause:
            lines.append(f"        Possible Cause: {self.cause}")
        if self.solution:
            lines.append(f"        Solution: {self.solution}")
        return "\n".join(lines)


class Unsupported(AtcError):
    """An operator, or a form of it, that is not lowered."""

    def __init__(self, text, solution="Export the model without it, or add its lowering in softcann/atc/lower.", code="EZ3003"):
        super().__init__(code, text, solution=solution)
