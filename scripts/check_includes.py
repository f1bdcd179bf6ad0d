#!/usr/bin/env python3
"""Checks the project's structure: who includes whom, where LibTorch may be used, how long files are.

A folder of src/ may include its own headers and those of the folders it is allowed here, as
docs/architecture.md says. Breaking that is an error; a file that is longer than it should be is a warning.

Usage: check_includes.py [PROJECT_FOLDER]
"""

import pathlib
import re
import sys

BASICS = {"base", "catalog", "config"}
# Folder of src/ -> the folders it may include besides itself. What is reached through them counts as well.
DIRECT = {
    "base": set(),
    "catalog": {"base"},
    "config": {"catalog", "base"},
    "launch": BASICS,
    "events": BASICS,
    "checkpoint": BASICS,
    "dist": BASICS,
    "kernels": BASICS,
    "amp": BASICS | {"kernels"},
    "nn": BASICS | {"kernels", "amp"},
    "model": BASICS | {"nn", "amp", "kernels"},
    "task": BASICS | {"kernels"},
    "data": BASICS | {"kernels"},
    "optim": BASICS | {"kernels"},
}
TORCH_FREE = {"base", "catalog", "config", "launch", "events", "checkpoint"}
DIRECT["train"] = set(DIRECT)
DIRECT["bench"] = set(DIRECT)
PROGRAMS = {"apps/ampctl": TORCH_FREE, "apps/worker": set(DIRECT)}

SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# Lines; longer files do more than one thing.
LONGEST = {".h": 120, ".cpp": 300, ".cu": 300, ".cuh": 120}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|caffe2|c10d)/")
WHOLE_TORCH = {"torch/torch.h", "torch/all.h", "torch/extension.h", "ATen/ATen.h"}


def unit_of(path: pathlib.PurePath) -> str:
    """The folder that the rules speak of: `amp` for src/amp/x.h, `apps/worker` for apps/worker/main.cpp."""
    parts = path.parts
    return parts[1] if parts[0] == "src" else "/".join(parts[:2])


def include_errors(path: pathlib.PurePath, text: str) -> list[str]:
    """What is wrong with the includes of the file at `path`, relative to the project's folder."""
    unit = unit_of(path)
    if unit not in DIRECT and unit not in PROGRAMS:
        return [f"{path}: scripts/check_includes.py has no rule for this folder; add one"]
    allowed = DIRECT.get(unit, PROGRAMS.get(unit, set())) | {unit}
    errors = []
    for match in INCLUDE.finditer(text):
        bracket, header = match.groups()
        where = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
        folder = header.split("/", 1)[0]
        if bracket == '"':
            if folder not in DIRECT and "/" in header and not header.startswith(unit + "/"):
                errors.append(f'{where}: "{header}" is no folder of src/; system headers take <>')
            elif folder in DIRECT and folder not in allowed:
                errors.append(f"{where}: {unit} may not include {folder}, only {', '.join(sorted(allowed - {unit}))}")
        elif TORCH_HEADER.match(header):
            if unit in TORCH_FREE or unit == "apps/ampctl":
                errors.append(f"{where}: {unit} is free of LibTorch and may not include <{header}>")
            elif header in WHOLE_TORCH:
                errors.append(f"{where}: <{header}> takes 20 s to compile; include the narrow headers")
    return errors


def main(arguments: list[str]) -> int:
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    errors = []
    warnings = []
    files = [
        path.relative_to(root)
        for top in ("src", "apps")
        for path in sorted((root / top).rglob("*"))
        if path.suffix in SOURCE_SUFFIXES
    ]
    for path in files:
        text = (root / path).read_text(encoding="utf-8")
        errors += include_errors(path, text)
        lines = text.count("\n")
        if lines > LONGEST[path.suffix]:
            warnings.append(f"{path}: {lines} lines, more than {LONGEST[path.suffix]}")
    for warning in warnings:
        print(f"warning: {warning}")
    for error in errors:
        print(f"error: {error}")
    print(f"includes: {len(files)} files, {len(errors)} errors, {len(warnings)} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
