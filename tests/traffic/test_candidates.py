from __future__ import annotations

from specbench.traffic.candidates import candidates
from specbench.traffic.exchange import Exchange
from specbench.traffic.requests import TimedRequest
from specbench.traffic.server_events import Event, decode

STEP = (
    b'{"choices":[{"index":0,"delta":{"content":"ab"},"logprobs":{"content":['
    b'{"token":"token_id:7","logprob":-0.25,"bytes":[97],"top_logprobs":['
    b'{"token":"token_id:7","logprob":-0.25,"bytes":[97]},'
    b'{"token":"token_id:9","logprob":-1.5,"bytes":[98]},'
    b'{"token":"token_id:3","logprob":-12.0,"bytes":[99]}]},'
    b'{"token":"token_id:8","logprob":-0.9,"bytes":[98],"top_logprobs":['
    b'{"token":"token_id:8","logprob":-0.9,"bytes":[98]},'
    b'{"token":"token_id:2","logprob":-0.775,"bytes":[98]}]}]},'
    b'"finish_reason":null,"token_ids":[7,8]}]}'
)
"""One speculative step of two tokens, in the shape that vLLM 0.32.0 streams it."""


def exchange() -> Exchange:
    request = TimedRequest(request_id="r", index=0, prompt_id="p", pass_index=0, wire=b"")
    return Exchange(request, lambda _: None, 0)


def taken(*events: Event) -> Exchange:
    whole = exchange()
    whole.take_all(events, range(1, len(events) + 1))
    return whole


def test_candidates_lie_behind_the_likeliest_and_far_ones_are_dropped() -> None:
    said = decode(STEP).choices[0].logprobs  # type: ignore[index]
    # Behind -0.25: 1.25, and 11.75 which is beyond 10. The token chosen second was no likeliest.
    assert candidates(said) == [((7, 0.0), (9, 1.25)), ((2, 0.0), (8, 0.125))]  # type: ignore[arg-type]


def test_an_output_holds_the_candidates_of_all_its_events_on_either_way_in() -> None:
    first = decode(b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}')
    for whole in (taken(first, decode(STEP), decode(STEP)), taken(decode(STEP), decode(STEP))):
        output = whole.output()
        assert list(output.token_ids or ()) == [7, 8, 7, 8]
        assert len(output.candidates or ()) == 4
        assert output.text == "abab"


def test_without_log_probabilities_there_are_no_candidates() -> None:
    plain = decode(b'{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":null}]}')
    assert taken(plain, plain).output().candidates is None


def test_tokens_named_by_text_give_none() -> None:
    said = decode(STEP.replace(b"token_id:", b"t")).choices[0].logprobs  # type: ignore[index]
    assert candidates(said) == [(), ()]  # type: ignore[arg-type]
