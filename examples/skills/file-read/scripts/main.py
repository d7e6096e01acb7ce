"""Returns lines of one of the run's input files, or the list of them."""

from pathlib import Path

from skillio import (
    Arguments,
    SkillError,
    decode,
    input_names,
    input_path,
    input_root,
    integer_of,
    read_bytes,
    run,
    text_of,
)

MAX_LISTED = 1000
MAX_CHARACTERS = 2_000_000  # as JSON this stays under the 10 MB a run may print


def read_file(arguments: Arguments) -> dict[str, object]:
    start = integer_of(arguments, "start_line", 1, 1, 10**9)
    max_lines = integer_of(arguments, "max_lines", 2000, 1, 100_000)
    if "file" not in arguments and len(input_names(input_root())) != 1:
        return listing(input_root())
    path = input_path(text_of(arguments, "file") if "file" in arguments else None)
    return excerpt(path, start, max_lines)


def listing(root: Path) -> dict[str, object]:
    names = input_names(root)
    files = [{"file": name, "size_bytes": (root / name).stat().st_size} for name in names[:MAX_LISTED]]
    return {"files": files, "truncated": len(names) > MAX_LISTED}


def excerpt(path: Path, start: int, max_lines: int) -> dict[str, object]:
    data = read_bytes(path)
    text, encoding = decode(data, path.name)
    lines = text.splitlines(keepends=True)
    if start > max(len(lines), 1):
        raise SkillError(f"start_line {start} is past the end: {path.name} has {len(lines)} lines")
    chosen = lines[start - 1 : start - 1 + max_lines]
    if sum(map(len, chosen)) > MAX_CHARACTERS:
        raise SkillError(f"these lines hold more than {MAX_CHARACTERS:,} characters; ask for fewer with 'max_lines'")
    return {
        "file": str(path.relative_to(input_root())),
        "encoding": encoding,
        "size_bytes": len(data),
        "lines": len(lines),
        "first_line": start if chosen else 0,
        "last_line": start - 1 + len(chosen),
        "truncated": start - 1 + len(chosen) < len(lines),
        "content": "".join(chosen),
    }


if __name__ == "__main__":
    run(read_file)
