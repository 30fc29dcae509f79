"""Which licence a benchmark may carry: the strictest source decides; some cannot go together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.core.errors import BonError
from bon.exports.licences import combined_licence, licence_of

MIT, APACHE, BY = "MIT", "Apache-2.0", "CC BY 4.0"
NC, SA, NCSA = "CC BY-NC 4.0", "CC BY-SA 4.0", "CC BY-NC-SA 4.0"
OWN = "Llama 3.2 Community License"
NOTHING = "not stated"


def made_of(*names: str, wanted: str = "") -> str:
    return combined_licence({f"source {n}": licence_of(one) for n, one in enumerate(names)}, wanted)


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ((MIT, APACHE), "apache-2.0"),
        ((MIT, BY), "cc-by-4.0"),
        ((MIT, BY, NC), "cc-by-nc-4.0"),
        ((MIT, NC, OWN), "other"),
        ((MIT, SA), "cc-by-sa-4.0"),
        ((BY, NCSA, NC), "cc-by-nc-sa-4.0"),
    ],
)
def test_the_strictest_source_decides(sources: tuple[str, ...], found: str):
    assert made_of(*sources) == found
    assert made_of(*reversed(sources)) == found


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        ((MIT, NOTHING), "may not be passed on"),
        (("CC BY-ND 4.0",), "may not be passed on"),
        (("MIT; its page says research use only",), "may not be passed on"),
        ((SA, NC), "under its own licence"),
        ((SA, NCSA), "under its own licence"),
        ((SA, OWN), "under its own licence"),
        (("CC BY-SA 3.0", SA), "under its own licence"),
    ],
)
def test_mixtures_that_nobody_may_pass_on_are_refused(sources: tuple[str, ...], why: str):
    for order in (sources, sources[::-1]):
        with pytest.raises(BonError, match=why):
            made_of(*order)


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [((NC,), "cc-by-4.0"), ((BY,), "mit"), ((OWN,), "apache-2.0"), ((SA,), "cc-by-4.0")],
)
def test_what_is_wanted_may_not_permit_more_than_a_source(sources: tuple[str, ...], wanted: str):
    with pytest.raises(BonError, match="use --licence"):
        made_of(*sources, wanted=wanted)


def test_what_is_wanted_may_permit_less():
    assert made_of(MIT, BY, wanted="cc-by-nc-4.0") == "cc-by-nc-4.0"
    assert made_of(SA, wanted="CC BY-SA 4.0") == "cc-by-sa-4.0"


LICENCES = st.lists(st.sampled_from([MIT, APACHE, BY, NC, SA, NCSA, OWN, NOTHING]), min_size=1)


@given(LICENCES, st.sampled_from([MIT, APACHE, BY, NC, OWN]))
def test_another_source_never_makes_it_freer(names: list[str], more: str):
    order = ["apache-2.0", "cc-by-4.0", "cc-by-nc-4.0", "other"]

    def place(*sources: str) -> int:
        try:
            found = made_of(*sources)
        except BonError:
            return len(order)
        return order.index(found) if found in order else -1

    alone, together = place(*names), place(*names, more)
    assert together >= alone
