from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated import text
from specbench.engines.simulated.presets import H200_6B
from specbench.engines.simulated.text import Deviation, Habits, Text

PROMPT = text.tokenize("Why is the sky blue in the day and red in the evening?")
CHAT = H200_6B.habits["chat"]


def answer(key: str = "k", habits: Habits = CHAT, **deviation: float | str) -> Text:
    return Text(PROMPT, habits=habits, key=key, deviation=Deviation(**deviation))  # type: ignore[arg-type]


@given(st.text())
def test_the_tokens_of_a_text_are_the_text_again(said: str) -> None:
    assert "".join(text.tokenize(said)) == said


def test_words_are_cut_at_eight_letters_and_keep_the_space_before_them() -> None:
    assert text.tokenize("def  speculative(x):\n  y") == (
        "def",
        "  speculat",
        "ive",
        "(",
        "x",
        ")",
        ":",
        "\n  y",
    )


@pytest.mark.parametrize(
    ("said", "genre"),
    [
        ("Continue:\ndef add(a, b):", "code"),
        ("Tell me of the sea.", "chat"),
        ("Summarise this text: the import tax rose.", "summary"),
        ("```\nx = 1\n```", "code"),
    ],
)
def test_the_genre_is_read_from_the_words(said: str, genre: str) -> None:
    assert text.genre(said) == genre


def test_a_greedy_answer_is_the_same_in_every_deployment_however_it_is_read() -> None:
    one, other = answer(seed="a"), answer(seed="b")
    whole = one.between(0, 60)
    assert [token for place in range(60) for token in other.between(place, place + 1)] == whole
    assert answer(key="another model").between(0, 60) != whole


def test_an_answer_that_only_repeats_takes_every_token_from_the_prompt() -> None:
    parrot = Habits(reuse=1.0, stay=0.5, own=0.0, words=("never",))
    assert set(answer(habits=parrot).between(0, 50)) <= set(PROMPT)


def test_an_answer_that_never_repeats_takes_none() -> None:
    inventive = Habits(reuse=0.0, stay=0.5, own=0.5, words=("new",))
    assert answer(habits=inventive).between(0, 20) == [" new"] * 20


def test_noise_flips_near_ties_only_and_the_rest_is_another_text() -> None:
    plain, noisy = answer(), answer(noise_nats=0.2, seed="deployment")
    said, heard = plain.between(0, 400), noisy.between(0, 400)
    first = next(place for place in range(400) if said[place] != heard[place])
    assert noisy.rank(first) == 1
    best, second = plain.candidates(first)[0][1], plain.candidates(first)[1][1]
    assert best - second < 0.2 * 5
    assert heard[first] == plain.candidates(first)[1][0]
    assert said[first + 1 : first + 30] != heard[first + 1 : first + 30]


def test_noise_differs_between_deployments_and_not_within_one() -> None:
    heard = [answer(noise_nats=0.5, seed=seed).between(0, 300) for seed in "aab"]
    assert heard[0] == heard[1]
    assert heard[0] != heard[2]


def test_a_lossy_verifier_swaps_at_its_rate_and_far_from_a_tie() -> None:
    lossy = answer(swaps=0.05, seed="s")
    lossy.between(0, 4000)
    swapped = [place for place in range(4000) if lossy.rank(place) == 4]
    # 200 expected, with a standard deviation of 13.8.
    assert len(swapped) == pytest.approx(200, abs=5 * 13.8)
    gaps = [lossy.candidates(place)[0][1] - lossy.candidates(place)[4][1] for place in swapped]
    assert min(gaps) >= 2.3


@given(st.floats(0, 50))
def test_log_probabilities_fall_and_leave_room_for_the_rest_of_the_vocabulary(
    margin_nats: float,
) -> None:
    logprobs = text.candidate_logprobs(margin_nats)
    assert list(logprobs) == sorted(logprobs, reverse=True)
    assert logprobs[0] - logprobs[1] == pytest.approx(margin_nats)
    assert sum(map(math.exp, logprobs)) <= 1 + 1e-12


@given(st.text(min_size=1, max_size=12))
def test_candidates_are_five_different_tokens_with_the_best_first(best: str) -> None:
    found = text.candidates(best)
    assert found[0] == best
    assert len(set(found)) == 5


@given(st.text(max_size=20), st.integers(1, 500))
def test_a_natural_answer_ends_by_itself_or_at_the_cap(key: str, cap: int) -> None:
    length, reason = text.natural_length(key, cap)
    assert 1 <= length <= cap
    assert (reason == "length") == (length == cap)
