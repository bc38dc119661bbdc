"""Run in the environment of clients_slow_test.py: langchain_client.py URL."""

import sys

from langchain_openai import ChatOpenAI, OpenAI

COMMON = {"base_url": sys.argv[1] + "/v1", "api_key": "k", "model": "tiny", "max_tokens": 8, "temperature": 0, "max_retries": 0}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}

chat = ChatOpenAI(**COMMON)
whole = chat.invoke("hello")
assert whole.usage_metadata["output_tokens"] <= 8
assert "".join(chunk.content for chunk in chat.stream("hello")) == whole.content
assert chat.bind_tools([TOOL]).invoke("hello").response_metadata["finish_reason"] in ("stop", "length")
assert isinstance(OpenAI(**COMMON).invoke("hello"), str)
print("all good")
