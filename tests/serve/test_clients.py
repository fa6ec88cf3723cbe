"""Public clients, unmodified."""

from typing import Any

import httpx
import openai
import pytest
from libretranslatepy import LibreTranslateAPI

from regard.front import load
from tests.serve.serving import Running, running


@pytest.fixture(scope="module")
def theirs(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_openai_lists_models(theirs: openai.OpenAI) -> None:
    assert "causal" in {model.id for model in theirs.models.list()}
    assert theirs.models.retrieve("chat").owned_by == "regard"


def test_openai_completes(theirs: openai.OpenAI, runs) -> None:
    found = theirs.completions.create(
        model="causal", prompt=["a dog", "two"], max_tokens=9, temperature=0, logprobs=1
    )
    expected = load(runs["causal"]).predict(["a dog", "two"], search="greedy", length=9)
    assert [choice.text for choice in found.choices] == expected
    assert found.choices[0].finish_reason == "length"
    assert found.choices[0].logprobs is not None
    assert found.usage is not None
    assert found.usage.completion_tokens > 0
    several = theirs.completions.create(model="causal", prompt="a", max_tokens=5, n=3, seed=2)
    assert len(several.choices) == 3


def test_openai_streams(theirs: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "causal", "prompt": "a dog", "max_tokens": 40, "seed": 4}
    whole = theirs.completions.create(**asked).choices[0].text
    pieces = [chunk.choices[0].text for chunk in theirs.completions.create(**asked, stream=True)]
    assert len(pieces) > 3
    assert "".join(pieces) == whole


def test_openai_chats(theirs: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "chat",
        "messages": [{"role": "user", "content": "1 dog"}],
        "max_completion_tokens": 12,
        "temperature": 0,
    }
    whole = theirs.chat.completions.create(**asked).choices[0].message.content
    chunks = list(theirs.chat.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")


def test_openai_embeds(theirs: openai.OpenAI) -> None:
    # Their client asks for base64 and unpacks it.
    found = theirs.embeddings.create(model="classifier", input=["a dog", "a man"])
    assert len(found.data) == 2
    assert len(found.data[0].embedding) == 16
    same = theirs.embeddings.create(model="classifier", input=["a dog"], dimensions=16)
    assert same.data[0].embedding == pytest.approx(found.data[0].embedding, abs=1e-5)
    with pytest.raises(openai.BadRequestError, match="dimensions: this model has 16") as caught:
        theirs.embeddings.create(model="classifier", input=["a dog"], dimensions=8)
    assert caught.value.param == "dimensions"


def test_openai_knows_our_errors(theirs: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        theirs.completions.create(model="none", prompt="a")
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        theirs.completions.create(model="causal", prompt="a", max_tokens=0)
    with pytest.raises(openai.BadRequestError, match="template"):
        theirs.chat.completions.create(model="causal", messages=[{"role": "user", "content": "a"}])


def test_libretranslate(server: Running, runs) -> None:
    theirs = LibreTranslateAPI(server.url)
    expected = load(runs["transformer"]).predict(["a dog runs & <b>plays</b> +1"])
    assert theirs.translate("a dog runs & <b>plays</b> +1", "source", "target") == expected[0]
    assert theirs.languages() == [{"code": "source", "name": "source", "targets": ["target"]}]
    with pytest.raises(Exception, match="400"):
        theirs.detect("what language is this")


def test_keys_in_the_body(runs, tmp_path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef somebody\n")
    with running(runs["transformer"], keys=keys) as server:
        theirs = LibreTranslateAPI(server.url, api_key="0123456789abcdef")
        assert theirs.translate("a dog", "source", "target")
        assert theirs.languages()
        with pytest.raises(Exception, match="401"):
            LibreTranslateAPI(server.url, api_key="0123456789abcdeX").languages()
        mine = openai.OpenAI(base_url=f"{server.url}/v1", api_key="0123456789abcdef")
        assert [model.id for model in mine.models.list()] == ["transformer"]
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong").models.list()


def test_openai_values_that_change_nothing_are_no_mistake(theirs: openai.OpenAI) -> None:
    """Programs send them with every request."""
    usual: dict[str, Any] = {"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}}
    asked: dict[str, Any] = {"model": "causal", "prompt": "a dog", "max_tokens": 5, "seed": 1}
    plain = theirs.completions.create(**asked)
    found = theirs.completions.create(**asked, **usual, best_of=1, suffix="", echo=True)
    assert found.choices[0].text == "a dog" + plain.choices[0].text
    with pytest.raises(openai.BadRequestError, match="frequency_penalty"):
        theirs.completions.create(**asked, frequency_penalty=0.5)
    parts: Any = [{"type": "text", "text": "1 "}, {"type": "text", "text": "dog"}]
    said = [
        theirs.chat.completions.create(
            model="chat",
            messages=[
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": content},
            ],
            max_tokens=6,
            temperature=0,
            **usual,
        )
        .choices[0]
        .message.content
        for content in (parts, "1 dog")
    ]
    assert said[0] == said[1]
    asked = {"model": "chat", "messages": [{"role": "user", "content": "1 dog"}], "max_tokens": 6}
    plain = theirs.chat.completions.create(**asked, temperature=0).choices[0].message.content
    more: dict[str, Any] = {
        "response_format": {"type": "text"},
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "modalities": ["text"],
        "metadata": {"customer": "7"},
        "store": False,
        "top_logprobs": 0,
    }
    found = theirs.chat.completions.create(**asked, temperature=0, **more)
    assert found.choices[0].message.content == plain
    others: list[tuple[str, Any]] = [
        ("response_format.type", {"response_format": {"type": "json_object"}}),
        ("tool_choice", {"tool_choice": "required"}),
        ("modalities.0", {"modalities": ["audio"]}),
        ("store", {"store": True}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 2}),
    ]
    for named, keys in others:
        with pytest.raises(openai.BadRequestError) as caught:
            theirs.chat.completions.create(**asked, **keys)
        assert caught.value.param == named
    picture: Any = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    with pytest.raises(openai.BadRequestError):
        theirs.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": picture}], max_tokens=6
        )


def test_openai_echoes_in_a_stream(theirs: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "causal", "prompt": "a dog", "max_tokens": 9, "seed": 4}
    whole = theirs.completions.create(**asked, echo=True).choices[0]
    chunks = [
        chunk.choices[0] for chunk in theirs.completions.create(**asked, echo=True, stream=True)
    ]
    assert chunks[0].text == "a dog"
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert chunks[-1].finish_reason == whole.finish_reason


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"stream": True, "logprobs": 1}, "logprobs"),
        ({"echo": True, "logprobs": 0}, "logprobs"),
        ({"stream": True, "n": 2}, "stream"),
        ({"max_tokens": 99_999}, "max_tokens"),
        ({"n": 99}, "n"),
        ({"n": 99, "temperature": 0}, "n"),
        ({"n": 2, "best_of": 3}, "best_of"),
        ({"stream": True, "stream_options": {"other": True}}, "stream_options.other"),
    ],
)
def test_openai_refuses_by_the_name_that_was_sent(
    keys: dict[str, Any], named: str, theirs: openai.OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        theirs.completions.create(model="causal", prompt="a dog", **keys)
    assert caught.value.param == named
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["message"].startswith(f"{named}: ")


def test_openai_refuses_by_the_name_that_was_sent_in_chats(theirs: openai.OpenAI) -> None:
    asked: Any = {"model": "chat", "messages": [{"role": "user", "content": "1 dog"}]}
    for keys, named in (
        ({"max_completion_tokens": 99_999}, "max_completion_tokens"),
        ({"max_tokens": 99_999}, "max_tokens"),
        ({"stream": True, "logprobs": True}, "logprobs"),
    ):
        with pytest.raises(openai.BadRequestError, match=f"{named}: ") as caught:
            theirs.chat.completions.create(**asked, **keys)
        assert caught.value.param == named


def test_openai_gives_as_many_choices_as_are_asked_for(theirs: openai.OpenAI) -> None:
    """Greedy search has but one output: all are equal."""
    asked: dict[str, Any] = {"prompt": ["a", "two"], "max_tokens": 5, "temperature": 0}
    one = theirs.completions.create(model="causal", **asked)
    found = theirs.completions.create(model="causal", n=3, best_of=3, logprobs=0, **asked)
    texts = [choice.text for choice in one.choices for _ in range(3)]
    assert [choice.text for choice in found.choices] == texts
    assert [choice.index for choice in found.choices] == [*range(6)]
    assert one.usage is not None
    assert found.usage is not None
    assert found.usage.completion_tokens == 3 * one.usage.completion_tokens


def test_openai_log_probs_are_of_each_choice(theirs: openai.OpenAI, runs) -> None:
    predictor = load(runs["causal"])
    found = theirs.completions.create(
        model="causal", prompt="a dog", max_tokens=6, n=3, seed=2, logprobs=1
    )
    how: dict[str, Any] = {"search": "sample", "seed": 2, "nbest": 3, "length": 6}
    [expected] = predictor.predictions(["a dog"], **how)
    assert len({choice.text for choice in found.choices}) > 1
    for choice, wanted in zip(found.choices, expected.alternatives, strict=True):
        said = choice.logprobs
        assert said is not None
        assert said.tokens is not None
        assert said.token_logprobs is not None
        assert choice.text == wanted["text"] == "".join(said.tokens)
        assert said.text_offset == [len("".join(said.tokens[:n])) for n in range(len(said.tokens))]
        assert said.token_logprobs == pytest.approx(
            wanted["log_probs"][: len(said.tokens)], abs=1e-4
        )


def test_openai_says_why_each_choice_is_over(theirs: openai.OpenAI, runs) -> None:
    """A run of dialogues has an end that some draws reach."""
    found = theirs.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "1 dog"}],
        max_tokens=16,
        n=16,
        seed=3,
        logprobs=True,
        temperature=2,
    )
    reasons = [choice.finish_reason for choice in found.choices]
    assert {*reasons} == {"stop", "length"}
    for choice in found.choices:
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        said = [each.token for each in choice.logprobs.content]
        assert choice.message.content == "".join(said)
        assert (choice.finish_reason == "length") == (len(said) == 16)


def test_openai_log_probs_end_with_the_text(theirs: openai.OpenAI) -> None:
    """A stop string begins where it likes: what stands before it is kept of the token."""
    asked: dict[str, Any] = {"model": "causal", "prompt": "a dog", "max_tokens": 40, "seed": 4}
    whole = theirs.completions.create(**asked).choices[0].text
    stop = whole[len(whole) // 2 :][:3]
    [choice] = theirs.completions.create(**asked, stop=stop, logprobs=1).choices
    assert choice.finish_reason == "stop"
    assert choice.text == whole[: whole.index(stop)]
    assert choice.logprobs is not None
    assert choice.logprobs.tokens is not None
    assert "".join(choice.logprobs.tokens) == choice.text


def test_libretranslate_refuses_by_the_name_that_was_sent(client: httpx.Client) -> None:
    body = {"q": "a dog", "source": "source", "target": "target", "alternatives": 99}
    found = client.post("/translate", json=body)
    assert found.status_code == 400
    assert found.json()["error"] == "alternatives: at most 15"
