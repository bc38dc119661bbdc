"""Run in the environment of clients_slow_test.py: lm_eval_client.py URL. The tokenizer is the server's own."""

import json
import sys
import urllib.request

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

URL = sys.argv[1]


def instances(kind, *arguments):
    return [Instance(request_type=kind, doc={}, arguments=each, idx=0) for each in arguments]


def score(context, continuation):
    """The same from one plain request."""
    body = {"prompt": context + continuation, "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0,
            "add_special_tokens": False}  # fmt: skip
    request = urllib.request.Request(URL + "/v1/completions", json.dumps(body).encode())
    scores = json.load(urllib.request.urlopen(request))["choices"][0]["logprobs"]
    first = next(i for i, offset in enumerate(scores["text_offset"]) if offset >= len(context))
    return sum(scores["token_logprobs"][first:-1])


model = LocalCompletionsAPI(model="tiny", base_url=URL + "/v1/completions", tokenizer_backend="remote", num_concurrent=4,
                            max_retries=1, batch_size=2)  # fmt: skip
pairs = [("hello", " world"), ("the cat sat", " on the mat"), ("a", " b c d")]
for (context, continuation), (logprob, greedy) in zip(pairs, model.loglikelihood(instances("loglikelihood", *pairs))):
    assert abs(logprob - score(context, continuation)) < 1e-3, (logprob, score(context, continuation))
    assert isinstance(greedy, bool)
(rolling,) = model.loglikelihood_rolling(instances("loglikelihood_rolling", ("hello world hello",)))
assert rolling < 0
(text,) = model.generate_until(instances("generate_until", ("hello", {"until": ["\n"], "max_gen_toks": 8})))
assert text and "\n" not in text

chat = LocalChatCompletion(model="tiny", base_url=URL + "/v1/chat/completions", num_concurrent=4, max_retries=1)
messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
limits = {"until": ["\n"], "max_gen_toks": 8, "temperature": 0}
asked = instances("generate_until", *[(chat.apply_chat_template(messages), limits)] * 4)
answers = chat.generate_until(asked)
body = {"messages": messages, "max_tokens": 8, "temperature": 0, "stop": ["\n"], "seed": 1234}
request = urllib.request.Request(URL + "/v1/chat/completions", json.dumps(body).encode())
assert answers == [json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]] * 4, answers
print("all good")
