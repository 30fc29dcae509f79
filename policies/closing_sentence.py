"""What the last sentence of a reply says where the reply states nothing in the required form.

It is read by its form alone: a label before a colon, the one number that the question does not
hold or that follows "=" or "is", the one letter that ends it. No words announce an answer. Words
that deny or doubt withhold it, since nothing else tells "no es 5" from "es 5".
"""

import re
from fractions import Fraction

from bon.experiment.required_form import EMPHASIS
from bon.graders.quantities import NUMERALS, normal, quantity

MAX_SENTENCE = 600

_NUMBER = re.compile(
    r"[$€£¥]?\s?(?<![\w.:/^*])(?<!\d,)-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+)?"
    r"(?![.:,]?\d|[A-Za-z_^/]|\s?\*\*)(?:\s?[%°])?"
    rf"|(?<![\w-])(?:{'|'.join(NUMERALS)})(?![\w-])",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"n't\b|\b(?:not?|none|never|cannot|neither|nor|nobody|hardly|if|unless|may|maybe|might|could|"
    r"would|should|perhaps|possibly|wait|scratch|doubt|mistake|trap|some|either|step|note|hint|"
    r"except|wrong|false|refuse|in[ck]orre\w*|fals\w*|eliminat\w*|exclu\w*|descart\w*|"
    r"ausgeschlossen|nicht|kein\w*|vielleicht|wenn|oder|weder|pas|ni|non|peut|si|ou|nunca|ningun\w*|"
    r"quizás?|o|não|nem|talvez|se|errad\w*|forse|sbagliat\w*|errat\w*|geen|niet|misschien|inte|inga|"
    r"ikke|eller|kanske|nie|lub|albo|jeśli|değil|belki|eğer|veya|yanlış|không|sai|nếu|hoặc|bukan|"
    r"tidak|salah|jika|atau|mungkin|не|ни|нет|неверн\w*|если|или|возможно|может|хотя|або|δεν|όχι)\b"
    r"|\bn'|[不非没沒無无未错錯误誤除若或吗嗎假]|可能|如果|还是|還是|もし|ない|ません|かも|違|なら"
    r"|아니|아닌|아닙|않|없|틀|또는|만약|नहीं|गलत|अगर|ليس|غير|خطأ|إذا|לא|אם|ไม่|ผิด|หรือ|ถ้า",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?？؟]")
_POWER = re.compile(r"\s?(?:[×·*]|\\times)\s?10(?:\^|\*\*)\{?-?\d+\}?")
_NAMED = re.compile(r"(?<!\w)([A-Za-z])\s?=\s?-?[\d.]+(?!\s?[-+*/×=^\d])")
_ENGLISH = re.compile(
    r"\b(?:the|its?|it's|i|i'[dm]|we|would|answer|of|that|this|and|my|out|is\s+correct)\b",
    re.IGNORECASE,
)
"""Words of English, whose prompts ask for a form: its prose states no letter."""
_COURTESY = re.compile(r"\b(?:you|your|helps?)\b", re.IGNORECASE)
_ASIDE = re.compile(r"(?:it|they|these|this|those)\s+(?:is|are|was|were)\b", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？।])\s*(?=\S)")
_LISTED = re.compile(r"\s*(?:[-*•]\s|\d+[.)]\s)|.*\||.*```")
_LABELLED = re.compile(
    r"(?:\W*[【\[]([^】\]:]{1,24})[】\]]|((?:[^\W\d_]|\u0300-\u036f|[\u0900-\u0e7f]|[ '’-]){1,40})"
    r"\s?[:：])\s*(\S.*)"
)
_MORE_THAN = re.compile(
    r"(?:\b(?:than|least|most|over|above|below|under|figure|between|from|to)|[<>≤≥])\s*$", re.I
)
_ASSERTED = re.compile(
    r"(?:[=:：≈—–]|\b(?:is|are|was|were|be|equals|es|est|ist|é|è|är|er)"
    r"|[是为為は은는])(?:\s+(?:about|approximately|roughly|a total of))?\s*$",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\s?(?:[^\W\d_]+\W?){0,3}")
_CLAUSE_END = re.compile(r"[*\s]*(?:[^\W\d_]+ ?){0,2}(?:,\s+(?!and\b|or\b|no\b)[^\W\d_]|:\s)")
_RANGE = re.compile(rf"\s*(?:to|or|and|-|±)\s*(?:{_NUMBER.pattern})", re.IGNORECASE)
_SIGNS = re.compile(r"[$€£¥%]|percent|\b(?:cost|price|pay|spend|money|much)\b", re.IGNORECASE)
_ASKING = frozenset(
    {"how", "many", "much", "what", "which", "when", "does", "did", "the", "are", "was", "were"}
    | {"have", "has", "and", "for"}
)
_WORDS = re.compile(r"[^\W\d_]{3,}")
_PRONOUN = re.compile(r"\b(?:the|no|any|each|every|this|that|least|last|only) one$", re.IGNORECASE)
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_OPENING = re.compile(r"(of|among|in|from|with|for|after|by|on)\b[^,]*", re.IGNORECASE)
_BLANK = re.compile(r"\(?_+\)?((?:\s+\w+){1,3})")
TURN = re.compile(r"\n[ \t]*(?:Question|Hint|User|Human):")
_CHOOSES = re.compile(r"[选選择擇是为為は:：—=]\W*$")


def closing_number(text: str, question: str = "") -> str | None:
    """Return the number that a reply ends in saying, with its sign for money or percent.

    Else that of the only sentences that repeat most words of the question.
    """
    sentence = _closing(text, question, numbers=True)
    labelled = _LABELLED.fullmatch(EMPHASIS.sub("", sentence or ""))
    if labelled and quantity(labelled[3]) is not None:
        return labelled[3]
    return _stated_number(sentence or "", question) or _repeating(text, question)


def _stated_number(sentence: str, question: str) -> str | None:
    """Return the number that a sentence states, None for none or several."""
    question = normal(question)
    told = {_value(m[0]) for m in _NUMBER.finditer(question)}
    marked = [_NUMBER.search(span) for span in _BOLD.findall(sentence)]
    emphasised = {_value(m[0]) for m in marked if m}
    sentence = EMPHASIS.sub("", sentence)
    found = [m for m in _NUMBER.finditer(sentence) if not _PRONOUN.search(sentence[: m.end()])]
    if not found or "__" in sentence or _denies(sentence, question):
        return None
    asserted = [m for m in found if _is_asserted(sentence, m)]
    fresh = [m for m in found if _value(m[0]) not in told]
    bold = [m for m in fresh if _value(m[0]) in emphasised]
    # Shares and prices beside other numbers are asides, unless they are asked for.
    plain = [m for m in fresh if _is_plain(m[0])]
    fresh = fresh if not plain or _SIGNS.search(question) else plain
    values = {_value(m[0]) for m in fresh}
    chosen = None
    if bold and len(emphasised) == 1:
        chosen = bold[-1]
    elif len(values) == 1 and (len(fresh) == 1 or fresh[0] in asserted):
        chosen = fresh[0]
    elif fresh and fresh[-1] in asserted and fresh[-1] is found[-1]:
        chosen = fresh[-1]
    elif fresh and fresh[0] in asserted and _ends_clause(sentence, fresh[0]):
        chosen = fresh[0]
    elif not fresh and (blank := _BLANK.search(question)):
        after = [m for m in found if sentence[m.end() :].lower().startswith(blank[1].lower())]
        chosen = after[0] if len(after) == 1 else None
    if not fresh and chosen is None and len(asserted) == 1 and asserted[0] is found[-1]:
        chosen = asserted[0]
    if chosen is None or _MORE_THAN.search(sentence[: chosen.start()]):
        return None
    opening = _OPENING.match(sentence)
    if opening is not None and chosen.end() <= opening.end() < len(sentence):
        asked = re.search(rf"\b{opening[1]}\s+(?:how|wh|\W)", question, re.IGNORECASE)
        if not asked or not _repeats(sentence, question):
            return None
    rest = sentence[chosen.end() :]
    if _RANGE.match(rest) or len({name[1] for name in _NAMED.finditer(sentence)}) > 1:
        return None
    power = _POWER.match(rest)
    return (chosen[0] + (power[0] if power else "")).strip()


def _repeating(text: str, question: str) -> str | None:
    """Return the number of all sentences that repeat most words of the question."""
    if not question:
        return None
    found: dict[Fraction | None, str] = {}
    for line in text.splitlines():
        for sentence in [] if _LISTED.match(line) else _SENTENCES.split(normal(line).strip()):
            if len(sentence) > MAX_SENTENCE:
                continue
            if not _repeats(sentence, question):
                if found and _denies(sentence, question) and not _COURTESY.search(sentence):
                    return None
            elif number := _stated_number(sentence.rstrip(".!"), question):
                found[_value(number)] = number
    marked = [_value(m[0]) for span in _BOLD.findall(text) if (m := _NUMBER.search(span))]
    if len(found) > 1 and len(marked) == 1:
        return found.get(marked[0])
    return next(iter(found.values())) if len(found) == 1 else None


def _repeats(sentence: str, question: str) -> bool:
    asked = set(_WORDS.findall(_SENTENCES.split(normal(question).strip())[-1].lower())) - _ASKING
    return len(asked) > 1 and len(asked & set(_WORDS.findall(sentence.lower()))) >= 0.6 * len(asked)


def closing_letter(text: str, letters: str) -> str | None:
    """Return the text that the last line states under a label, or the one letter that ends it."""
    sentence = _closing(text, numbers=False)
    if sentence is None:
        return None
    if labelled := _LABELLED.fullmatch(sentence):
        return labelled[3]
    found = list(
        re.finditer(rf"(?<![A-Za-z0-9'])[({{]?([{letters}])[)}}]?(?![A-Za-z0-9'])", sentence)
    )
    if len(found) != 1:
        return None
    before, after = sentence[: found[0].start()], sentence[found[0].end() :]
    count = sum(map(str.isalpha, before))
    foreign = not re.search("[A-Za-z]", before + after)
    if foreign and (count >= 4 or _CHOOSES.search(before)) and len(after) <= 8:
        return found[0][1]
    ends = not any(map(str.isalnum, after)) and len(before.split()) >= 3
    return found[0][1] if ends and not _ENGLISH.search(before) else None


def closing_text(text: str) -> str | None:
    """Return what the last line states under a label of one word, or after a Chinese copula."""
    sentence = _closing(text, numbers=False)
    if sentence is None:
        return None
    if (labelled := _LABELLED.fullmatch(sentence)) and len(
        (labelled[1] or labelled[2]).split()
    ) == 1:
        return labelled[3]
    copula = re.fullmatch(
        r"[^\x00-\x7f]{2,8}[是为為は]\s*([^是为為は]{1,40}?)(?:です)?[。.]?", sentence
    )
    return copula[1] if copula else None


def _closing(text: str, question: str = "", *, numbers: bool) -> str | None:
    """Return the last sentence, without courtesies after it; None for a list or a denial."""
    text = TURN.split(text.strip())[0]
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
    while (
        len(paragraphs) > 1
        and _COURTESY.search(paragraphs[-1])
        and not re.search(r"\d", paragraphs[-1])
    ):
        paragraphs.pop()
    if not paragraphs:
        return None
    *before, line = paragraphs[-1].split("\n")
    if _LISTED.match(line) or "```" in paragraphs[-1]:
        return None
    if before and _LISTED.match(before[-1]):
        return None
    if before and _LABELLED.fullmatch(before[-1].strip()) and _LABELLED.fullmatch(line.strip()):
        return None
    sentences = _SENTENCES.split(normal(line).strip())
    sentence = sentences[-1]
    if numbers and len(sentences) > 1 and _ASIDE.match(sentence) and not _NUMBER.search(sentence):
        sentence = sentences[-2] if not _DENIAL.search(sentence) else ""
    sentence = sentence.strip().rstrip(".。!！।").strip()
    if not sentence or len(sentence) > MAX_SENTENCE:
        return None
    return None if _denies(sentence, question) else sentence


def _denies(sentence: str, question: str) -> bool:
    """Whether a sentence denies or doubts, in other words than the question does."""
    asks = _QUESTION.search(sentence) is not None
    return asks or any(m[0].lower() not in question.lower() for m in _DENIAL.finditer(sentence))


def _value(text: str) -> Fraction | None:
    found = quantity(text)
    return found.number if found else None


def _is_asserted(sentence: str, match: re.Match[str]) -> bool:
    return _ASSERTED.search(sentence[: match.start()]) is not None and (
        _UNIT.fullmatch(sentence[match.end() :]) is not None
        or _ends_clause(sentence, match)
        or sentence[: match.start()].rstrip("$€£¥ ").endswith("=")
    )


def _ends_clause(sentence: str, match: re.Match[str]) -> bool:
    """Whether a comma and more words, not further items, follow a number and its unit."""
    return _CLAUSE_END.match(sentence[match.end() :]) is not None


def _is_plain(number: str) -> bool:
    return not _SIGNS.search(number)
