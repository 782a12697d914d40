from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated.prefix_cache import PrefixCache
from specbench.engines.simulated.script import blocks


def chain(tokens: str, salt: str = "") -> tuple[int, ...]:
    """Number blocks of 16 equal tokens, a letter each."""
    return blocks(tuple(letter for letter in tokens for _ in range(16)), salt)


def test_a_prompt_hits_as_far_as_it_is_held() -> None:
    cache = PrefixCache(capacity=100).store(chain("abc"))
    assert cache.hit(chain("abc")) == 3
    assert cache.hit(chain("abx")) == 2
    assert cache.hit(chain("abcde")) == 3
    assert cache.hit(chain("xbc")) == 0
    assert cache.hit(()) == 0


def test_another_salt_shares_nothing() -> None:
    cache = PrefixCache(capacity=100).store(chain("abc", "one"))
    assert cache.hit(chain("abc", "two")) == 0


def test_a_longer_prompt_takes_the_place_of_its_beginning() -> None:
    cache = PrefixCache(capacity=100).store(chain("ab")).store(chain("abcd"))
    assert cache.held == 4
    assert cache.hit(chain("abcd")) == 4


def test_two_continuations_of_one_beginning_are_both_held() -> None:
    cache = PrefixCache(capacity=100).store(chain("abc")).store(chain("abd"))
    assert (cache.hit(chain("abc")), cache.hit(chain("abd"))) == (3, 3)


def test_the_longest_unused_prompt_goes_first() -> None:
    cache = PrefixCache(capacity=4).store(chain("ab")).store(chain("cd")).store(chain("ab"))
    cache = cache.store(chain("ef"))
    assert cache.hit(chain("cd")) == 0
    assert cache.hit(chain("ab")) == 2


def test_a_cache_that_is_off_holds_nothing() -> None:
    assert PrefixCache(capacity=0).store(chain("ab")).hit(chain("ab")) == 0


@given(st.lists(st.text("ab", min_size=1, max_size=5), max_size=12), st.integers(1, 9))
def test_storing_never_changes_the_cache_before_and_never_passes_the_capacity(
    prompts: list[str], capacity: int
) -> None:
    cache = PrefixCache(capacity=capacity)
    for prompt in prompts:
        before = [cache.hit(chain(other)) for other in prompts]
        after = cache.store(chain(prompt))
        assert [cache.hit(chain(other)) for other in prompts] == before
        cache = after
        assert cache.held <= capacity
        assert cache.held == sum(len(one) for held in cache.prompts.values() for one in held)
