"""The size and shape of the source: code lines, files per folder, parameters per function.

`python -m benches structure` prints them; `tests/test_structure.py` keeps the limits.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import exhume

PACKAGE = Path(exhume.__file__).parent
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def modules() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def code_lines(text: str) -> int:
    """Lines with code: no blank lines, comments, docstrings or imports."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            node = node.body[0]
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    rows = text.splitlines()
    return sum(bool(rows[line - 1].strip()) for line in lines)


def folder_sizes() -> dict[Path, int]:
    """How many Python files each folder of the package holds itself."""
    sizes: dict[Path, int] = {}
    for path in modules():
        sizes[path.parent] = sizes.get(path.parent, 0) + 1
    return sizes


def functions() -> Iterator[tuple[str, int]]:
    """Every function as (module path:name, number of parameters without self and cls)."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                bound = names[:1] in (["self"], ["cls"])
                yield f"{path.relative_to(PACKAGE).as_posix()}:{node.name}", len(names) - bound


def main() -> None:
    """Prints code lines and files by folder, and the functions with the most parameters."""
    rows: dict[str, tuple[int, int]] = {}
    for path in modules():
        inside = path.relative_to(PACKAGE)
        name = inside.parts[0] if len(inside.parts) > 1 else "(root)"
        code, files = rows.get(name, (0, 0))
        rows[name] = (code + code_lines(path.read_text(encoding="utf-8")), files + 1)
    for name, (code, files) in sorted(rows.items()):
        print(f"{name:12} {code:6} code lines {files:4} files")
    print(f"{'in all':12} {sum(code for code, _ in rows.values()):6} code lines {len(modules()):4} files")
    for name, count in sorted(functions(), key=lambda item: -item[1])[:15]:
        print(f"{count:3} parameters  {name}")


if __name__ == "__main__":
    main()
