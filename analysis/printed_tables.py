"""Tables as the LaTeX source of a paper or the Markdown of a README writes them."""

import re

BODY = re.compile(r"\\begin\{(tabular\w?|array|longtable)\}.*?\n(.*?)\\end\{\1\}", re.DOTALL)
COMMENT = re.compile(r"(?<!\\)%.*")
NO_CELL = re.compile(
    r"\\(?:toprule|bottomrule|hline|addlinespace|cline|c?midrule|rowcolor|cellcolor)(?![a-z])"
    r"(?:\s*\[[^]]*\]|\s*\([^)]*\)|\s*\{[^}]*\})*"
    r"|\\multirow\*?(?:\[[^]]*\])?\s*\{[^}]*\}\s*(?:\[[^]]*\])?\s*\{[^}]*\}"
)
"""Rules, colours, and what precedes the content of a cell of several rows."""
SPAN = re.compile(r"\\multicolumn\s*\{(\d+)\}\s*\{(?:[^{}]|\{[^{}]*\})*\}")
COMMAND = re.compile(
    r"\\(?:text\w+|emph|underline|makecell|cite[pt]?\{[^}]*\})|\^?\\d?dagger|\^?\\(?:ast|star)\b|[{}$~]"
)
HEADER_END = re.compile(r"\\midrule|\\hline")


def printed_rows(text: str) -> list[list[str]] | None:
    """Return header and rows of the first LaTeX or Markdown table; None where there is none."""
    if found := BODY.search(text):
        return _latex(COMMENT.sub("", found[2]))
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    if len(lines) < 2 or not re.fullmatch(r"[|:\s-]+", lines[1]):
        return None
    split = [re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|")) for line in lines]
    return [
        [cell.strip(" *`").replace(r"\|", "|") for cell in row] for row in split[:1] + split[2:]
    ]


def _latex(body: str) -> list[list[str]]:
    """Return names of columns, joined where the header has several lines, and rows of cells."""
    body = body.split(r"\toprule")[-1].lstrip().removeprefix(r"\hline")
    header, _, rest = body.partition(next(iter(HEADER_END.findall(body)), r"\\"))
    top = _rows(header)
    width = max(map(len, top))
    names = [
        " ".join(filter(None, dict.fromkeys(column)))
        for column in zip(*(row + [""] * (width - len(row)) for row in top), strict=True)
    ]
    # a line with one cell is the title of those below it
    return [names, *(row for row in _rows(rest, repeat=False) if len([c for c in row if c]) > 1)]


def _rows(text: str, repeat: bool = True) -> list[list[str]]:
    rows = []
    for line in re.split(r"\\\\(?:\[[^]]*\])?", NO_CELL.sub("", text)):
        row: list[str] = []
        for cell in re.split(r"(?<!\\)&", line):
            span, content = SPAN.search(cell), COMMAND.sub("", SPAN.sub("", cell))
            content = re.sub(r"\\([%&#_])", r"\1", " ".join(content.split()))
            row += [content] + [content if repeat else ""] * (int(span[1]) - 1 if span else 0)
        if any(row):
            rows.append(row)
    return rows
