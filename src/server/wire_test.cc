#include <gtest/gtest.h>

#include "server/test_words.h"
#include "server/wire_chat.h"
#include "server/wire_completions.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

OrderedJson json(const std::string& text) {
  Body body = parse_body(text);
  EXPECT_FALSE(body.error) << body.error->message;
  return body.json;
}

const std::string kHi = R"("messages":[{"role":"user","content":"hi"}])";

SpecResult chat(const std::string& fields) { return read_chat_request(json("{" + fields + "}"), test_words()); }
SpecResult complete(const std::string& fields) {
  return read_completion_request(json("{" + fields + "}"), test_words());
}
std::string prompt_of(const SpecResult& result) {
  EXPECT_FALSE(result.error) << result.error->message;
  return result.error ? "" : text_of(test_words(), result.spec.prompts.at(0).ids);
}

TEST(Wire, NullAndUnknownFieldsAreAbsent) {
  const SpecResult result = chat(
      kHi + R"(,"model":null,"seed":null,"stream":null,"stop":null,"tools":null,"response_format":null,"logprobs":null,
      "temperature":null,"num_ctx":4096,"store":true,"metadata":{"a":1},"service_tier":"auto","vllm_xargs":{"x":{}},
      "no_stop_trim":true,"separate_reasoning":true,"kv_transfer_params":{},"structured_outputs":null,"n":null)");
  ASSERT_FALSE(result.error) << result.error->message;
  EXPECT_EQ(result.spec.model, "tiny");
  EXPECT_EQ(result.spec.sampling.n, 1);
  EXPECT_EQ(result.spec.sampling.max_tokens, 0) << "as many as the context holds";
  EXPECT_FALSE(result.spec.stream);
}

TEST(Wire, SamplingIsReadWhole) {
  const SpecResult result =
      chat(kHi + R"(,"temperature":0,"top_p":0.5,"top_k":-1,"min_p":0.1,"repetition_penalty":1.1,"presence_penalty":-1,
      "frequency_penalty":0.5,"seed":-3,"n":2,"stop":["a","b"],"stop_token_ids":[7],"include_stop_str_in_output":true,
      "logit_bias":{"5":-100,"6":2.5},"min_tokens":1,"ignore_eos":true,"logprobs":true,"top_logprobs":4,
      "max_tokens":9,"max_completion_tokens":8,"priority":3,"cache_salt":"s","request_id":"r1","stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true})");
  ASSERT_FALSE(result.error) << result.error->message;
  const SamplingParams& s = result.spec.sampling;
  EXPECT_EQ(s.temperature, 0.0f);
  EXPECT_EQ(s.top_p, 0.5f);
  EXPECT_EQ(s.top_k, -1);
  EXPECT_EQ(s.min_p, 0.1f);
  EXPECT_EQ(s.repetition_penalty, 1.1f);
  EXPECT_EQ(s.presence_penalty, -1.0f);
  EXPECT_EQ(s.frequency_penalty, 0.5f);
  EXPECT_EQ(s.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(s.n, 2);
  EXPECT_EQ(s.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.stop_token_ids, std::vector<std::int32_t>{7});
  EXPECT_TRUE(s.include_stop);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<std::int32_t, float>>{{5, -100.0f}, {6, 2.5f}}));
  EXPECT_EQ(s.min_tokens, 1);
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(s.max_tokens, 8) << "max_completion_tokens goes first";
  EXPECT_EQ(result.spec.logprobs, 4);
  EXPECT_EQ(result.spec.priority, 3);
  EXPECT_EQ(result.spec.cache_salt, "s");
  EXPECT_EQ(result.spec.id, "r1");
  EXPECT_TRUE(result.spec.stream && result.spec.include_usage && result.spec.continuous_usage);
  EXPECT_EQ(chat(kHi + R"(,"logprobs":true)").spec.logprobs, 0) << "no best ones beside the token";
  EXPECT_EQ(chat(kHi + R"(,"stop":"x")").spec.sampling.stop, std::vector<std::string>{"x"});
}

TEST(Wire, WrongValuesNameTheirField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temperature":"hot")", "temperature"},
      {R"("top_k":1.5)", "top_k"},
      {R"("n":"2")", "n"},
      {R"("n":99999999999)", "n"},
      {R"("stream":"yes")", "stream"},
      {R"("stop":5)", "stop"},
      {R"("stop":["a",1])", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":[""])", "stop"},
      {R"("stop_token_ids":["a"])", "stop_token_ids"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logprobs":5)", "logprobs"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("model":7)", "model"},
      {R"("model":"gpt-x")", "model"},
      {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
      {R"("structured_outputs":{"regex":"a"})", "structured_outputs"},
      {R"("guided_json":{"type":"object"})", "guided_json"},
      {R"("bad_words":["x", 1])", "bad_words"},
      {R"("bad_words":[" "])", "bad_words"},
      {R"("bad_words":"x")", "bad_words"},
      {R"("allowed_token_ids":[])", "allowed_token_ids"},
      {R"("allowed_token_ids":["a"])", "allowed_token_ids"},
      {"\"request_id\":\"" + std::string(257, 'a') + "\"", "request_id"},
      {R"("request_id":"a\r\nb")", "request_id"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":101)", "truncate_prompt_tokens"},
      {R"("thinking_token_budget":5)", "thinking_token_budget"},
      {R"("chat_template":"{{ 1 }}")", "chat_template"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")", "tool_choice"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}})",
       "tool_choice"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tools":{})", "tools"},
      {R"("tools":[{"type":"x","function":{"name":"f"}}])", "tools"},
      {R"("tools":[{"type":"function","function":{"name":""}}])", "tools"},
      {R"("tools":[{"type":"function","function":{"name":"f","description":5}}])", "tools"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":"x"}}])", "tools"},
      {R"("tools":[{"type":"function","function":{"name":"f","strict":"x"}}])", "tools"},
      {R"("tool_choice":"auto")", "tool_choice"},
      {R"("tools":[],"tool_choice":"x")", "tool_choice"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("function_call":{"name":"f"})", "function_call"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("modalities":"text")", "modalities"},
      {R"("reasoning_effort":"zzz")", "reasoning_effort"},
      {R"("documents":[null])", "documents"},
      {R"("response_format":{})", "response_format.type"},
      {R"("logit_bias":{"05":1})", "logit_bias"},
      {R"("logit_bias":{"5":"x"})", "logit_bias"},
      {R"("return_token_ids":1)", "return_token_ids"},
      {R"("chat_template_kwargs":[1])", "chat_template_kwargs"},
  };
  for (const auto& [fields, param] : cases) {
    const SpecResult result = chat(kHi + "," + fields);
    ASSERT_TRUE(result.error) << fields;
    EXPECT_EQ(result.error->param, param) << fields;
    EXPECT_EQ(result.error->status, param == "model" && fields.find("gpt-x") != std::string::npos ? 404 : 400);
  }
  EXPECT_EQ(chat(kHi + R"(,"model":"gpt-x")").error->message,
            "The model `gpt-x` does not exist. Served here: `tiny`, `other`.");
}

TEST(Wire, DamagedMessagesAreRefused) {
  for (const char* messages :
       {"[]", "{}", "\"hi\"", "[1]", R"([{"content":"x"}])", R"([{"role":"robot","content":"x"}])",
        R"([{"role":"user","content":5}])", R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
        R"([{"role":"user","content":[{"type":"text"}]}])", R"([{"role":"assistant","tool_calls":[{}]}])",
        R"([{"role":"tool","content":"x","tool_call_id":5}])", R"([{"role":"user"}])", R"([{"role":"tool"}])",
        R"([{"role":"user","content":"x","tool_calls":5}])",
        R"([{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}])",
        R"([{"role":"assistant","tool_calls":[{"id":5,"function":{"name":"f"}}]}])",
        R"([{"role":"assistant","tool_calls":[{"type":"x","function":{"name":"f"}}]}])",
        R"([{"role":"assistant","tool_calls":[{"function":{"name":""}}]}])",
        R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}])"}) {
    const SpecResult result = chat("\"messages\":" + std::string(messages));
    ASSERT_TRUE(result.error) << messages;
    EXPECT_EQ(result.error->param, "messages") << messages;
  }
  EXPECT_EQ(chat("\"model\":\"tiny\"").error->param, "messages");
}

TEST(Wire, ErrorsSayWhatIsWrongAndWhere) {
  const auto of_chat = [](const std::string& fields) { return chat(fields).error->message; };
  const auto of_messages = [&](const std::string& list) { return of_chat("\"messages\":" + list); };
  EXPECT_EQ(of_messages(R"([{"role":"user","content":[{"text":"a"}]}])"),
            "messages[0].content[0].type is missing: \"text\"");
  EXPECT_EQ(of_messages(R"([{"role":"user","content":"a"},{"role":"tool"}])"), "messages[1].content is missing");
  EXPECT_EQ(of_messages(R"([{"role":"assistant","tool_calls":[{"id":5}]}])"),
            "messages[0].tool_calls[0].id must be a string, but is 5");
  EXPECT_EQ(of_chat(kHi + R"(,"logit_bias":{" 5":1})"),
            "logit_bias has the key \" 5\", which is no token id: those are written as in \"42\"");
  EXPECT_EQ(of_chat(kHi + R"(,"stop":["a",5])"), "stop[1] must be a string, but is 5");
  EXPECT_EQ(of_chat(kHi + R"(,"tools":[{"function":{"name":"f","parameters":"x"}}])"),
            "tools[0].function.parameters must be an object, but is \"x\"");
  EXPECT_EQ(complete(R"("prompt":["a",""])").error->message, "prompt[1] is empty: it needs at least one token");
  EXPECT_EQ(complete(R"("prompt":["a",5])").error->message,
            "prompt[1] must be a text or a list of token ids, but is 5");
  EXPECT_EQ(complete(R"("prompt":[[1],[-1]])").error->message.substr(0, 18), "prompt[1] holds -1");
  const Body large = parse_body(R"({"model": "1e400:", "logit_bias": {"temperature": 1e400}, "n": 1})");
  ASSERT_TRUE(large.error);
  EXPECT_EQ(large.error->param, "logit_bias");
  EXPECT_EQ(large.error->message, "logit_bias holds a number that is too large: 1e400");
}

TEST(Wire, ARequestsOwnTemplateIsBlamedForItsFaults) {
  Words words = test_words();
  words.trust_request_template = true;
  for (const char* own : {"{% if", "{{ raise_exception('no') }}"}) {
    const SpecResult result = read_chat_request(json("{" + kHi + ",\"chat_template\":\"" + own + "\"}"), words);
    ASSERT_TRUE(result.error) << own;
    EXPECT_EQ(result.error->param, "chat_template") << own;
  }
}

TEST(Wire, WhatChangesNothingIsAccepted) {
  for (const char* fields :
       {R"("tools":[],"tool_choice":"auto")", R"("tool_choice":"none")", R"("modalities":["text"])",
        R"("functions":[])", R"("function_call":"auto")", R"("tools":[{"function":{"name":"f","parameters":null}}])",
        R"("reasoning_effort":"high")", R"("length_penalty":2)", R"("spaces_between_special_tokens":false)"}) {
    const SpecResult result = chat(kHi + "," + fields);
    EXPECT_FALSE(result.error) << fields << ": " << result.error->message;
  }
  EXPECT_FALSE(
      chat(R"("messages":[{"role":"user","content":null},{"role":"assistant"},{"role":"tool","content":""}])").error);
}

TEST(Wire, MessagesBecomeWhatTemplatesKnow) {
  EXPECT_EQ(prompt_of(chat(R"("messages":[{"role":"developer","content":"a"},{"role":"user","content":
      [{"type":"text","text":"b"},{"type":"text","text":"c"}],"name":"me"}])")),
            "[system]a[user]b\nc[assistant]");
  EXPECT_EQ(
      prompt_of(chat(R"("messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"refusal":null,
      "tool_calls":[{"type":"function","id":"c1","function":{"arguments":"{\"b\": 1, \"a\": 2}","name":"f"}}]},
      {"role":"tool","tool_call_id":"c1","content":"r"}],"add_generation_prompt":false)")),
      "[user]q[assistant]<f:{\"b\": 1, \"a\": 2}>[tool]r")
      << "arguments are an object with its keys in order";
  EXPECT_EQ(prompt_of(chat(kHi + R"(,"chat_template_kwargs":{"enable_thinking":true})")), "[user]hithink[assistant]");
  EXPECT_EQ(prompt_of(chat(R"("messages":[{"role":"assistant","content":" go on"}],"continue_final_message":true,
      "add_generation_prompt":false)")),
            "[assistant] go on");
  EXPECT_EQ(prompt_of(chat(kHi + R"(,"tools":[{"type":"function","function":{"strict":true,"name":"f"}}],
      "tool_choice":"auto","parallel_tool_calls":false)")),
            R"([user]hi[{"type": "function", "function": {"strict": true, "name": "f"}}][assistant])");
}

TEST(Wire, ToolsSayHowTheAnswerIsRead) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f","strict":true}}])";
  Words words = test_words();
  words.formats = {CallFormat::tagged, ReasoningFormat::tags};
  const auto plan = [&](const std::string& fields) {
    const SpecResult result = read_chat_request(json("{" + kHi + fields + "}"), words);
    EXPECT_FALSE(result.error) << result.error->message;
    return result.spec.answer;
  };
  EXPECT_EQ(plan("").calls, CallFormat::none) << "nothing to call";
  EXPECT_EQ(plan("").reasoning, ReasoningFormat::tags);
  EXPECT_EQ(plan(tools).calls, CallFormat::tagged);
  EXPECT_FALSE(plan(tools).single_call);
  EXPECT_TRUE(plan(tools + R"(,"tool_choice":"auto","parallel_tool_calls":false)").single_call);
  EXPECT_EQ(plan(tools + R"(,"tool_choice":"none")").calls, CallFormat::none);
  EXPECT_EQ(prompt_of(chat(kHi + tools + R"(,"tool_choice":"none")")), "[user]hi[assistant]") << "not shown either";
  EXPECT_TRUE(plan("").include_reasoning);
  EXPECT_FALSE(plan(R"(,"include_reasoning":false)").include_reasoning);
  EXPECT_EQ(plan("").think, ThinkStart::unknown);
  EXPECT_EQ(plan(R"(,"continue_final_message":true,"add_generation_prompt":false)").think, ThinkStart::closed);
  EXPECT_TRUE(plan("").plain() == false && chat(kHi).spec.answer.plain());
  words.special_marks = true;
  EXPECT_FALSE(read_chat_request(json("{" + kHi + "}"), words).spec.skip_special) << "marks must be seen";
}

TEST(Wire, ReasoningIsBoundedWhereItStandsBetweenTags) {
  Words words = test_words();
  const auto bound = [&](ReasoningFormat format, const std::string& fields) {
    words.formats = {CallFormat::none, format};
    return read_chat_request(json("{" + kHi + fields + "}"), words);
  };
  const std::string five = R"(,"thinking_token_budget":5)";
  const auto reasoning = bound(ReasoningFormat::tags, five).spec.sampling.reasoning;
  ASSERT_TRUE(reasoning);
  EXPECT_EQ(text_of(words, reasoning->begin), "<think>");
  EXPECT_EQ(text_of(words, reasoning->end), "</think>");
  EXPECT_EQ(reasoning->tokens, 5);
  EXPECT_FALSE(reasoning->open);
  EXPECT_TRUE(bound(ReasoningFormat::tags_opened, five).spec.sampling.reasoning->open);
  EXPECT_FALSE(bound(ReasoningFormat::tags, "").spec.sampling.reasoning);
  EXPECT_FALSE(bound(ReasoningFormat::tags, R"(,"thinking_token_budget":null)").spec.sampling.reasoning);
  const std::string closed = R"(,"continue_final_message":true,"add_generation_prompt":false)";
  EXPECT_FALSE(bound(ReasoningFormat::tags, five + closed).spec.sampling.reasoning) << "there is none";
  EXPECT_EQ(bound(ReasoningFormat::tags, R"(,"thinking_token_budget":-1)").error->param, "thinking_token_budget");
  for (const ReasoningFormat format : {ReasoningFormat::none, ReasoningFormat::channels})
    EXPECT_EQ(bound(format, five).error->param, "thinking_token_budget");
  EXPECT_EQ(complete(R"("prompt":"a","thinking_token_budget":5)").error->param, "thinking_token_budget");
}

TEST(Wire, ThePromptTellsWhereReasoningBegins) {
  const auto after = [](const std::string& prompt) {
    AnswerPlan plan;
    read_prompt_end(prompt, nullptr, plan);
    return plan;
  };
  EXPECT_EQ(after("<|im_start|>assistant\n").think, ThinkStart::unknown);
  EXPECT_EQ(after("<|im_start|>assistant\n<think>\n").think, ThinkStart::open);
  EXPECT_EQ(after("assistant\n<think>\n\n</think>\n\n").think, ThinkStart::closed);
  EXPECT_EQ(after("<|start|>user<|message|>q<|end|><|start|>assistant").channel_head, "assistant");
  EXPECT_EQ(after("<|end|><|start|>assistant<|channel|>final<|message|>It is").channel_head,
            "assistant<|channel|>final<|message|>");
  EXPECT_EQ(after("<|start|>user<|message|>q<|end|>").channel_head, "");
  AnswerPlan plan;
  const std::string thinking = "<think>so", done = "<think>so</think>A";
  read_prompt_end("..." + thinking, &thinking, plan);
  EXPECT_EQ(plan.think, ThinkStart::open);
  read_prompt_end("..." + done, &done, plan);
  EXPECT_EQ(plan.think, ThinkStart::closed);
}

TEST(Wire, PastCallsAreRenderedAsTheTemplateWantsThem) {
  const std::string call = R"("messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",
      "function":{"name":"f","arguments":"{\"b\":  1}"}}]}],"add_generation_prompt":false)";
  Words words = test_words();
  for (const char* source :
       {"{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}<{{ c.function.name + ':' + "
        "c.function.arguments }}>{% endfor %}{% endif %}{% endfor %}",
        "{% for m in messages %}{% for c in m.tool_calls %}<{{ c.function.name }}:{{ c.function.arguments | tojson }}>"
        "{% endfor %}{{ m.content + '' }}{% endfor %}"}) {
    words.chat_template->chat_template = *ChatTemplate::parse(source);
    words.history = probe_tool_history(words.chat_template->chat_template, words.chat_template->special);
    EXPECT_TRUE(words.history.shows_calls && !words.history.shows_tools);
    const SpecResult result = read_chat_request(json("{" + call + "}"), words);
    ASSERT_FALSE(result.error) << result.error->message;
    EXPECT_EQ(text_of(words, result.spec.prompts.at(0).ids),
              words.history.text_arguments ? "<f:{\"b\":  1}>" : "<f:{\"b\": 1}>");
  }
}

TEST(Wire, CompletionPromptsComeInFourForms) {
  EXPECT_EQ(complete(R"("prompt":"ab")").spec.prompts.size(), 1u);
  EXPECT_EQ(complete(R"("prompt":"ab")").spec.sampling.max_tokens, 16);
  EXPECT_EQ(complete(R"("prompt":["ab","c"])").spec.prompts.size(), 2u);
  EXPECT_EQ(complete(R"("prompt":[100,101.0])").spec.prompts.at(0).ids, (std::vector<std::int32_t>{100, 101}));
  const SpecResult lists = complete(R"("prompt":[[100],[101,102]],"echo":true,"logprobs":1,"max_tokens":1)");
  ASSERT_EQ(lists.spec.prompts.size(), 2u);
  EXPECT_EQ(lists.spec.prompts[1].ids, (std::vector<std::int32_t>{101, 102}));
  EXPECT_EQ(lists.spec.prompts[1].echo, "bc");
  EXPECT_TRUE(complete(R"("prompt":"a","max_tokens":0,"echo":true)").spec.prompt_only);
}

TEST(Wire, TokensMayBeNamedThatAreWrittenAndWordsThatAreNot) {
  const SpecResult result = complete(R"("prompt":"a","allowed_token_ids":[5,7.0],"bad_words":["no"," b"])");
  ASSERT_FALSE(result.error) << result.error->message;
  EXPECT_EQ(result.spec.sampling.allowed_token_ids, (std::vector<std::int32_t>{5, 7}));
  std::vector<std::string> words;
  for (const auto& ids : result.spec.sampling.bad_words) words.push_back(text_of(test_words(), ids));
  EXPECT_EQ(words, (std::vector<std::string>{"no", " no", " b", " b"}));
  EXPECT_TRUE(complete(R"("prompt":"a","bad_words":[],"allowed_token_ids":null)").spec.sampling.bad_words.empty());
}

TEST(Wire, APromptMayBeCutToItsLastTokens) {
  const auto cut = [](const std::string& fields) { return complete(fields).spec.prompts.at(0); };
  EXPECT_EQ(cut(R"("prompt":[100,101,102],"truncate_prompt_tokens":2)").ids, (std::vector<std::int32_t>{101, 102}));
  EXPECT_EQ(cut(R"("prompt":[100],"truncate_prompt_tokens":2)").ids, std::vector<std::int32_t>{100});
  const PromptSpec text = cut(R"("prompt":"abcd","truncate_prompt_tokens":3,"echo":true)");
  EXPECT_EQ(text_of(test_words(), text.ids), "bcd");
  EXPECT_EQ(text.echo, "bcd") << "what is left, as its tokens are";
  const std::string longer(4000, 'x');
  EXPECT_EQ(cut("\"prompt\":\"" + longer + R"(","truncate_prompt_tokens":-1)").ids.size(), 100u - 16u);
  EXPECT_EQ(cut("\"prompt\":\"" + longer + R"(","truncate_prompt_tokens":-1,"max_tokens":500)").ids.size(), 50u);
  const SpecResult asked = chat(R"("messages":[{"role":"user","content":"hi"}],"truncate_prompt_tokens":4)");
  EXPECT_EQ(text_of(test_words(), asked.spec.prompts.at(0).ids), "ant]");
  EXPECT_EQ(chat(R"("messages":[{"role":"user","content":")" + longer + R"("}],"truncate_prompt_tokens":-1)")
                .spec.prompts.at(0)
                .ids.size(),
            99u);
}

TEST(Wire, WrongCompletionsNameTheirField) {
  for (const char* prompt : {"[]", "5", "{}", "[[-1]]", "[99999]", "[1,\"a\"]", "[null]", "[[1.5]]", "[\"a\",5]"}) {
    const SpecResult result = complete("\"prompt\":" + std::string(prompt));
    ASSERT_TRUE(result.error) << prompt;
    EXPECT_EQ(result.error->param, "prompt") << prompt;
  }
  EXPECT_EQ(complete(R"("max_tokens":3)").error->param, "prompt");
  EXPECT_EQ(complete(R"("prompt":"a","max_tokens":0)").error->param, "max_tokens");
  EXPECT_EQ(complete(R"("prompt":"a","logprobs":true)").error->param, "logprobs");
  EXPECT_EQ(complete(R"("prompt":"a","suffix":"b")").error->param, "suffix");
  EXPECT_EQ(complete(R"("prompt":"a","best_of":2)").error->param, "best_of");
  const SpecResult impossible = complete("\"prompt\":\"" + std::string(4000, 'a') + "\"");
  ASSERT_TRUE(impossible.error);
  EXPECT_NE(impossible.error->message.find("maximum context length is 100 tokens"), std::string::npos);
  EXPECT_EQ(impossible.error->param, "prompt");
}

TEST(Wire, BodiesThatAreNoRequest) {
  std::string wide = "{";
  for (int i = 0; i < 5000; ++i) wide += "\"k" + std::to_string(i) + "\":1,";
  for (const std::string& text :
       {std::string(), std::string("nonsense"), std::string("[1]"), std::string("{\"a\":"), std::string(200, '['),
        std::string("{\"a\":\"\xff\"}"), wide + "\"z\":1}", std::string("{\"a\":\"\\ud800\"}")}) {
    const Body body = parse_body(text);
    ASSERT_TRUE(body.error) << text.substr(0, 40);
    EXPECT_EQ(body.error->status, 400);
  }
}

TEST(Wire, RefusalsOfTheEngineBlameAField) {
  EXPECT_EQ(blamed_field("temperature is -1: it must be a finite number", "prompt"), "temperature");
  EXPECT_EQ(blamed_field("n is 999: it must be between 1 and 128", "prompt"), "n");
  EXPECT_EQ(blamed_field("entry 0 of stop_token_ids is token 9", "prompt"), "stop_token_ids");
  EXPECT_EQ(blamed_field("This model's maximum context length is 5 tokens", "messages"), "messages");
}

}  // namespace
}  // namespace octavo
