"""The one normaliser of answers, and the numbers in them: what every grader compares.

`normal` writes characters, powers and LaTeX in one way; `quantity` parses a number with its unit.
"""

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

MAX_LENGTH = 120

_DASHES = re.compile("[‐‑‒–—―−]")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_POWER = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_VULGAR = re.compile(r"(\d)\s*([¼-¾⅐-⅞])")
_LEADING_POINT = re.compile(r"(?<![\w.])\.(?=\d)")
_STARS = re.compile(r"(?<=[A-Za-z0-9)}])( ?)\*\*\1(?=-?\d|[({]|[A-Za-z]\b)")
_LATEX = (
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf|operatorname)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "*"),
    (re.compile(r"\{,\}|\\[,;:! ]|\\(?:left|right)(?![a-z])"), ""),
    (re.compile(r"\\(?=[%$])|\^\s*\{?\\circ\}?"), lambda m: "°" if "circ" in m[0] else ""),
    (  # a power of ten alone
        re.compile(
            r"(?<![\w.*×·^])(?<![*×x·^]\s)10\s*\^\s*"
            r"(?:\{\s*([+-]?\d{1,3})\s*\}|([+-]?\d{1,3}))(?!\d|\s*\^)"
        ),
        lambda m: f"1e{m[1] or m[2]}",
    ),
)
NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
)  # fmt: skip
_SCALES = {
    word: Fraction(10) ** power
    for power, words in {
        -9: "ppb",
        -6: "ppm",
        -4: "bps",
        -3: "‰ permille permil promille",
        2: "百",
        3: "thousand thousands tausend tsd tsd. mille mil mila duizend tusen tusind tuhatta tysiąc "
        "tysiące tysięcy tys. tys tisíc tisíce tis. тысяча тысячи тысяч тыс. тыс тисяча тисячі "
        "тисяч тис. тис хиляди хил. tisuća mii ezer χιλιάδες bin ألف آلاف هزار אלף हज़ार हजार "
        "হাজার ஆயிரம் พัน nghìn ngàn ribu rb 천 千 milers ہزار elfu",
        4: "万 萬 만 หมื่น",
        5: "lakh lakhs lac lacs लाख লাখ لاکھ แสน",
        6: "million millions mio mio. mill. millionen millones millón milhões milhão milioni "
        "milione mln mln. miljoen miljoner miljon mn millioner miljoonaa milj. milion miliony "
        "milionów milionů milión milióny milióna миллион миллиона миллионов млн млн. мільйон "
        "мільйона мільйонів милион милиона milijun milijuna milioane millió εκατομμύρια εκ. milyon "
        "مليون ملايين میلیون מיליון ล้าน triệu juta jt milions milió 百万 百萬 백만",
        7: "crore crores cr करोड़ কোটি کروڑ कोटी 千万 千萬 천만",
        8: "億 亿 억",
        9: "billion milliarden milliarde mrd mrd. milliards milliard bilhões bilhão miliardi "
        "miliardo mld mld. miljard miljarder milliarder mia. miljardia miliarda miliard miliardy "
        "miliardów миллиард миллиарда миллиардов млрд млрд. мільярд мільярда мільярдів милиарда "
        "milijardi milijarda miliarde milliárd δισεκατομμύρια δισ. milyar مليار میلیارد מיליארד "
        "अरब พันล้าน tỷ tỉ miliar ارب",
        12: "trillion billones billón billionen bio. biljoen biljoner billioner biljoonaa bilionů "
        "bilionów триллион триллиона триллионов трлн трлн. trilhões trilhão trilyon ترليون 万亿 "
        "triliun 조",
    }.items()
    for word in words.split()
} | {"gross": Fraction(144), "dozen": Fraction(12), "dozens": Fraction(12)}
"""Words that multiply a number, from the compact decimal formats of CLDR."""
_CJK = re.compile("[\u0e00-\u0e7f\u3400-\u9fff\uac00-\ud7a3‰]")
_LEAD = re.compile(
    r"(?:[a-z]\w{0,9}\s*=\s*|(?:approximately|approx\.?|about|roughly|[≈~=])\s*)*", re.IGNORECASE
)
_PLAIN = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[ '_]\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?|(?:minus|negative)\s+)\s*[$€£¥]?\s*(?P<sign2>-?)"
    rf"(?:(?P<whole>\d+)\s+(?=\d+/))?(?P<number>{_PLAIN})"
    r"(?:\s*/\s*(?P<below>\d+(?:\.\d+)?)(?![\d.]))?"
    r"(?:[eE](?P<e>[+-]?\d{1,3})(?!\d)|\s*[*×x·]\s*10\s*\^\s*\{?(?P<ten>[+-]?\d{1,3})\}?(?!\d))?"
    rf"|(?P<sign3>(?:minus|negative)\s+)?(?P<word>{'|'.join(NUMERALS)})\b",
    re.IGNORECASE,
)
_CHINESE, _OTHERS = (
    "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    for words in (filter(_CJK.match, _SCALES), [w for w in _SCALES if not _CJK.match(w)])
)
_SCALE = re.compile(rf"\s*(?:({_OTHERS})(?!\w)|({_CHINESE}))", re.IGNORECASE)
_UNIT = re.compile(r"[^\d,;:?!=<>\\|&\n]{0,40}(?:\^-?\d)?[^\d,;:?!=<>\\|&\n]{0,20}")
_NO_UNIT = re.compile(
    r"[\^*/+(_\[√π-]|\\?pi\b|\\sqrt|[einxyz]\b|(?:[kKMBT]|bn|兆|billions|trillions)(?:\b|$)"
    r"|per\s+(?:mil|hundred|thousand)|.*\b(?:is|are|was|were|would|could|might|or|and|to|not|if|but|than|maybe|between|up|until|plus|minus|half|halves"
    r"|hundreds?|(?:third|quarter|fifth|tenth|hundredth|thousandth|millionth)s?)\b"
    r"|.*[-+*/]$"
)


class Quantity(NamedTuple):
    """A number and its unit; of percent, the number before the sign."""

    number: Fraction
    unit: str


def normal(text: str) -> str:
    """Return a text with one kind of dashes, quotes, powers and leading points ("0.5" for ".5")."""
    text = _POWER.sub(lambda m: f"^{m[0].translate(_RAISED)}", _VULGAR.sub(r"\1 \2", text))
    text = _DASHES.sub("-", unicodedata.normalize("NFKC", text)).replace("⁄", "/")
    text = _STARS.sub("^", text)
    return _LEADING_POINT.sub("0.", text.replace("’", "'"))


def quantity(text: str) -> Quantity | None:
    """Parse a number with an optional unit and nothing else."""
    if len(text) > MAX_LENGTH:
        return None
    text = normal(text)
    for pattern, plain in _LATEX:
        text = pattern.sub(plain, text)
    text = _LEADING_POINT.sub("0.", text.strip(" \t\n$\"'")).rstrip(" .")
    start = _LEAD.match(text)
    match = _NUMBER.match(text, start.end() if start else 0)
    if match is None or (match["sign"] and match["sign2"]):
        return None
    amount = _amount(match)
    if amount is None:
        return None
    rest = text[match.end() :]
    while scale := _SCALE.match(rest):
        amount *= _SCALES[(scale[1] or scale[2]).casefold()]
        rest = rest[scale.end() :]
    rest = rest.strip(" .{}$。")
    if not _UNIT.fullmatch(rest) or _NO_UNIT.match(rest) or len(rest.split()) > 4:
        return None
    return Quantity(amount, unit_of(rest))


def unit_of(text: str) -> str:
    """Return a unit as it is compared: without blanks, case and plural."""
    bare = re.sub(r"[\s.{}$^]", "", text).casefold()
    if bare in ("%", "percent"):
        return "%"
    return bare.removesuffix("s") if len(bare) > 2 else bare


def _amount(match: re.Match[str]) -> Fraction | None:
    if match["word"]:
        amount = Fraction(NUMERALS.index(match["word"].lower()))
        return -amount if match["sign3"] else amount
    amount = Fraction(re.sub("[ ,'_]", "", match["number"]))
    if match["below"]:
        below = Fraction(match["below"])
        if not below:
            return None
        amount /= below
    amount += int(match["whole"] or 0)
    amount *= Fraction(10) ** int(match["e"] or match["ten"] or 0)
    return -amount if match["sign"].strip() not in ("", "+") or match["sign2"] else amount
