"""The `strict` answer extractor: the letter that a reply plainly states.

Statements are <answer>C</answer>, boxed letters, {"answer": "C"}, "Answer: C", "the correct choice
is C", "I choose C" and "C is correct"; without any of these, a line that is a letter, or a letter
with its own option's text. Reasoning (up to </think>) does not count; the last statement does. A
letter next to the text of another option or another letter, one that is an article or a pronoun,
and a negated, hypothetical or retracted one are not answers.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from bon.experiment.retractions import canonical, disowned, ends_in_another, takes_back

NEAR = 0.8  # similarity from which a text is that of its most similar option
LIKE = 0.6  # a text less similar than this to every option is an explanation

_THOUGHT = "think|thinking|thought|thoughts|reasoning|analysis|reflection"
_THOUGHT_END = re.compile(rf"</(?:{_THOUGHT})>", re.IGNORECASE)
_THOUGHT_START = re.compile(rf"<(?:{_THOUGHT})>", re.IGNORECASE)
TAG = re.compile(
    r"<((?:final_?)?answer|choice|option)>(.*?)</\1>|<\|begin_of_box\|>(.*?)<\|end_of_box\|>",
    re.IGNORECASE | re.DOTALL,
)
BOX = re.compile(r"\\f?boxed\s*\{")
FIELD = re.compile(
    r"""(["'])(?:final|correct|best|predicted|selected)?[_ ]?(?:answer|choice|option|letter)"""
    r"""(?:[_ ](?:letter|choice|option))?\1\s*:\s*(["'])((?:(?!\2)[^\\\n]|\\.)*)\2""",
    re.IGNORECASE,
)
_IS = r"(?:is|was|(?:would|should|must|will)\s+be)\b(?:\s+(?:most\s+likely|likely|probably))?"
_ABROAD = (
    r"réponse(?:\s+correcte)?|cevap|odpowied[źď]|đáp\s+án|antwoord|відповідь|svar"
    r"|jawaban|răspuns|پاسخ|คําตอบ|respuesta(?:\s+correcta)?|resposta(?:\s+corr?eta)?"
    r"|risposta(?:\s+(?:corretta|esatta))?|antwort|ответ|答案|正解|答え|回答|정답|답"
    r"|(?:الإجابة|الجواب)(?:\s+الصحيحة?)?|उत्तर"
)
_MARK = re.compile(
    r"\b(?:answer|option|choice)(?:\s+(?:choice|option|letter))?\s*(?P<colon>[:=]|\s-(?=\s))"
    rf"|\b(?:answer|option|choice)(?:\s+(?:choice|option|letter))?(?:'s\b|\s+{_IS})\s*:?"
    rf"|(?:{_ABROAD})\s*(?::|\s-(?=\s)|(?:est|es|é|è|ist|lautet|это|هي|هو)\s|[是为選选はは은는]"
    rf"|(?=\s[A-Z]\s+है))"
    r"|(?:^|\n|[.!]\s)\W{,9}(?:(?:so|thus|hence|therefore),?\s+)?it(?:'s|\s+is)(?=\s+\(?[A-Z]\)?\W*$)"
    r"|\b(?:is\s*:?|(?:correspond(?:s|ing)?|closest|nearest)\s+to|match(?:es|ing)?|aligns\s+with)"
    r"\s+(?:option|choice)\b\s*:?"
    r"|\b(?P<verb>choose|select|pick|go\s+with)\b",
    re.IGNORECASE | re.MULTILINE,
)
_COPULA = re.compile(r"\s*(?:です|である|だ|입니다|이다|है)\s*\.?\s*$")
_CORRECT = re.compile(
    r"\b(?P<letter>[A-Z])\b[)}\s$\\]*\s+is\s+"
    r"(?:(?:therefore|thus|clearly|indeed|the|most|likely)\s+)*"
    r"(?:correct|right|best|answer|closest)\b(?!\s*\?|\s+(?:only|if|unless|when|provided)\b)",
)
_CLAIM = re.compile(
    r"(?:(?:^|.*\b(?:so|thus|hence|therefore|that)\b)\W*(?:option|choice|answer)?)?\W*",
    re.IGNORECASE,
)
DOUBT = re.compile(
    r"\b(?:not|cannot|never|if|whether|unless|why|suppose|assume|assuming|wrong|incorrect|worst"
    r"|refuse|nobody|no\s+one|trap|decoy|tempting|distractor|second[- ]best|least|often|many"
    r"|hardly)\b"
    r"|n't\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?\n](?=\s|$)|\n")
_MARKUP = re.compile(
    r"\\boxed|\\(?:text|math)(?:bf|rm|tt|it|sf|up)?(?![a-z])|\\[()\[\],;:!$ ]"
    r"|\\(?:left|right)(?![a-z])|</?\w+>|[*`${}\[\]]"
    r"|(?<![^\W_])_|_(?!\{?\d)"  # but not that of x_1
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_BULLET = re.compile(r"(?:(?:->|[>#•]|-(?=\s+[^\s\d.]))\s*)*")
_NUMBER = re.compile(
    r"(?:(?:^|(?<=[=:(,;]))\s*(-)\s*|(?<![a-z\d)])(-)(?=\S)|\b(minus)\s*)?"
    r"((?<![a-z])[a-z](?![a-z])|\d+(?:[.,]\d+)*\s*%?)"
)
_LETTER = re.compile(
    r"(?:(?:option|choice|answer|letter)(?:\s+|\s*:\s*))?(?P<open>\()?\s*(?P<letter>[A-Za-z])\b(?!')"
    r"(?P<close>\s*\))?(?P<after>.*)",
    re.IGNORECASE | re.DOTALL,
)
_AFTER = re.compile(r"\s*[.:;,]\s*|\s*(?=\()|\s+-+\s+|\s+")
_REASON = re.compile(
    r"(?:because|since|as|due|which|given|for|weil|denn|da|car|parce|porque|pues|perché|poiché"
    r"|потому|так как|ибо)\b|因为|なぜなら|왜냐|لأن|क्योंकि",
    re.IGNORECASE,
)
_ALONE = re.compile(r"(?<![\w'])([A-Z])(?![\w'])")
_WORD = re.compile(r"\s[a-z]")


class _Statement(NamedTuple):
    """The begin of a statement, its letter or None if it cannot be extracted, and its end."""

    begin: int
    letter: str | None
    end: int


def stated_letter(text: str, letters: str, options: Sequence[str]) -> str | None:
    """Return the stated letter or None; `letters` are those of the options, in order."""
    return _Extractor(letters, options).extract(after_thinking(text))


def after_thinking(text: str) -> str:
    """Return what follows the reasoning; empty if it never ends."""
    text = text[max((end.end() for end in _THOUGHT_END.finditer(text)), default=0) :]
    start = _THOUGHT_START.search(text)
    return text if start is None else text[: start.start()]


class _Extractor:
    """Extracts letters from replies to one question."""

    def __init__(self, letters: str, options: Sequence[str]) -> None:
        self.letters, self.options = letters, options
        self.plain = [_plain(option) for option in options]

    def extract(self, text: str) -> str | None:
        text = canonical(text).replace("*", "").replace("`", "")  # also in "**Answer**:"
        statements = [*self._enclosed(text), *self._announced(text)]
        last = max(statements, key=lambda statement: statement.begin, default=None)
        rest = text if last is None else text[last.end :]
        if last is None or last.letter is None:
            return self._bare(rest, whole=last is None)
        disputed = any(
            other.letter not in (None, last.letter) and "\n" not in text[other.end : last.begin]
            for other in statements
            if other.begin < last.begin
        )
        revoked = takes_back(rest) or ends_in_another(rest, last.letter, self.letters)
        return None if disputed or revoked or disowned(text[: last.begin]) else last.letter

    # ------------------------------------------------------------------ statements

    def _enclosed(self, text: str) -> Iterator[_Statement]:
        for tag in TAG.finditer(text):
            inside = tag[2] if tag[2] is not None else tag[3]
            yield _Statement(tag.start(), self._content(inside, either_case=True), tag.end())
        for field in FIELD.finditer(text):
            letter = self._content(field[3], either_case=True)
            yield _Statement(field.start(), letter, field.end())
        for box in BOX.finditer(text):
            inside = balanced(text, box.end())
            letter = self._content(inside, either_case=True)
            # Boxes also hold intermediate results.
            if letter is not None or self._names_letters(_unmarked(inside)):
                yield _Statement(box.start(), letter, box.end() + len(inside) + 1)

    def _announced(self, text: str) -> Iterator[_Statement]:
        for mark in _MARK.finditer(text):
            colon = mark["colon"] is not None
            if DOUBT.search(words_before(text, mark.start(), 1 if colon else 30)):
                continue
            after = next(filter(_bare_line, text[mark.end() :].splitlines()), "")
            letter = self._content(after, either_case=colon)
            if letter is not None or colon or (not mark["verb"] and self._names_letters(after)):
                end = text.find(after, mark.end()) + len(after)
                yield _Statement(mark.start(), letter, end if letter else mark.end())
        for claim in _CORRECT.finditer(text):
            before = words_before(text, claim.start(), 30)
            quoted = _plain(claim[0])
            doubted = DOUBT.search(before) or any(quoted in option for option in self.plain)
            if claim["letter"] in self.letters and _CLAIM.fullmatch(before) and not doubted:
                yield _Statement(claim.start(), claim["letter"], claim.end())

    def _names_letters(self, text: str) -> bool:
        return any(letter in self.letters for letter in _ALONE.findall(text))

    def _content(self, text: str, *, either_case: bool) -> str | None:
        """Return the letter of the text where an answer is announced."""
        line = _COPULA.sub("", _unmarked(text).strip().strip("\"'"))
        if letter := self._option_letter(line):
            return letter
        match = _LETTER.fullmatch(line)
        if match is None or match["letter"].upper() not in self.letters:
            return None
        letter, after = match["letter"].upper(), match["after"]
        if not after.strip(" \t\n.,:;)!\"'"):
            bracketed = match["open"] and match["close"]
            return letter if match["letter"] == letter or either_case or bracketed else None
        between = re.match(r"\s*", after) if match["close"] else _AFTER.match(after)
        if between is None:
            return None
        rest = re.sub(r"^-\s+", "", after[between.end() :].strip(" :."))
        own = self._is_own_text(letter, rest, LIKE)
        if own is not None:
            return letter if own else None
        if match["letter"] != letter or self._names_another(letter, rest) or takes_back(rest):
            return None
        if between[0].strip() in (",", "") and rest[:1] != "(":
            return letter if _REASON.match(rest) else None
        return None if rest[:1].islower() and between[0].strip() == "." else letter

    def _option_letter(self, text: str) -> str | None:
        """Return the letter of the only option with this text."""
        plain = _plain(text)
        unique = len(plain) > 1 and self.plain.count(plain) == 1
        return self.letters[self.plain.index(plain)] if unique else None

    def _is_own_text(self, letter: str, text: str, least: float) -> bool | None:
        """Whether a text is that of the letter's option; None if it is of no option."""
        plain, index = _plain(text), self.letters.index(letter)
        if not plain:
            return None
        prefix = max((o for o in self.plain if o and plain.startswith(o)), key=len, default="")
        own, stated = self.plain[index], _numbers(text)
        missing = _numbers(self.options[index]) - stated
        # An option's numbers are stated with their signs: -3 and 10% are not 3 and 10.
        same = all(number.isalpha() and f"-{number}" not in stated for number in missing)
        if prefix:
            return prefix == own and same and plain[len(own) : len(own) + 1] not in tuple("×·/^_+")
        similarity = [SequenceMatcher(None, plain, o).ratio() if o else 0.0 for o in self.plain]
        best = max(similarity)
        return None if best < least else similarity[index] == best and same

    def _names_another(self, letter: str, text: str) -> bool:
        """Whether a text contains another option's letter that is no article or pronoun."""
        matches = (m for m in _ALONE.finditer(text) if m[1] in self.letters and m[1] != letter)
        return any(not (m[1] in "AI" and _WORD.match(text, m.end())) for m in matches)

    # ------------------------------------------------------------------ without a statement

    def _bare(self, text: str, *, whole: bool) -> str | None:
        """Return the letter of a line that holds nothing else, or only its own option's text."""
        lines = [line for line in map(_bare_line, text.splitlines()) if line]
        alone: list[str] = []
        with_text: list[tuple[int, str]] = []
        for number, line in enumerate(lines):
            match = _LETTER.fullmatch(line)
            if match is None or match["letter"] not in self.letters:
                continue
            letter, after = match["letter"], match["after"]
            if not after.strip(" .,:;)!"):
                alone.append(letter)
                continue
            between = re.match(r"\s+-\s+|\s*[.):]?\s*", after)
            assert between is not None
            rest = after[between.end() :]
            separated = match["close"] or between[0].strip() or rest[:1] == "("
            if separated and self._is_own_text(letter, rest, NEAR):
                with_text.append((number, letter))
        if alone:
            closing = lines[-1].strip(" .,:;()!") == alone[-1]
            return alone[-1] if closing and len(set(alone)) == 1 else None
        if len({letter for _, letter in with_text}) == 1:
            at_an_end = with_text[0][0] == 0 or with_text[-1][0] == len(lines) - 1
            return with_text[0][1] if at_an_end else None
        return self._option_letter(lines[0]) if whole and len(lines) == 1 else None


def _bare_line(line: str) -> str:
    return _BULLET.sub("", _unmarked(line).strip(), count=1).strip()


def words_before(text: str, position: int, words: int) -> str:
    """Return at most the last words of the sentence before a position."""
    before = text[max(0, position - 300) : position]
    begin = max((end.end() for end in _SENTENCE.finditer(before)), default=0)
    return " ".join(before[begin:].split()[-words:])


def balanced(text: str, start: int) -> str:
    """Return the text up to the brace that closes the one before `start`."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:]


def _plain(text: str) -> str:
    """Return the text without markup, blanks and enclosing brackets and full stops; x² as x^2."""
    return "".join(_unmarked(canonical(text)).lower().split()).strip("().")


def _numbers(text: str) -> set[str]:
    """Return the numbers and variables of a text, with minus and percent signs."""
    matches = _NUMBER.finditer(_unmarked(canonical(text)).lower())
    return {"-" * any(match.group(1, 2, 3)) + "".join(match[4].split()) for match in matches}


def _unmarked(text: str) -> str:
    return _MARKUP.sub("", _FRACTION.sub(r"\1/\2", text.replace("\\%", "%")))
