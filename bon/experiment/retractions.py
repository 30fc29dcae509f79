"""How replies take back or disown what they state, in some twenty languages.

Before a statement: a sentence that speaks of what follows ("The next line is false."), or of lies.
After it: a question, a denial, a correction ("Wait, ...") or a sentence that ends in another
letter. The words are lists, and no list is complete.
"""

import re
import unicodedata
from collections.abc import Collection

_SPELLINGS = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"', "」": '"'}
    | {"『": '"', "』": '"', "。": ".", "।": ".", "、": ",", "−": "-", "–": "-", "‐": "-"}
    | {"‑": "-", "—": " - ", "―": " - ", "⁄": "/", "\u2028": "\n", "\u2029": "\n", "\r": "\n"}
    | {"؟": "?", "،": ",", "؛": ";"}
)
_RAISED, _LOWERED = re.compile("[²³¹\u2070-\u207f]+"), re.compile("[\u2080-\u209c]+")
_AHEAD = re.compile(
    r"\bthe following\b(?!:)|\bwhat (?:follows|comes|i (?:now )?(?:say|write))\b|\bbelow is\b"
    r"|\b(?:next|last|final|closing) (?:line|sentence|statement|word|remark)"
    r"|\b(?:line|sentence|statement|verdict|judge?ment|score|answer|text|claim)s? (?:below|here)\b"
    r"|\bfolgend|\bwas (?:nun|jetzt) kommt|\b(?:nächste|letzte)\w* (?:zeile|satz|aussage|urteil)"
    r"|\bqui suit\b|\bsuivante?s?\b|ci-(?:dessous|après)|dernière (?:ligne|phrase)"
    r"|\bsiguientes?\b|\ba continuación\b|\bque sigue\b|última (?:línea|frase|linha)"
    r"|\bseguintes?\b|\ba seguir\b|\bse segue\b|\bseguent[ei]\b|\bche segue\b|\bdi seguito\b"
    r"|\bследующ|\bнижеследующ|\bпоследн\w+ (?:строк|фраз)|\bнаступн|\bponiższ|\bnastępn"
    r"|\başağıdaki|\bsonraki|\bsau đây|\bdưới đây|\btiếp theo|\bvolgende|\bföljande|\bnásledující"
    r"|\bberikut|ακόλουθ|επόμεν|(?<![岁歳度个%])以下|下面(?:[这是一]|的(?:话|句|说法|结论|判断))"
    r"|下一[行句个]|接下来|最后一[行句]|次の|これから|下記|最後の(?:行|文)|다음|이제부터"
    r"|아래(?:의)? ?(?:문장|줄|말|판정)|마지막 (?:줄|문장)|\bيلي\b|التالي|أدناه|السطر الأخير|\bبعدی"
    r"|निम्न|अगल[ीेा]|नीचे (?:की|का|दी)|आखिरी (?:पंक्ति|वाक्य)|\bהבא|\bלהלן",
    re.IGNORECASE,
)
_LIE = re.compile(
    r"\bl(?:ie|ying)\b|\bironic|sarcas|\bjok(?:e|ing)|\bkidding|\bopposite|\bbackwards"
    r"|\bnot my (?:view|opinion)|\blüge|gegenteil|ironie|ironisch|nicht ernst|\bmensonge|\bcontrair"
    r"|\bcontrari|\bopuest|\boposto|\bmentir|\bmiento|\bbroma|\bbrinca|\bbugi[ae]|\bscherz"
    r"|\bлож|лгу\b|обратн|наоборот|шучу|шутк|反话|相反|撒谎|谎话|嘘|冗談|逆のこと|거짓|반대|농담"
    r"|كذب|عكس|مزح|झूठ|उल्टा|मज़ाक|\byalan|\btersi\b|\bkłam|\bodwrotn|\bbohong|nói dối|\blež|دروغ",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[12AB](?![A-Za-z0-9])")
_END = re.compile(r"[.!?]+(?=\s|[^\x00-\x7f]|$)|\n")
_WRONG = (
    r"(?:wrong|incorrect|false|untrue|rejected|a (?:mistake|lie)|not (?:right|true|correct)|falsch"
    r"|nicht (?:wahr|richtig)|stimmt nicht|faux|fausse|fals[oa]|incorrect[oa]|errad[oa]"
    r"|errat[oa]|sbagliat[oa]|неверно|неправильно|не так|нет|错误?的?|不对|誤り?"
    r"|間違い?|違う?|틀렸(?:다|습니다)|خطأ|غير صحيح|गलत|yanlış|fałsz|źle|sai|fout|onjuist)"
)
_NO = rf"(?:{_WRONG}|non|nein|no|nope|нет|hayır|nie|not)"
_CLAUSE = re.compile(r"([^.;:!?\n]+)([.;:!?]?)([^\w\n]{0,5}(?:\n|$))?")
_SHORT, _TAIL = 3, 10  # characters after a letter that ends a sentence: "D !", "no, D でした"
_LETTER = re.compile(r"(?<![A-Za-z0-9'])[A-Z12](?![A-Za-z0-9'])")
_DISPUTED = re.compile(rf'"\W*\w|{_WRONG}', re.IGNORECASE)
_DENIED = re.compile(rf"[^\w?]*(?:\?|{_NO}\b\W*$)", re.IGNORECASE)
_THIS = (
    r"(?:(?:that|this|it)(?:'s| is| was)|(?:das|dies|dat)(?: ist| war| is)?|c'est"
    r"|es[ot]o? (?:es|está)|isso (?:é|está)|(?:questo )?è|это|这是?|那是?|それは"
    r"|これは|그건|그것은|هذا|यह)"
)
_CUE = re.compile(
    r"(?:^|[.!?;:\n\"(])[\s\"'(-]{0,4}(?:(?:but|oh|sorry,?|mais|aber|pero|но|でも|하지만) |但)?(?:"
    r"wait|actually|hmm+|hold on|scratch that|ignore (?:that|the above)|забудь"
    r"|correction|on second thoughts?|oops|moment(?=[,.!:])|warte"
    r"|(?:no|nej|não|nein|non|нет|नहीं|لا|いや|いえ)(?=\s*[,.!;-]|$)"
    r"|korrektur|eigentlich|attende[zs]|attends|en (?:fait|réalité)|pardon|espere?[,. ]|en realidad"
    r"|correcci[oó]n|na verdade|correção|aspetta|anzi|in realtà|correzione|подожди|постой|стоп"
    r"|на самом деле|поправка|исправл|不对|不,|等等|等一下|其实|更正|纠正|错了|待っ|実は|訂正|違う"
    r"|아니|잠깐|사실|정정|انتظر|في الواقع|تصحيح|रुक|असल में|सुधार|bekle|aslında|czekaj|właściwie"
    rf"|chờ|thực ra|{_THIS}\s*{_WRONG}(?!\w)|{_NO}[.!]*(?:\n|$)"
    r"|i (?:was wrong|retract|t(?:ake|ook) [^.]{1,9}back)|ich nehme [^.]{1,9}zurück"
    r"|je (?:me )?rétract|me retracto|ritiro|беру [^.]{1,9}назад|我?收回|撤回|철회|أتراجع|वापस लेत)",
    re.IGNORECASE,
)
_GAP = (
    r"(?:(?!\b(?:not|nicht|pas|non?|não|не)\b|n't|[不没.!?,;\n]|नहीं|ليس|[A-Z12](?![a-z])).){0,25}?"
)
_IS_BETTER = re.compile(  # what follows its subject
    rf"{_GAP}(?:\b(?:is|was|seems|ist|est|es|é|è|är)\b{_GAP}\b(?:better|best|superior|preferable|besser"
    r"|meilleure?|mejor|melhor|migliore|bättre|beter)\b|\bwins\b|\bsupera\b|лучше|更好|更优|更准确|优于|勝|良い|いい|優れ"
    r"|낫|더 좋|우수|أفضل|बेहतर|daha iyi|lepsz)"
)
_CLAUSE_END = re.compile("[,.;]")


def canonical(text: str) -> str:
    """Return a text in plain characters: x^2 for x², one kind of quote and dash, none invisible."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return text.replace("\r", "\n")
    # NFKC would make 82 of 8².
    text = unicodedata.normalize("NFKC", _LOWERED.sub(r"_\g<0>", _RAISED.sub(r"^\g<0>", text)))
    # Lone surrogates cannot be matched; format characters such as zero-width ones are invisible.
    text = "".join(
        str(unicodedata.decimal(c, c)) for c in text if unicodedata.category(c) not in ("Cf", "Cs")
    )
    return text.translate(_SPELLINGS)


def disowned(before: str, *, judges: bool = False) -> bool:
    """Whether the sentence before a statement speaks of what follows it.

    One that judges, and names neither response, may not speak of lies, irony or opposites either.
    """
    *sentences, begun = _END.split(before)
    last = next((sentence for sentence in reversed(sentences) if sentence.strip()), "")
    last = f"{last} {begun}"
    lies = judges and _LIE.search(last) is not None and _NAMED.search(last) is None
    return lies or _AHEAD.search(last) is not None


def ends_in_another(text: str, own: str, letters: Collection[str]) -> bool:
    """Whether the last sentence that names any of the letters ends in another one than `own`."""
    for clause in reversed([*_CLAUSE.finditer(text)]):
        if named := _named(clause[1], letters):
            rest = clause[1][named[-1].end() :]
            bare = not clause[1][: named[0].start()].strip()
            label = clause[2] == ":" or (bare and clause[3] is None)  # "B: ..."
            return (
                {letter[0] for letter in named} == {named[0][0]} != {own}
                and not label
                and len(rest.strip()) <= (_SHORT if bare else _TAIL)
                and _DISPUTED.search(rest) is None
            )
    return False


def prefers_another(text: str, own: str, letters: Collection[str]) -> bool:
    """Whether reasons end in another letter than `own`, or praise it last.

    "So B is better than A", not "B is better in style, but A is right".
    """
    named = _named(text, letters)
    praised = [letter for letter in named if _IS_BETTER.match(text, letter.end())]
    if praised and praised[-1][0] != own:
        end = _CLAUSE_END.search(text, praised[-1].end())
        if end is None or all(other.end() < end.end() for other in named if other[0] == own):
            return True
    return ends_in_another(text, own, letters)


def takes_back(text: str) -> bool:
    """Whether the text after a statement takes it back.

    It questions or denies it at once ("? no", "(wrong)"), or a later sentence begins to correct.
    """
    line = text.partition("\n")[0]
    return _DENIED.match(line) is not None or _CUE.search(text) is not None


def _named(text: str, letters: Collection[str]) -> list[re.Match[str]]:
    return [letter for letter in _LETTER.finditer(text) if letter[0] in letters]
