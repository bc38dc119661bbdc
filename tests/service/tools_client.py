"""Run in the environment of openai_client_test.py: tools_client.py URL. One round of an agent: ask, call, answer."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", timeout=400, max_retries=0)
TOOLS = [
    {"type": "function", "function": {"name": "look", "strict": True, "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
FIELDS = {"model": "tiny", "tools": TOOLS, "temperature": 0, "max_tokens": 200}


def streamed(messages):
    """(content, calls, finish_reason), joined as the package's own examples do."""
    content, calls, finish = "", {}, None
    for chunk in client.chat.completions.create(messages=messages, stream=True, **FIELDS):
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            if call.index not in calls:
                calls[call.index] = call
            else:
                calls[call.index].function.arguments += call.function.arguments
        finish = choice.finish_reason or finish
    return content, [calls[index] for index in sorted(calls)], finish


messages = [{"role": "user", "content": "<|both|>"}]
answer = client.chat.completions.create(messages=messages, **FIELDS).choices[0]
assert answer.finish_reason == "tool_calls", answer
assert answer.message.reasoning_content == "Two calls, 9.8." and answer.message.content == "I look.", answer
assert [call.function.name for call in answer.message.tool_calls] == ["look", "now"]
assert json.loads(answer.message.tool_calls[0].function.arguments)["city"] == "Paris \U0001f600"

content, calls, finish = streamed(messages)
assert content == "I look." and finish == "tool_calls"
assert [(c.function.name, c.function.arguments) for c in calls] == [
    (c.function.name, c.function.arguments) for c in answer.message.tool_calls
]

with client.chat.completions.stream(messages=messages, **(FIELDS | {"tools": TOOLS[1:]})) as stream:
    kept = stream.get_final_completion().choices[0].message
assert [call.function.name for call in kept.tool_calls] == ["look", "now"]

messages.append(answer.message.model_dump(exclude_none=True))
for call, result in zip(answer.message.tool_calls, ("9.8", "<|sunny|>")):
    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
final = client.chat.completions.create(messages=messages, **FIELDS).choices[0]
assert final.finish_reason == "stop" and final.message.content == "It is 9.8 °C in Paris.", final
assert not final.message.tool_calls
print("all good")
