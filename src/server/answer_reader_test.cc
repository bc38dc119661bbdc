#include "server/answer_reader.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <set>

#include "server/answer_plan.h"

namespace octavo {
namespace {

constexpr std::size_t kSplitWhole = 15;  // texts up to this long are cut in every way there is

const char* const kTools = R"([
  {"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{
     "city":{"type":"string"},"days":{"type":"integer"},"exact":{"type":"boolean"},
     "unit":{"anyOf":[{"type":"string"},{"type":"null"}]},"box":{"type":"object"},"list":{"type":"array"}}}}},
  {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";

struct ReadCase {
  const char* parser;     // of calls; empty: none
  const char* reasoning;  // its parser; empty: none
  ThinkStart start;
  std::string text;
  std::string want;  // "reasoning|content|name(arguments)name(broken arguments..."
};

AnswerPlan plan_of(const ReadCase& c) {
  const std::string calls = *c.parser ? c.parser : "none", reasoning = *c.reasoning ? c.reasoning : "none";
  const auto formats = choose_answer_formats(calls, reasoning, "");
  EXPECT_TRUE(formats) << (formats ? "" : formats.error().message());
  AnswerPlan plan;
  plan.calls = formats->calls;
  plan.reasoning = formats->reasoning;
  plan.think = c.start;
  plan.channel_head = "assistant";
  plan.tools = std::make_shared<OrderedJson>(*parse_ordered_json(kTools, "tools"));
  return plan;
}

std::string shown(const AnswerDelta& answer) {
  std::string text = answer.reasoning + "|" + answer.content + "|";
  for (const ToolCallDelta& call : answer.tool_calls)
    text += call.name + "(" + call.arguments + (call.broken ? "..." : ")");
  return text;
}

bool is_utf8(const std::string& text) { return parse_ordered_json(to_text(OrderedJson(text)), "").has_value(); }

// Joins what comes of the pieces; each delta must be whole by itself.
AnswerDelta read_pieces(const AnswerPlan& plan, const std::vector<std::string_view>& pieces,
                        const std::vector<std::string>& stops = {}) {
  const auto reader = make_answer_reader(plan, stops, false);
  AnswerDelta answer;
  std::set<int> known;
  for (const std::string_view piece : pieces) {
    const AnswerDelta delta = reader->push(piece);
    EXPECT_TRUE(is_utf8(delta.content) && is_utf8(delta.reasoning));
    for (const ToolCallDelta& call : delta.tool_calls)
      EXPECT_EQ(call.id.empty(), known.contains(call.index)) << "with the first delta of a call and with no other";
    for (const ToolCallDelta& call : delta.tool_calls) known.insert(call.index);
    answer.append(delta);
  }
  answer.append(reader->finish());
  EXPECT_TRUE(reader->push("more").empty() || !reader->end());
  return answer;
}

AnswerDelta read_whole(const AnswerPlan& plan, const std::string& text, const std::vector<std::string>& stops = {}) {
  return read_pieces(plan, {text}, stops);
}

// The places where a piece may begin: never inside a character.
std::vector<std::size_t> cuts_of(const std::string& text) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) cuts.push_back(i);
  return cuts;
}

std::vector<std::string_view> cut(const std::string& text, const std::vector<std::size_t>& at) {
  std::vector<std::string_view> pieces;
  std::size_t from = 0;
  for (const std::size_t place : at) {
    pieces.push_back(std::string_view(text).substr(from, place - from));
    from = place;
  }
  pieces.push_back(std::string_view(text).substr(from));
  return pieces;
}

// Every single cut and all of them at once; of a short text every set of cuts, of a long one random sets.
void expect_same_for_every_split(const AnswerPlan& plan, const std::string& text, const std::string& want,
                                 const std::vector<std::string>& stops = {}) {
  ASSERT_EQ(shown(read_whole(plan, text, stops)), want) << text;
  const std::vector<std::size_t> cuts = cuts_of(text);
  ASSERT_EQ(shown(read_pieces(plan, cut(text, cuts), stops)), want) << "letter by letter: " << text;
  for (const std::size_t place : cuts) ASSERT_EQ(shown(read_pieces(plan, cut(text, {place}), stops)), want) << place;
  std::mt19937 random(7);
  const bool all = cuts.size() < kSplitWhole;
  const std::size_t rounds = all ? std::size_t{1} << cuts.size() : 40;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::size_t> chosen;
    const unsigned rare = 1 + random() % 9;
    for (std::size_t i = 0; i < cuts.size(); ++i)
      if (all ? (round >> i & 1) != 0 : random() % rare == 0) chosen.push_back(cuts[i]);
    ASSERT_EQ(shown(read_pieces(plan, cut(text, chosen), stops)), want) << text;
  }
}

const std::string kSection = "<｜tool▁calls▁begin｜>", kSectionEnd = "<｜tool▁calls▁end｜>";
const std::string kCall = "<｜tool▁call▁begin｜>", kSep = "<｜tool▁sep｜>", kOneEnd = "<｜tool▁call▁end｜>";

std::string fenced(const std::string& name, const std::string& arguments) {
  return kCall + "function" + kSep + name + "\n```json\n" + arguments + "\n```" + kOneEnd;
}
std::string channel(const std::string& head, const std::string& body) { return head + "<|message|>" + body; }

std::vector<ReadCase> tagged_cases() {
  const auto none = ThinkStart::closed;
  return {
      {"hermes", "", none, "Hello, world", "|Hello, world|"},
      {"hermes", "", none, "a < b <tool_box> \n", "|a < b <tool_box> \n|"},
      {"hermes", "", none, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
       "||look({\"city\": \"Paris\"})"},
      {"hermes", "", none,
       "Sure. \n\n<tool_call>\n{\"name\": \"look\", \"arguments\": "
       "{\"a\":[{\"b\":1}],\"s\":\"x\\\"}\"}}\n</tool_call>\n"
       "<tool_call>{\"arguments\": {}, \"name\": \"now\"}</tool_call>\n",
       "|Sure.|look({\"a\":[{\"b\":1}],\"s\":\"x\\\"}\"})now({})"},
      {"hermes", "", none,
       "<tool_call>{\"name\":\"look\",\"arguments\":{\"s\":\"</tool_call> 😀 é\"}}</tool_call> then 😀",
       "| then 😀|look({\"s\":\"</tool_call> 😀 é\"})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\"}", "||now({})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\":null}</tool_call>", "||now({})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\":\"{\\\"a\\\": 1.50}\"}</tool_call>",
       "||now({\"a\": 1.50})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\":[1]}</tool_call>",
       "|<tool_call>{\"name\":\"now\",\"arguments\":[1]}</tool_call>|"},
      {"hermes", "", none, "x <tool_call>\n{'name': 'now'}\n</tool_call> y",
       "|x <tool_call>\n{'name': 'now'}\n</tool_call> y|"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":", "||now({\"a\":..."},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\"",
       "|<tool_call>{\"name\":\"now\",\"arguments\"|"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":2}</tool_call>", "||now({\"a\":2})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":2}", "||now({\"a\":2})"},
      {"hermes", "", none, "<tool_call>{\"parameters\":{\"a\":2},\"name\":\"now\",\"name\":\"look\",\"arguments\":{}}",
       "||now({\"a\":2})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"n\",\"arguments\":{\"x\":\"\\ud83d\\ude00\",\"y\":-1.5e3}}",
       "||n({\"x\":\"\\ud83d\\ude00\",\"y\":-1.5e3})"},
      {"hermes", "", none, "<tool_call>{\"name\":\"n\",\"arguments\":{\"x\":\"\\ude00\"}}",
       "|0\"}}|n({\"x\":\"\\ude0..."},
      {"hermes", "", none, "<tool_call>{\"name\":\"n\",\"arguments\":{\"x\":1e999}} y", "|}} y|n({\"x\":1e999..."},
      {"hermes", "", none,
       "<tool_call>{\"name\":\"look\",\"arguments\":{\"s\":\"no "
       "end}}\n</tool_call>\n<tool_call>{\"name\":\"now\"}</tool_call>",
       "||look({\"s\":\"no end}}...now({})"},
      {"hermes", "", none, "<tool_call><tool_call>{\"name\":\"now\"}</tool_call>", "|<tool_call>|now({})"},
      {"hermes", "", none, "<tool_call>{\"name\":5}</tool_call>", "|<tool_call>{\"name\":5}</tool_call>|"},
      {"hermes", "", none, "<tool_call>{\"name\":\"n\",\"arguments\":{\"x\":01}}</tool_call>",
       "|}}</tool_call>|n({\"x\":01..."},
      {"hermes", "", none, "<tool_call>{\"name\":\"n\",\"arguments\":{\"x\":\"\\ud800\"}}",
       "|\"}}|n({\"x\":\"\\ud800..."},
      {"hermes", "", none, "<tool_call>{\"name\":\"now\"}</tool_", "||now({})"},
      {"hermes", "", none, "</tool_call>", "|</tool_call>|"},
      {"", "", none, "<tool_call>{\"name\":\"now\"}</tool_call>", "|<tool_call>{\"name\":\"now\"}</tool_call>|"},
  };
}

std::vector<ReadCase> function_cases() {
  const auto none = ThinkStart::closed;
  return {
      {"qwen3_coder", "", none,
       "I look.\n<tool_call>\n<function=look>\n<parameter=city>\nNew\nYork \"1\"\n</parameter>\n<parameter=days>\n3\n"
       "</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=unit>\nnull\n</parameter>\n<parameter=box>\n"
       "{\"a\": [1, 2]}\n</parameter>\n</function>\n</tool_call>\n",
       "|I look.|look({\"city\": \"New\\nYork \\\"1\\\"\", \"days\": 3, \"exact\": true, \"unit\": null, \"box\": "
       "{\"a\": [1, 2]}})"},
      {"qwen3_coder", "", none, "<function=now>\n</function>", "||now({})"},
      {"qwen3_xml", "", none,
       "<tool_call><function=look><parameter=days>many</parameter><parameter=other>5</parameter></function></"
       "tool_call>",
       "||look({\"days\": \"many\", \"other\": \"5\"})"},
      {"qwen3_coder", "", none, "<tool_call>{\"name\":\"now\"}</tool_call>", "||now({})"},
      {"hermes", "", none, "<tool_call><function=now></function></tool_call>", "||now({})"},
      {"qwen3_coder", "", none, "<tool_call>\n<function=look>\n<parameter=city>\nParis",
       "||look({\"city\": \"Paris..."},
      {"qwen3_coder", "", none, "<function=look><parameter=city>\n\n a\n\n</parameter><parameter=days>7",
       "||look({\"city\": \"\\n a\\n\", \"days\": ..."},
      {"qwen3_coder", "", none, "<function=look><parameter=city>\n</parameter> x <function=now></function>",
       "|x|look({\"city\": \"\"...now({})"},
      {"qwen3_coder", "", none, "<function=a<b></function> <function=>", "|<function=a<b></function> <function=>|"},
      {"qwen3_coder", "", none, "<tool_call>\n<function=look>\njunk<function=now></function>",
       "|<tool_call>\n<function=look>\njunk|now({})"},
  };
}

std::vector<ReadCase> section_cases() {
  const auto none = ThinkStart::closed;
  return {
      {"deepseek_v3", "", none,
       "One moment." + kSection + fenced("look", "{\"city\": \"Paris\"}") + "\n" + fenced("now", "{}") + kSectionEnd,
       "|One moment.|look({\"city\": \"Paris\"})now({})"},
      {"deepseek_v3", "", none, kSection + kCall + "function" + kSep + "look\n```json\n{\"city\": ```}",
       "|}|look({\"city\": ..."},
      {"deepseek_v3", "", none, kSection + " no call", "|" + kSection + " no call|"},
      {"deepseek_v31", "", none,
       kSection + kCall + "look" + kSep + "{\"city\": \"São Paulo\"}" + kOneEnd + kCall + "now" + kSep + "{}" +
           kOneEnd + kSectionEnd,
       "||look({\"city\": \"São Paulo\"})now({})"},
      {"deepseek_v31", "deepseek_r1", ThinkStart::open,
       "Hm.\n</think>" + kSection + kCall + "now" + kSep + "{}" + kOneEnd + kSectionEnd, "Hm.||now({})"},
      {"kimi_k2", "", none,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"city\":\"X\"}<|"
       "tool_call_end|>"
       "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
       "||look({\"city\":\"X\"})now({})"},
      {"llama3_json", "", none, "{\"name\": \"look\", \"parameters\": {\"city\": \"Paris\"}}",
       "||look({\"city\": \"Paris\"})"},
      {"llama3_json", "", none,
       "\n<|python_tag|>{\"name\": \"look\", \"parameters\": {\"a\": 1}}; {\"name\": \"now\", \"parameters\": {}}",
       "||look({\"a\": 1})now({})"},
      {"llama3_json", "", none, "{\"name\": \"Bob\", \"parameters\": {}}", "|{\"name\": \"Bob\", \"parameters\": {}}|"},
      {"llama3_json", "", none, " {\"name\": \"look\", \"age\": 5} <", "| {\"name\": \"look\", \"age\": 5} <|"},
      {"llama3_json", "", none, "Use {\"name\": \"look\", \"parameters\": {}}",
       "|Use {\"name\": \"look\", \"parameters\": {}}|"},
      {"llama3_json", "", none, "<|python_tag|>look.call(city=\"Paris\")", "|<|python_tag|>look.call(city=\"Paris\")|"},
  };
}

std::vector<ReadCase> reasoning_cases() {
  return {
      {"", "qwen3", ThinkStart::unknown, "<think>\nHm, 9.8.\n</think>\n\nIt is 😀.", "Hm, 9.8.|It is 😀.|"},
      {"", "qwen3", ThinkStart::unknown, "\n<think>\n\n</think>\n\nYes", "|Yes|"},
      {"", "qwen3", ThinkStart::unknown, " <thin", "| <thin|"},
      {"", "qwen3", ThinkStart::unknown, "No <think> here</think>", "|No <think> here</think>|"},
      {"", "qwen3", ThinkStart::open, "\nHm\n\nhm </thin\n", "Hm\n\nhm </thin\n||"},
      {"", "deepseek_r1", ThinkStart::unknown, "Hm.</think>A", "Hm.|A|"},
      {"", "deepseek_r1", ThinkStart::closed, "A</think>", "|A</think>|"},
      {"hermes", "qwen3", ThinkStart::unknown,
       "<think>I <tool_call>{\"name\":\"x\"}</tool_call></think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": "
       "{}}\n</tool_call>",
       "I <tool_call>{\"name\":\"x\"}</tool_call>||now({})"},
  };
}

std::vector<ReadCase> channel_cases() {
  const std::string analysis = channel("<|channel|>analysis", "Hm é");
  const std::string next = "<|end|><|start|>assistant";
  const auto none = ThinkStart::unknown;
  return {
      {"openai", "openai_gptoss", none, analysis + next + channel("<|channel|>final", "Yes < 😀"), "Hm é|Yes < 😀|"},
      {"openai", "openai_gptoss", none,
       analysis + next + channel("<|channel|>commentary to=functions.look <|constrain|>json", "{\"city\": \"<|x\"}"),
       "Hm é||look({\"city\": \"<|x\"})"},
      {"openai", "openai_gptoss", none,
       channel(" to=functions.look<|channel|>commentary json", "{}") + "<|call|><|start|>assistant" +
           channel("<|channel|>commentary to=functions.now", "") + "<|call|>",
       "||look({})now({})"},
      {"openai", "openai_gptoss", none,
       channel("<|channel|>commentary", "I will look.") + next + channel("<|channel|>final", "Done"),
       "|I will look.\nDone|"},
      {"openai", "openai_gptoss", none, channel("<|channel|>commentary to=functions.look", "{\"city\": \"Pa"),
       "||look({\"city\": \"Pa..."},
      {"openai", "openai_gptoss", none,
       channel("<|channel|>commentary to=functions.look", " {\"city\": x} ") + next +
           channel("<|channel|>final", "Yes"),
       "|x} \nYes|look({\"city\": ..."},
      {"openai", "openai_gptoss", none, channel("<|channel|>commentary to=functions.now", "{} \n more"),
       "|more|now({})"},
      {"openai", "openai_gptoss", none, channel("<|channel|>commentary to=functions.now", "say {}"),
       "|to=functions.now say {}|"},
      {"openai", "openai_gptoss", none, "No markers at all", "|No markers at all|"},
      {"", "openai_gptoss", none, channel("<|channel|>commentary to=functions.look", "{}"), "|{}|"},
      {"openai", "openai_gptoss", none, analysis + "<|channel|>final<|message|>A<|return|>", "Hm é|A|"},
  };
}

TEST(AnswerReader, TaggedCallsForEverySplit) {
  for (const ReadCase& c : tagged_cases()) expect_same_for_every_split(plan_of(c), c.text, c.want);
}
TEST(AnswerReader, FunctionTagsForEverySplit) {
  for (const ReadCase& c : function_cases()) expect_same_for_every_split(plan_of(c), c.text, c.want);
}
TEST(AnswerReader, SectionsAndBareJsonForEverySplit) {
  for (const ReadCase& c : section_cases()) expect_same_for_every_split(plan_of(c), c.text, c.want);
}
TEST(AnswerReader, ReasoningForEverySplit) {
  for (const ReadCase& c : reasoning_cases()) expect_same_for_every_split(plan_of(c), c.text, c.want);
}
TEST(AnswerReader, ChannelsForEverySplit) {
  for (const ReadCase& c : channel_cases()) expect_same_for_every_split(plan_of(c), c.text, c.want);
}

TEST(AnswerReader, StopStringsCountInContentAlone) {
  const ReadCase both{"hermes", "qwen3", ThinkStart::unknown, "", ""};
  const std::string call = "<tool_call>{\"name\":\"look\",\"arguments\":{\"city\":\"9.8\"}}</tool_call>";
  const std::string text = "<think>9.8 or 9.11?</think>Larger: " + call + " is 9.8, yes" + call;
  expect_same_for_every_split(plan_of(both), text, "9.8 or 9.11?|Larger: is |look({\"city\":\"9.8\"})",
                              {"nothing", "9.8"});
  expect_same_for_every_split(plan_of(both), "Sure\n\n" + call, "|Sure|", {"\n\n"});
  expect_same_for_every_split(plan_of(both), "a \n" + call + "\n" + call,
                              "|a|look({\"city\":\"9.8\"})look({\"city\":\"9.8\"})", {"\n<", "\n\n"});
  const ReadCase channels{"openai", "openai_gptoss", ThinkStart::unknown, "", ""};
  expect_same_for_every_split(
      plan_of(channels),
      channel("<|channel|>analysis", "A.B") + "<|end|><|start|>assistant" + channel("<|channel|>final", "A.B"),
      "A.B|A|", {"."});
  expect_same_for_every_split(plan_of(both), "<tool_call>{no} STOP " + call, "|<tool_call>{no} |", {"STOP"});
}

TEST(AnswerReader, AnEndSaysWhichStopItWas) {
  const auto reader = make_answer_reader(plan_of({"hermes", "", ThinkStart::closed, "", ""}), {"x", "END"}, true);
  reader->look_for_stops(false);
  EXPECT_EQ(reader->push("ab x ").content, "ab x") << "too early to stop; the space waits";
  reader->look_for_stops(true);
  EXPECT_EQ(reader->push("EN").content, "");
  EXPECT_FALSE(reader->end());
  EXPECT_EQ(reader->push("D of").content, " END") << "shown when asked for";
  ASSERT_TRUE(reader->end());
  EXPECT_EQ(reader->end()->stop, "END");
  EXPECT_TRUE(reader->push("more").empty() && reader->finish().empty());
}

TEST(AnswerReader, OneCallEndsAnAnswerWhereOneIsAskedFor) {
  AnswerPlan plan = plan_of({"hermes", "qwen3", ThinkStart::open, "", ""});
  plan.single_call = true;
  plan.include_reasoning = false;
  const std::string call = "<tool_call>{\"name\":\"now\"}</tool_call>";
  expect_same_for_every_split(plan, "Hm</think>A " + call + call + "B", "|A|now({})");
}

TEST(AnswerReader, CallsHaveTheirIds) {
  const ReadCase numbered{"kimi_k2", "", ThinkStart::closed, "", ""};
  const std::string begin = "<|tool_call_begin|>functions.now:3<|tool_call_argument_begin|>{}";
  EXPECT_EQ(read_whole(plan_of(numbered), begin).tool_calls.at(0).id, "functions.now:3") << "as the model gave it";
  const ReadCase tagged{"hermes", "", ThinkStart::closed, "", ""};
  const std::string call = "<tool_call>{\"name\":\"now\"}</tool_call>";
  const AnswerDelta two = read_whole(plan_of(tagged), call + call);
  ASSERT_EQ(two.tool_calls.size(), 2u);
  EXPECT_EQ(two.tool_calls[1].index, 1);
  EXPECT_TRUE(two.tool_calls[0].id.starts_with("call_"));
  EXPECT_NE(two.tool_calls[0].id, two.tool_calls[1].id);
}

// The arguments of every format come while the model still writes them: after each letter all but what may belong to
// the format has been given out.
TEST(AnswerReader, ArgumentsComeAsTheyAreWritten) {
  const auto none = ThinkStart::closed;
  const std::string value(1000, 'v');
  const std::vector<ReadCase> cases = {
      {"hermes", "", none, "<tool_call>{\"name\": \"look\", \"arguments\": {\"city\": \"", ""},
      {"qwen3_coder", "", none, "<function=look><parameter=city>", ""},
      {"llama3_json", "", none, "{\"name\": \"look\", \"parameters\": {\"city\": \"", ""},
      {"deepseek_v3", "", none, kCall + "function" + kSep + "look\n```json\n{\"city\": \"", ""},
      {"deepseek_v31", "", none, kCall + "look" + kSep + "{\"city\": \"", ""},
      {"kimi_k2", "", none, "<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"city\": \"", ""},
      {"openai", "openai_gptoss", none, channel("<|channel|>commentary to=functions.look", "{\"city\": \""), ""}};
  for (const ReadCase& c : cases) {
    const auto reader = make_answer_reader(plan_of(c), {}, false);
    AnswerDelta answer = reader->push(c.text);
    for (std::size_t i = 0; i < value.size(); ++i) {
      answer.append(reader->push({&value[i], 1}));
      ASSERT_EQ(answer.tool_calls.size(), 1u) << c.parser;
      ASSERT_EQ(answer.tool_calls[0].arguments, "{\"city\": \"" + value.substr(0, i + 1)) << c.parser;
    }
  }
}

// Whatever a model writes: no crash, arguments are JSON, and where no call was found every letter is content.
TEST(AnswerReader, AnyTextIsReadAlikeHoweverItIsCutAndNothingIsLost) {
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "{\"name\":\"now\"",
                                          ",\"arguments\":{\"a\":[1,{}]}",
                                          "}",
                                          "{",
                                          "\"",
                                          "\\",
                                          "\n",
                                          " ",
                                          "<function=look>",
                                          "<parameter=city>",
                                          "</parameter>",
                                          "</function>",
                                          "<think>",
                                          "</think>",
                                          "😀",
                                          "é",
                                          kSection,
                                          kCall,
                                          kSep,
                                          "now\n```json\n",
                                          "{}",
                                          "\n```",
                                          kOneEnd,
                                          kSectionEnd,
                                          "<|tool_call_begin|>",
                                          "functions.now:0",
                                          "<|tool_call_argument_begin|>",
                                          "<|channel|>",
                                          "analysis",
                                          "commentary to=functions.now",
                                          "<|message|>",
                                          "<|end|>",
                                          "<|start|>",
                                          "assistant",
                                          "<|python_tag|>",
                                          "{\"name\": \"now\", \"parameters\": {}}",
                                          ";",
                                          "text",
                                          "<",
                                          "<|"};
  std::mt19937 random(11);
  for (const std::string& calls : call_parser_names()) {
    if (calls == "auto") continue;
    for (const char* reasoning : {"none", "qwen3", "deepseek_r1", "openai_gptoss"}) {
      const AnswerPlan plan = plan_of({calls.c_str(), reasoning, ThinkStart::unknown, "", ""});
      const bool channels = plan.calls == CallFormat::channels || plan.reasoning == ReasoningFormat::channels;
      for (int round = 0; round < 60; ++round) {
        std::string text;
        for (unsigned i = random() % 14; i > 0; --i) text += words[random() % words.size()];
        const AnswerDelta whole = read_whole(plan, text);
        for (const ToolCallDelta& call : whole.tool_calls) {
          const auto arguments = parse_ordered_json(call.arguments, "");
          EXPECT_EQ(arguments && arguments->is_object(), !call.broken) << text;
          EXPECT_FALSE(call.name.empty()) << text;
        }
        if (whole.tool_calls.empty() && !channels && plan.reasoning == ReasoningFormat::none) {
          EXPECT_EQ(whole.content, text);
        }
        const std::vector<std::size_t> cuts = cuts_of(text);
        EXPECT_EQ(shown(read_pieces(plan, cut(text, cuts))), shown(whole)) << calls << " " << text;
        std::vector<std::size_t> some;
        for (const std::size_t place : cuts)
          if (random() % 5 == 0) some.push_back(place);
        EXPECT_EQ(shown(read_pieces(plan, cut(text, some))), shown(whole)) << calls << " " << text;
      }
    }
  }
}

// Marks that begin calls and never end them are not read again and again. Letters fed to parsers are counted by time:
// read as often as it begins a call, this text would take minutes.
TEST(AnswerReader, ATextOfNothingButBeginningsIsReadInTimeLinearInIt) {
  for (const char* begin : {"<tool_call>\n<function=f>\n<parameter\n", "<tool_call>{\"a\":\"",
                            "<tool_call>{\"a\": ", "<tool_call> ", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f"}) {
    for (const char* parser : {"qwen3_coder", "deepseek_v3"}) {
      std::string text;
      while (text.size() < 200'000) text += begin;
      text += "</parameter>x" + text;
      const std::clock_t before = std::clock();
      EXPECT_TRUE(read_whole(plan_of({parser, "", ThinkStart::closed, "", ""}), text).content == text) << begin;
      EXPECT_LT(std::clock() - before, 20 * CLOCKS_PER_SEC) << begin;
    }
  }
}

TEST(AnswerReader, ANumberWithoutEndIsReadInTimeLinearInIt) {
  const auto reader = make_answer_reader(plan_of({"hermes", "", ThinkStart::closed, "", ""}), {}, false);
  reader->push("<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":");
  const std::clock_t before = std::clock();
  std::size_t digits = 0;
  for (int i = 0; i < 1'000'000; ++i)
    for (const ToolCallDelta& call : reader->push("7").tool_calls) digits += call.arguments.size();
  EXPECT_EQ(digits, 1'000'000u);
  EXPECT_LT(std::clock() - before, 20 * CLOCKS_PER_SEC);
}

TEST(AnswerReader, CallsThatBreakOffAgainAndAgainAreReadInTimeLinearInThem) {
  for (const char* begin : {"<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":\"\n",
                            "<tool_call>\n<function=f>\n<parameter=a>\n</parameter>\nx"}) {
    std::string text;
    while (text.size() < 200'000) text += begin;
    const std::clock_t before = std::clock();
    const AnswerDelta answer = read_whole(plan_of({"qwen3_coder", "", ThinkStart::closed, "", ""}), text);
    EXPECT_GT(answer.tool_calls.size(), 3000u);
    EXPECT_TRUE(answer.tool_calls.front().broken && answer.tool_calls.back().broken);
    EXPECT_LT(std::clock() - before, 20 * CLOCKS_PER_SEC) << begin;
  }
}

}  // namespace
}  // namespace octavo
