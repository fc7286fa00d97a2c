"""``python -m torch_npu.doctor explain``: what codes mean, what may lie behind them, what to do; of one, or of a log."""

import os
import re
from typing import Dict, Iterable, List, Optional, Tuple

from torch_npu import _C
from torch_npu._errors import advice

# A number that is part of a longer one, of a date or of an address is no code.
_CODE = re.compile(r"(?<![\w.:/-])(\d{6})(?![\w:/-]|\.\d)")
_HCCL = re.compile(r"\bHCCL_E_[A-Z_]+\b")
_HCCL_CALL = re.compile(r"\bHccl\w+ failed with code (\d+)\b")
_OURS = re.compile(r"\bERR(\d{2})(\d{3})\b")
_SPEAKER = re.compile(r"\b(E[EHIJKLZ])([0-9A-F]\d{3})\b")


def _explain_number(code: int) -> Optional[List[str]]:
    told = advice.of(code)
    if told is None:
        return None
    return [f"{code}: {_C._status_text(code)}", f"  likely causes: {_plain(told.causes)}", f"  what to do: {_plain(told.next)}"]


def _explain_hccl(name: str) -> Optional[List[str]]:
    if name not in advice.HCCL:
        return None
    number, causes, after = advice.HCCL[name]
    return [f"{name}: HCCL's result {number}", f"  likely causes: {_plain(causes)}", f"  what to do: {_plain(after)}"]


def _explain_ours(module: str, number: str) -> Optional[List[str]]:
    from torch_npu.utils import _error_code

    names = [name for name, value in _error_code._MODULES.items() if value == int(module)]
    texts = [cause.msg for cause in _error_code.ErrCode if cause.code == int(number)]
    if not names or not texts:
        return None
    lines = [f"ERR{module}{number}: torch_npu's own number: module {names[0]}, {texts[0]}"]
    if texts[0].startswith("call "):
        lines.append("  what to do: the code of CANN in the same message has the cause: look that one up")
    return lines


def _explain_speaker(prefix: str, rest: str) -> List[str]:
    return [f"{prefix}{rest}: a text of CANN's own, from {advice.SPEAKERS[prefix]}",
            "  what to do: its cause and remedy stand in the lines that follow it; the six digits in the same message say more"]


def _plain(text: str) -> str:
    """Without Markdown's links."""
    return re.sub(r"\[([^]]*)\]\(([^)]*)\)", r"docs/\2", text)


def explain(what: str) -> Optional[str]:
    """The explanation of one code: 507035, HCCL_E_TIMEOUT, ERR00100, EI0006. None where it is not known."""
    found: Optional[List[str]] = None
    ours, speaker = _OURS.fullmatch(what), _SPEAKER.fullmatch(what)
    if what.isdecimal():
        found = _explain_number(int(what)) if len(what) < 10 else None
    elif ours:
        found = _explain_ours(*ours.groups())
    elif speaker:
        found = _explain_speaker(*speaker.groups())
    else:
        found = _explain_hccl(what)
    return "\n".join(found) if found else None


def find(lines: Iterable[str]) -> Dict[str, Tuple[int, int, str]]:
    """The known codes in a log, in the order in which they appear: code -> (number of lines, first line, its text)."""
    found: Dict[str, Tuple[int, int, str]] = {}
    for number, line in enumerate(lines, 1):
        codes = [match.group() for pattern in (_CODE, _HCCL, _OURS, _SPEAKER) for match in pattern.finditer(line)]
        numbers = [int(match.group(1)) for match in _HCCL_CALL.finditer(line)]
        codes += [name for name, row in advice.HCCL.items() if row[0] in numbers]
        for code in dict.fromkeys(codes):
            if code in found:
                found[code] = (found[code][0] + 1, *found[code][1:])
            elif explain(code) is not None:
                found[code] = (1, number, line.strip())
    return found


def explain_log(path: str) -> str:
    """What stands in a log: each code once, with its first line. OSError where the file cannot be read."""
    with open(path, errors="replace") as file:
        found = find(file)
    if not found:
        return f"{path}: no code that torch_npu knows"
    parts = []
    for code, (count, number, line) in sorted(found.items(), key=lambda item: item[1][1]):
        shown = line if len(line) <= 300 else line[:300] + "..."
        times = "once" if count == 1 else f"in {count} lines"
        parts.append(f"{explain(code)}\n  {times}, first in line {number}: {shown}")
    return f"{path}: the first is mostly the cause of the others\n\n" + "\n\n".join(parts)


def main(arguments: List[str]) -> int:
    """Explains each argument, a code or a log's path; 0 if all could be."""
    status = 0
    for what in arguments:
        text = explain(what)
        if text is None and os.path.exists(what):
            try:
                text = explain_log(what)
            except OSError as error:
                text, status = f"{what} cannot be read: {error.strerror}", 1
        if text is None:
            text, status = f"{what}: neither a code that torch_npu knows nor a file", 1
        print(text)
    return status
