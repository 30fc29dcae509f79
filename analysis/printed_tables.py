"""Tables as the LaTeX source of a paper or the Markdown of a README writes them."""

import re

from bon.core.errors import BonError

GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
"""What stands in braces, in which there may be others."""
BODY = re.compile(
    r"\\begin\{(tabular|array|longtable|(?:tabular\*|tabular[xy])\}\s*\{[^}]*)\}\s*"
    rf"(?:\[[^]]*\]\s*)?{GROUP}(.*?)\\end\{{(?:tabular[*xy]?|array|longtable)\}}",
    re.DOTALL,
)
COMMENT = re.compile(r"(?<!\\)%.*")
NO_CELL = re.compile(
    r"\\(?:toprule|bottomrule|hline|addlinespace|cline|c?midrule|rowcolor|cellcolor)(?![a-z])"
    r"(?:\s*\[[^]]*\]|\s*\([^)]*\)|\s*\{[^}]*\})*"
    r"|\\multirow\*?(?:\[[^]]*\])?\s*\{[^}]*\}\s*(?:\[[^]]*\])?\s*\{[^}]*\}"
    r"|\\(?:cite\w*|ref|label|footnote\w*|textcolor|color)\*?(?:\[[^]]*\])*\s*\{[^}]*\}"
)
"""Rules, colours, references, and what precedes the content of a cell of several rows."""
SPAN = re.compile(rf"\\multicolumn\s*\{{(\d+)\}}\s*{GROUP}")
STYLE = re.compile(
    r"(?:\\(?!pm\b)[a-zA-Z]+(?=\s*\{)"
    r"|\\(?:bf|it|em|sc|rm|tiny|scriptsize|footnotesize|small)(?![a-zA-Z])"
    r"|\^?\\d?dagger(?![a-zA-Z])|\^?\\(?:ast|star)(?![a-zA-Z])|[{}$~])+"
)
"""What is removed; macros keep what they are given."""
HEADER_END = re.compile(r"\\midrule|\\hline")


def printed_rows(text: str) -> list[list[str]] | None:
    """Return header and rows of the one table in LaTeX or Markdown; None where there is none.

    Raises:
        BonError: several tables.
    """
    latex = [_latex(found[2]) for found in BODY.finditer(COMMENT.sub("", text))]
    tables = [*latex, *([] if latex else _markdown(text))]
    if len(tables) > 1:
        headers = "; ".join(", ".join(names)[:60] for names, *_ in tables[:5])
        raise BonError(
            f"{len(tables)} tables, which begin with: {headers}", "copy the one meant to a file"
        )
    return tables[0] if tables else None


def _markdown(text: str) -> list[list[list[str]]]:
    """Return the tables: lines with bars, also between cells alone, the second of them a rule."""
    tables = []
    for block in re.findall(r"(?:^.*\|.*\n?)+", text, re.MULTILINE):
        lines = [line.strip().removeprefix("|").removesuffix("|") for line in block.splitlines()]
        if len(lines) > 1 and re.fullmatch(r"[|:\s-]+", lines[1]):
            rows = [re.split(r"(?<!\\)\|", line) for line in lines[:1] + lines[2:]]
            tables.append([[_markdown_cell(cell) for cell in row] for row in rows])
    return tables


def _markdown_cell(cell: str) -> str:
    """Return a cell without styles and tags, and the text of its links."""
    text = re.sub(r"<[^<>]*>", " ", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell))
    return text.strip(" *`").replace(r"\|", "|")


def _latex(body: str) -> list[list[str]]:
    """Return names of columns, joined where the header has several lines, and rows of cells."""
    body = re.sub(r"^(\s*\\(?:toprule|hline))+", "", body.split(r"\toprule")[-1])
    header, _, rest = body.partition(next(iter(HEADER_END.findall(body)), r"\\"))
    top = _rows(header) or [[]]
    width = max(map(len, top))
    names = [
        " ".join(filter(None, dict.fromkeys(column)))
        for column in zip(*(row + [""] * (width - len(row)) for row in top), strict=True)
    ]
    # a line with one cell is the title of those below it
    return [names, *(row for row in _rows(rest, repeat=False) if len([c for c in row if c]) > 1)]


def _rows(text: str, repeat: bool = True) -> list[list[str]]:
    rows = []
    for line in re.split(r"\\\\(?:\[[^]]*\])?|\\tabularnewline", NO_CELL.sub("", text)):
        row: list[str] = []
        for cell in re.split(r"(?<!\\)&", line):
            span, content = SPAN.search(cell), STYLE.sub(_between, SPAN.sub("", cell))
            content = re.sub(r"\\([%&#_])", r"\1", " ".join(content.split()))
            row += [content] + [content if repeat else ""] * (int(span[1]) - 1 if span else 0)
        if any(row):
            rows.append(row)
    return rows


def _between(style: re.Match[str]) -> str:
    """Return what separates two numbers; nothing elsewhere."""
    around = style.string[: style.start()][-1:], style.string[style.end() :][:1]
    return "_" if all(each.isdigit() for each in around) else ""
