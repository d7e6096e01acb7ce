"""Unified diff of two texts given as {"old" | "old_file", "new" | "new_file", "context"?, "ignore"?}."""

import difflib
from collections.abc import Collection

from skillio import Arguments, SkillError, input_path, integer_of, read_text, run, text_of, write_artifact

MAX_LINES = 20_000  # difflib is quadratic in the worst case; this many lines stay within seconds
KINDS = ("space", "case", "blank")


def compare(arguments: Arguments) -> dict[str, object]:
    context = integer_of(arguments, "context", 3, 0, 1000)
    ignored = ignored_kinds(arguments)
    old, new = (comparable(side_text(arguments, side), ignored) for side in ("old", "new"))
    diff = list(difflib.unified_diff(old, new, "old", "new", n=context, lineterm=""))
    text = "".join(f"{line}\n" for line in diff)
    write_artifact("changes.diff", text)
    return {
        "identical": old == new,
        "added": sum(line.startswith("+") for line in diff[2:]),
        "removed": sum(line.startswith("-") for line in diff[2:]),
        "similarity": round(difflib.SequenceMatcher(None, old, new).ratio(), 4),
        "diff": text,
    }


def ignored_kinds(arguments: Arguments) -> Collection[str]:
    kinds = arguments.get("ignore", [])
    if not isinstance(kinds, list) or not all(kind in KINDS for kind in kinds):
        raise SkillError(f"argument 'ignore' must be a list of: {', '.join(KINDS)}")
    return [str(kind) for kind in kinds]


def side_text(arguments: Arguments, side: str) -> str:
    named = f"{side}_file"
    if (side in arguments) == (named in arguments):
        raise SkillError(f"give exactly one of {side!r} and {named!r}")
    return text_of(arguments, side) if side in arguments else read_text(input_path(text_of(arguments, named)))


def comparable(text: str, ignored: Collection[str]) -> list[str]:
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise SkillError(f"a text has {len(lines):,} lines; the limit is {MAX_LINES:,}")
    if "space" in ignored:
        lines = [" ".join(line.split()) for line in lines]
    if "case" in ignored:
        lines = [line.casefold() for line in lines]
    return [line for line in lines if line.strip()] if "blank" in ignored else lines


if __name__ == "__main__":
    run(compare)
