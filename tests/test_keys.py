"""Keys and seeds: what they depend on, and that they are what they have always been."""

import hashlib
import json
import pickle

from hypothesis import given
from hypothesis import strategies as st

from bon.core.keys import content_key, item_seed
from bon.core.records import Candidate, Judgement
from bon.dispatch.worker import JudgeTask, Reply
from bon.engines.base import ImagePart, Message
from bon.policies.generate import Ask
from bon.rewarders.base import Item

PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(PARTS, max_size=5))
def test_a_key_is_the_hash_of_the_parts_as_json(parts):
    text = json.dumps(tuple(parts), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    plain = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    assert content_key(*parts) == plain


def test_keys_are_the_same_everywhere():
    assert content_key("candidate", "a" * 24, "\ud800é\n", 3) == "4462f93a525a47fc43a53ce2"
    assert item_seed("s", ("x", "y")) == 1017425937


def test_what_crosses_ray_comes_back_as_it_was():
    candidate = Candidate("k", "q", "p", "s", 0, "text", "t", "A", "parsed", 7, logprob=-0.5)
    judgement = Judgement("k", "r", "s", "pair", "i", "a", None, 0, "chosen", 1, shown=("a", "b"))
    image = ImagePart("abc", b"\x00\xff")
    item = Item("question", "q", "what?", (image,), {"a": "one"})
    ask = Ask("q", (Message("user", (image, "what?")),), ("1", "2"), (0, 1))
    for row in (candidate, judgement, image, item, ask, JudgeTask(item, (judgement,), 2)):
        back = pickle.loads(pickle.dumps(row))
        assert back == row
        assert type(back) is type(row)
    for reply in (Reply((candidate, candidate), (judgement,), {"a": 1}), Reply(failure="gone")):
        assert pickle.loads(pickle.dumps(reply)) == reply
