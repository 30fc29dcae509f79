"""English words around a verdict: what makes it a conclusion, and what takes its force.

For the strict reader (bon.rewarders.strict). "Before" is the sentence that leads to a statement,
"after" the rest of its sentence or of the reply.
"""

from bon.core.patterns import compiled

NOUN = r"(?:answer|response|solution|option|assistant|candidate|reply|model)"
BETTER = r"(?:better|best|preferred|preferable|superior|stronger|winner)"

# How much of a conclusion a statement is, by the words that lead to it.
FINAL = compiled(
    r"\b(?:overall|final|finally|verdict|judge?ment|decision|winner|conclusion|result)\b"
    r"|answer\s*:|<\w*answer\w*>"
)
CONCLUDING = compiled(
    r"\b(?:therefore|thus|hence|so|conclude|consequently|in sum|to sum up|all in all|in short)\b"
)
# What takes the force from a statement, in the sentence before it ...
SURE = compiled(
    r"\b(?:no doubt|without (?:a |any )?doubt|beyond (?:a |any )?doubt|no question|if anything"
    r"|if (?:i|we|one|you) (?:had|have|must|need|were forced|was forced|am forced)\b"
    r"|not surprisingly|even if|even though|not only)\b"
)
FRAMED = compiled(
    r"(?:^|[:;,(\"'-])\s*(?:if|provided|as long as|were|had|only if|when in doubt)\b|"
    r"(?:\b(?:not|never|hardly|cannot|refuse|disagree|deny|doubt|doubtful|reject|wrong|false|untrue"
    r"|incorrect|mistake|mistaken|unable|impossible|hard|difficult|unclear|unsure|uncertain|no"
    r"|neither|nothing|nobody|no one)|n't)\b(?:\W+[\w']+){0,3}?\W+"
    r"(?:say|says|saying|thinks?|believes?|claims?|concludes?|agrees?|convinced|convince|sure|clear|certain"
    r"|true|determine|decide|judge|state|argue|argued|mean|imply|case|find|see|tell|confirm|suggest"
    r"|give|write|rate|award|assign|choose|pick|prefer|recommend|call|consider|suggests|reason|evidence|support|supports|that|how|why|whether|which)\b"
    r"|\b(?:unless|whether|suppose|supposing|assuming|imagine|depending|at first|initially"
    r"|first glance|could argue|might argue|may argue|might say|could say|may say|some would"
    r"|some may|some might|some people|one might|one could|one may|tempting|tempted"
    r"|would be wrong|far from|as (?:instructed|told|asked|requested|demanded|claimed"
    r"|suggested|said|stated|written) (?:by|in))\b"
)
NEGATED = compiled(
    r"\b(?:not|never|neither|nor|no|hardly|barely|scarcely|if|either|both|without|rather than"
    r"|instead of|than|except|cannot|none|nobody|no one|false|untrue|unclear)\b|n't\b"
)
NEGATED_LABEL = compiled(r"(?:\b(?:not|never|no|neither|nor|hardly|without)|n't)\b[\s\"'(]*$")
CLAUSE = compiled(
    r"[,;:<>()]|\b(?:but|so|therefore|thus|hence|consequently|however|because|yet)\b| - "
)
JOINED = compiled(
    r"(?:\d|\b(?:one|two|a|b|first|second|both))[\])\"']*\s*(?:\bor\b|\band\b|\bnor\b|/|&|\bvs\b\.?"
    r"|\bversus\b|,\s*or\b)\s*(?:the\s+)?(?:" + NOUN + r")?\W*$"
)
TOLD = compiled(
    r"\b(?:says?|said|claims?|claimed|states?|stated|writes?|wrote|written|asserts?|asserted"
    r"|contains?|containing|includes?|including|ends?|ending|concludes? with|insists?|instructs?"
    r"|tells?|told|asks?|asked|demands?|declares?|announces?|reads|text|phrase|sentence|line"
    r"|string|words?|quotes?|quoting|quoted|prompt|instructions?|format|template|form|example"
    r"|sample|e\.g|such as|something like|supposed to|would have to)"
    r"(?:\W+(?:that|the|this|a|an|to|with|me|us|as|in|by|of|its|own|text|words?|phrase|sentence|line"
    r"|string|statement|overall|final|verdict|judge?ment|decision|score|winner|therefore|answer"
    r"|response|solution|output|write|writing|say|saying|print|give|close|finish|end"
    r"|reply|respond|put|following|it|is|are|judge|reader|boxed))*\W*$"
)
ASPECT = compiled(r"^\W*(?:in|on|for|as|regarding|with|concerning|when|while)\b[^,:]*,")
OPINION = compiled(
    r"^\W*(?:in|on|for|as|with) (?:my|our|general|all|sum|summary|conclusion|short|this|these|that"
    r"|total|the end|balance|the whole|both|every|such|a result)\b"
)
# ... and after it.
UNDONE = compiled(
    r"^\s*/\s*(?:[a-z]|[12]\b)|^\W*(?:or|nor|if|unless|only (?:if|in|when|on|for)"
    r"|as long as|provided|depending|is|isn't|was|would|should|could|seems?"
    r"|as (?:well|is)|than (?:nothing|expected|usual|before|average)|avoided|left|ignored"
    r"|said|says|claims|claimed|writes|wrote)\b"
    r"|\b(?:but|yet|though) (?:still )?(?:worse|weaker|inferior)\b|[:,-]\s*(?:no|not|false)\W*$"
    r"|^\W*(?:with )?(?:a )?(?:\w+ )?(?:tie|draw|probability|chance)\b"
    r"|^\W*(?:50\s*[/:-]\s*50|\d+\s*(?:%|percent) of)\b"
    r"|^\W*not\W*$|^\W*(?:\w+\W+){0,3}?(?:false|wrong|untrue|incorrect|nonsense|not true|a lie)\b"
    r"|\b(?:in no|by no means|not at all|under no)\b|\?\W*$"
)
PARTIAL = compiled(r"^\W*(?:in|on|at|for|with|regarding|as far as|when)\b")
SURELY = compiled(
    r"^\W*(?:in (?:all|every|my|general|this|both)|for (?:the|these|this|that)|with)\b"
)
TAKEN_BACK = compiled(
    r"^\W*(?:or|unless|if|only if|provided|as long as|depending)\b|"
    r"(?:^|[.!?\n]|\s-\s)\W*(?:wait|hmm+|actually|correction|nope|no\b\W|not\b\W*(?:$|\n)"
    r"|scratch that|strike that|on (?:second|further) thoughts?|on reflection|just kidding"
    r"|i (?:was|am) (?:wrong|mistaken)|my (?:mistake|bad|error)|oops|never ?mind|ignore|disregard"
    r"|hold on|or (?:is it|maybe|rather)|let me (?:re\w+|correct|change)|edit\b|sorry|i meant"
    r"|rather,)"
    r"|\b(?:cannot|can't|can not|could not|couldn't|unable to|impossible to|hard to|difficult to)"
    r"\s+(?:\w+\s+){0,2}?(?:decide|determine|tell|judge|choose|pick|say)\b"
    r"|\bi(?:'ve| have)? (?:take|taken|change|changed) (?:it|that|this|my)\b"
    r"|\bit(?:'s| is) a (?:tie|draw)\b|\bno clear winner\b|\bequally (?:good|bad|valid|strong)\b"
    r"|\b(?:that|this|it) (?:is|was|would be) (?:wrong|false|not true|untrue|incorrect|a lie"
    r"|not my)\b|\bi do(?:n't| not) (?:mean|agree|believe|think) (?:that|this|it|so)\b"
    r"|\bthe opposite\b|\bcorrect myself\b|\bend of (?:the )?(?:quote|text|" + NOUN + r")\b"
    r"|\bconfidence\W{1,4}(?:zero\b|0\s*(?:%|percent|/|\n|$))"
    r"|^[^.\n]*[;,]\s*(?:and |while |but |whereas )?(?:the )?" + NOUN + r"\s*(?:1|2|a|b)\s+"
    r"(?:at|in|on|for|more)\s+\w+(?:\s\w+)?\W*(?:\n|$)"
)
CLAIM = compiled(
    r"\b" + NOUN + r"\s*[#(\"'\[]*\s*(?P<n>1|2|a|b|one|two)\b[)\"'\]]*\s+"
    r"(?:(?:is|was|are|seems|remains)\b(?P<how>(?:\s+[\w']+){0,4}?)\s+(?:"
    + BETTER
    + r"|worse|weaker"
    r"|inferior)|wins|won)\b"
    r"|\b(?P<o>first|second)\s+(?:" + NOUN + r"|one)\s+"
    r"(?:(?:is|was|are|seems|remains)\b(?P<how2>(?:\s+[\w']+){0,4}?)\s+(?:"
    + BETTER
    + r"|worse|weaker"
    r"|inferior)|wins|won)\b"
    r"|\bi(?:'d| would| do)? (?:prefer|choose|pick|select|favou?r|go with|vote for)\s+(?:the\s+)?"
    r"(?:" + NOUN + r"\s*)?(?P<p>1|2|first|second|one|two)\b"
    r"|(?:^|\n)\W*(?:the )?(?:final|winner|verdict|choice|better)(?: answer| response| choice"
    r"| verdict| one)?\s*(?::|is)\s*(?:" + NOUN + r"\s*)?(?P<q>1|2|a|b|first|second|one|two)\b"
)
FENCE = compiled(r"(?:^|\n)[ \t]*(?:```|~~~)")
CANDIDATE = compiled(r"\b" + NOUN + r"\s*[#(\"'\[]*\s*(?:1|2|a|b|one|two)\b")
OPEN_TAG = compiled(r"<(/?)" + NOUN + r"[_\s-]*(?:1|2|a|b|one|two)>")
NOT = compiled(r"\b(?:not|never|no|less|hardly|neither)\b|n't\b")
WORSE = compiled(r"\b(?:worse|weaker|inferior)\b")
LABEL_BEFORE = compiled(r"([a-z][\w'-]*)[ \t]+$")
LEADS = frozenset(
    ("a", "an", "the", "my", "our", "your", "its", "this", "that", "is", "so", "therefore", "thus",
     "hence", "and", "of", "give", "giving", "assign", "overall", "final", "total", "with", "as",
     "at", "i'd")
)  # fmt: skip
OPEN_LINE = compiled(
    r"(?:,|\b(?:that|think|not|neither|nor|if|say|says|said|is|the|believe|whether|never|say:))\s*$"
)
END = compiled(r"[.!?;][\"')\]]*(?:\s|$)|\n")
