"""Run in the environment of openai_client_test.py: openai_client.py URL."""

import asyncio
import sys

import openai

URL = sys.argv[1] + "/v1"
MESSAGES = [{"role": "user", "content": "hello world"}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


def make(kind=openai.OpenAI, **more):
    return kind(base_url=URL, api_key="secret", timeout=400, **({"max_retries": 0} | more))


def whole_and_streamed(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    fields = {"model": "tiny", "messages": MESSAGES, "max_tokens": 8, "temperature": 0, "extra_body": {"ignore_eos": True}}
    whole = client.chat.completions.create(**fields)
    assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 8
    assert whole._request_id
    chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **fields))
    content = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert content == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == 8 and not chunks[-1].choices
    scored = client.chat.completions.create(logprobs=True, top_logprobs=2, **fields).choices[0].logprobs.content
    assert len(scored) == 8 and all(len(entry.top_logprobs) == 2 for entry in scored)
    assert client.chat.completions.create(tools=TOOLS, **fields).choices[0].message.role == "assistant"
    text = client.completions.create(model="tiny", prompt=["hello", "world"], max_tokens=4, echo=True, logprobs=1)
    assert len(text.choices) == 2 and text.choices[1].text.startswith("world")
    assert len(text.choices[0].logprobs.tokens) == len(text.choices[0].logprobs.token_logprobs)


def refusals(client):
    def refused(kind, **fields):
        try:
            client.chat.completions.create(**({"model": "tiny", "messages": MESSAGES} | fields))
        except kind as error:
            return error
        raise AssertionError(f"accepted: {fields}")

    assert refused(openai.BadRequestError, temperature=-1).param == "temperature"
    assert refused(openai.NotFoundError, model="other").param == "model"
    too_long = refused(openai.BadRequestError, messages=[{"role": "user", "content": "x y " * 4000}])
    assert "maximum context length" in too_long.message
    assert refused(openai.BadRequestError, response_format={"type": "json_object"}).param == "response_format"
    try:
        openai.OpenAI(base_url=URL, api_key="wrong", max_retries=0).models.list()
    except openai.AuthenticationError as error:
        assert "API key" in error.message, error.message
    else:
        raise AssertionError("a wrong key was taken")


def cancels_in_mid_stream(client):
    stream = client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, max_tokens=1500, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()


async def many_at_once():
    async with make(openai.AsyncOpenAI) as client:

        async def one(i):
            stream = await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": f"hello {i}"}], stream=True, max_tokens=6
            )
            return [chunk async for chunk in stream]

        answers = await asyncio.gather(*(one(i) for i in range(12)))
        assert all(chunks[-1].choices[0].finish_reason in ("stop", "length") for chunks in answers)


client = make()
whole_and_streamed(client)
refusals(client)
cancels_in_mid_stream(client)
asyncio.run(many_at_once())
print("all good")
