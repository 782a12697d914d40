from __future__ import annotations

from typing import Any

from specbench.store.families import families


def arm(method: str, **options: Any) -> dict[str, Any]:
    return {"arm": {"method": method, "options": options}}


def test_arms_that_differ_in_draft_length_alone_are_one_family() -> None:
    found = families(
        {
            "baseline": arm("baseline"),
            "draft-k2": arm("draft_model", model="d", num_speculative_tokens=2),
            "draft-k5": arm("draft_model", model="d", num_speculative_tokens=5),
        }
    )
    assert found == {
        "baseline": "baseline",
        "draft-k2": "draft_model",
        "draft-k5": "draft_model",
    }


def test_a_family_is_named_by_what_tells_it_from_others_of_its_method() -> None:
    found = families(
        {
            "a": arm("ngram", prompt_lookup_max=4, prompt_lookup_min=2, num_speculative_tokens=3),
            "b": arm("ngram", prompt_lookup_max=8, prompt_lookup_min=2, num_speculative_tokens=3),
            "c": arm("ngram", prompt_lookup_max=8, prompt_lookup_min=2, num_speculative_tokens=5),
        }
    )
    assert found == {
        "a": "ngram, prompt_lookup_max 4",
        "b": "ngram, prompt_lookup_max 8",
        "c": "ngram, prompt_lookup_max 8",
    }
