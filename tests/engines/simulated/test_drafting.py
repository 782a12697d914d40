from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated import text
from specbench.engines.simulated.drafting import Drafting, LookedUp, Tier, drafting, offers
from specbench.engines.simulated.presets import H200_6B
from specbench.engines.simulated.text import Deviation, Habits, Text

CHAINS = {"draft_model": {"code": (0.6, 0.5)}}
WORDS = Habits(reuse=0.0, stay=0.0, own=0.0, words=("a",))


def fixed(tokens: list[str]) -> Text:
    """Give an answer that says just this."""
    said = Text((), habits=WORDS, key="k", deviation=Deviation())
    said.tokens = tokens
    return said


def looked_up(prompt: str, answer: str, *, method: str = "ngram", depth: int = 3) -> LookedUp:
    how = Drafting(method=method, depth=depth)
    return LookedUp(how, (2, 3), prompt.split(), fixed(answer.split()))


def test_prompt_lookup_proposes_what_followed_the_same_words() -> None:
    found = looked_up("a b c d e f g", "x b c d e z")
    # At place 3 the text ends in "b c", which stood at 1 and was followed by d, e, f.
    assert found.at(3) == (3, 2)
    assert found.at(2) == (0, 0)


def test_the_longest_match_wins_and_of_equal_ones_the_first() -> None:
    # "b c" is followed by X first, "a b c" by Y: the longer one decides.
    longer = looked_up("b c X q a b c Y r s", "a b c Y r s")
    assert longer.at(3) == (3, 3)
    earliest = looked_up("b c X q b c Y", "k b c X q b")
    assert earliest.at(3) == (3, 3)


def test_lookup_never_finds_the_words_that_it_looks_up() -> None:
    assert looked_up("a b", "c d e f").at(2) == (0, 0)


def test_a_draft_ends_where_the_text_does() -> None:
    # "b c" ended two tokens before the end: only "b c" itself can follow.
    assert looked_up("b c", "b c b").at(2)[0] == 2


def test_the_suffix_method_drafts_no_more_than_it_matched() -> None:
    assert looked_up("p q r s t u v", "q r s t u v", method="suffix", depth=8).at(2) == (2, 2)
    assert looked_up("p q r s t u v", "q r s t u v", method="suffix", depth=8).at(3) == (3, 3)


@given(
    prompt=st.lists(st.sampled_from("abc"), max_size=12),
    answer=st.lists(st.sampled_from("abc"), min_size=1, max_size=20),
    depth=st.integers(1, 5),
    order=st.randoms(),
)
def test_lookup_agrees_with_a_plain_search(
    prompt: list[str], answer: list[str], depth: int, order: object
) -> None:
    found = LookedUp(
        Drafting(method="ngram", depth=depth), (1, 3), prompt, fixed([*answer, *"zzzzz"])
    )
    places = list(range(len(answer)))
    order.shuffle(places)  # type: ignore[attr-defined]
    for place in places:
        assert found.at(place) == searched(prompt, [*answer, *"zzzzz"], place, depth)


def searched(prompt: list[str], answer: list[str], place: int, depth: int) -> tuple[int, int]:
    """Look up by trying every n-gram at every position."""
    text_, coming = [*prompt, *answer[:place]], answer[place:]
    for size in (3, 2, 1):
        for start in range(len(text_) - size):
            if len(text_) >= size and text_[start : start + size] == text_[-size:]:
                draft = text_[start + size :][:depth]
                right = 0
                while right < len(draft) and draft[right] == coming[right]:
                    right += 1
                return len(draft), right
    return 0, 0


def test_acceptance_rates_are_those_of_the_chain() -> None:
    how = drafting({"method": "draft_model", "num_speculative_tokens": 3}, CHAINS)
    found = offers(how, prompt=(), answer=fixed([]), length=20_000, genre="code", key="k")
    accepted = [found.at(place)[1] for place in range(20_000)]
    # Survival 0.6, 0.3, 0.15 (the last value of a chain goes on), within 5 standard errors.
    for count, rate in ((1, 0.6), (2, 0.3), (3, 0.15)):
        seen = sum(one >= count for one in accepted) / 20_000
        assert seen == pytest.approx(rate, abs=5 * (rate * (1 - rate) / 20_000) ** 0.5)
    assert {found.at(place)[0] for place in range(100)} == {3}


def test_acceptance_is_seeded() -> None:
    how = drafting({"method": "draft_model", "num_speculative_tokens": 3}, CHAINS)

    def drawn(key: str) -> list[tuple[int, int]]:
        found = offers(how, prompt=(), answer=fixed([]), length=50, genre="code", key=key)
        return [found.at(place) for place in range(50)]

    assert drawn("k") == drawn("k")
    assert drawn("k") != drawn("l")


def test_code_accepts_more_than_chat_in_the_fitted_preset() -> None:
    for method in ("draft_model", "eagle"):
        chains = H200_6B.drafters[method].chains
        assert chains["code"][0] > max(chains["summary"][0], chains["chat"][0])


def test_synthetic_acceptance_has_the_mean_length_that_was_asked() -> None:
    how = drafting(
        {
            "method": "eagle",
            "num_speculative_tokens": 4,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": 2.5,
        },
        H200_6B.chains,
    )
    assert how.synthetic is not None
    assert 1 + sum(how.synthetic) == pytest.approx(2.5)
    rates = how.synthetic
    # A constant chance for each position, given those before it.
    assert rates[1] / rates[0] == pytest.approx(rates[0])


def test_synthetic_rates_are_taken_as_written_and_replace_lookup_too() -> None:
    speculation = {
        "method": "ngram",
        "num_speculative_tokens": 2,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [1.0, 0.0],
    }
    how = drafting(speculation, H200_6B.chains)
    found = offers(how, prompt=(), answer=fixed([]), length=5, genre="chat", key="k")
    assert [found.at(place) for place in range(5)] == [(2, 1)] * 5


def test_the_draft_length_follows_the_batch_size() -> None:
    speculation = {
        "method": "eagle",
        "num_speculative_tokens": 5,
        "num_speculative_tokens_per_batch_size": [[1, 4, 5], [5, 16, 2], [17, 64, 0]],
    }
    how = drafting(speculation, H200_6B.chains)
    assert how.tiers[1] == Tier(batch_size=5, depth=2)
    assert [how.depth_at(size) for size in (1, 4, 5, 16, 17, 500)] == [5, 5, 2, 2, 0, 0]


def test_left_out_bounds_of_a_lookup_copy_each_other() -> None:
    def bounds(**asked: int) -> tuple[int, int] | None:
        speculation = {"method": "ngram", "num_speculative_tokens": 3, **asked}
        return drafting(speculation, H200_6B.chains).lookup

    assert bounds() == (5, 5)
    assert bounds(prompt_lookup_max=4) == (4, 4)
    assert bounds(prompt_lookup_min=2) == (2, 2)
    assert bounds(prompt_lookup_min=2, prompt_lookup_max=4) == (2, 4)


def test_a_method_that_the_preset_does_not_know_drafts_as_a_draft_model() -> None:
    how = drafting({"method": "lookahead", "num_speculative_tokens": 3}, H200_6B.chains)
    assert how.chains == H200_6B.drafters["draft_model"].chains


def test_summaries_reuse_the_spans_of_their_prompt_and_chats_do_not() -> None:
    prompt = text.tokenize("Summarise: " + " ".join(f"word{place}" for place in range(300)))
    how = Drafting(method="ngram", depth=3, lookup=(2, 4))

    def accepted(genre: text.Genre) -> int:
        answer = Text(prompt, habits=H200_6B.habits[genre], key="k", deviation=Deviation())
        found = offers(how, prompt=prompt, answer=answer, length=200, genre=genre, key="k")
        return sum(found.at(place)[1] for place in range(200))

    assert accepted("summary") > 5 * accepted("chat")
