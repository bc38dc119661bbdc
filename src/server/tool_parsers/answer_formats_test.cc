#include "server/tool_parsers/answer_formats.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/answer_plan.h"
#include "server/test_words.h"
#include "server/wire_chat.h"

namespace octavo {
namespace {

std::string names(const AnswerFormats& formats) {
  return format_name(formats.calls) + "/" + format_name(formats.reasoning);
}

std::string shown_by(std::string_view source) { return names(*choose_answer_formats("auto", "auto", source)); }

TEST(AnswerFormats, TheTemplateShowsHowTheModelWrites) {
  EXPECT_EQ(shown_by("{{ messages }}"), "none/none");
  EXPECT_EQ(shown_by("<tool_call>\n{{ tool_call }}"), "hermes/none");
  EXPECT_EQ(shown_by("<think></think> <tool_call>\n<function={{ name }}>"), "qwen3_coder/qwen3");
  EXPECT_EQ(shown_by("<｜tool▁call▁begin｜>{{ name }}<｜tool▁sep｜>{{ arguments }}</think>"), "deepseek_v31/qwen3");
  EXPECT_EQ(shown_by("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ name }}\n```json"), "deepseek_v3/none");
  EXPECT_EQ(shown_by("<|tool_calls_section_begin|><|tool_call_begin|>"), "kimi_k2/none");
  EXPECT_EQ(shown_by("<|start_header_id|> {{ tools }} {\"name\": , \"parameters\": }"), "llama3_json/none");
  EXPECT_EQ(shown_by("<|start|>assistant<|channel|>final<|message|>"), "openai/openai_gptoss");
}

TEST(AnswerFormats, NamesGoBeforeWhatTheTemplateShows) {
  const std::string source = "<tool_call></think>";
  EXPECT_EQ(names(*choose_answer_formats("none", "none", source)), "none/none");
  EXPECT_EQ(names(*choose_answer_formats("llama3_json", "deepseek_r1", source)), "llama3_json/deepseek_r1");
  const auto unknown = choose_answer_formats("mine", "auto", source);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("\"mine\" is not one of auto, none, hermes"), std::string::npos)
      << unknown.error().message();
  for (const std::string& name : reasoning_parser_names()) EXPECT_TRUE(choose_answer_formats("auto", name, source));
}

// Real templates, where they are at hand.
std::optional<Words> words_of(const char* name) {
  const char* root = std::getenv("OCTAVO_FIXTURES");
  const std::string path = std::string(root == nullptr ? "" : root) + "/tokenizers/" + name + "/tokenizer_config.json";
  if (root == nullptr || !std::filesystem::exists(path)) return std::nullopt;
  const auto config = read_json_file(path);
  EXPECT_TRUE(config);
  Words words = test_words();
  OrderedJson special = OrderedJson::object();
  for (const char* key : {"bos_token", "eos_token"}) {
    const Json& token = (*config)[key];
    special[key] = token.is_object()   ? token["content"].get<std::string>()
                   : token.is_string() ? token.get<std::string>()
                                       : "";
  }
  words.chat_template =
      TemplateAsset{*ChatTemplate::parse((*config)["chat_template"].get<std::string>()), std::move(special), "test"};
  const auto formats = choose_answer_formats("auto", "auto", words.chat_template->chat_template.source());
  words.formats = *formats;
  words.history = probe_tool_history(words.chat_template->chat_template, words.chat_template->special);
  words.max_model_len = 100'000;
  return words;
}

SpecResult ask_model(const Words& words, const std::string& more) {
  const Body body = parse_body(
      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1",
      "type":"function","function":{"name":"look","arguments":"{\"city\": \"Paris\"}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"sunny"},{"role":"user","content":"and now?"}],
      "tools":[{"type":"function","function":{"name":"look","strict":true,"parameters":{"type":"object"}}}])" +
      more + "}");
  SpecResult result = read_chat_request(body.json, words);
  EXPECT_FALSE(result.error) << result.error->message;
  return result;
}

TEST(AnswerFormats, RealTemplatesAreUnderstood) {
  const auto fenced = words_of("deepseek_v3"), tagged = words_of("qwen3"), silent = words_of("llama3_1");
  if (!fenced || !tagged || !silent) {
    std::puts("3 templates not tried: set OCTAVO_FIXTURES");
    return;
  }
  EXPECT_EQ(names(tagged->formats), "hermes/qwen3");
  EXPECT_TRUE(tagged->history.shows_tools && tagged->history.shows_calls && !tagged->history.text_arguments);
  EXPECT_EQ(names(fenced->formats), "deepseek_v3/none");
  EXPECT_TRUE(!fenced->history.shows_tools && fenced->history.text_arguments && fenced->history.null_content);
  EXPECT_EQ(names(silent->formats), "none/none");
  EXPECT_TRUE(!silent->history.shows_tools && !silent->history.shows_calls);

  const SpecResult of_tagged = ask_model(*tagged, "");
  const std::string prompt = text_of(*tagged, of_tagged.spec.prompts.at(0).ids);
  EXPECT_NE(prompt.find("<tool_call>\n{\"name\": \"look\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>"),
            std::string::npos)
      << prompt;
  EXPECT_EQ(of_tagged.spec.answer.think, ThinkStart::unknown);
  EXPECT_EQ(ask_model(*tagged, R"(,"chat_template_kwargs":{"enable_thinking":false})").spec.answer.think,
            ThinkStart::closed);
  const std::string of_fenced = text_of(*fenced, ask_model(*fenced, "").spec.prompts.at(0).ids);
  EXPECT_NE(of_fenced.find("look\n```json\n{\"city\": \"Paris\"}\n```"), std::string::npos) << of_fenced;
}

}  // namespace
}  // namespace octavo
