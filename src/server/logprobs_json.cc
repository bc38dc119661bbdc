#include "server/logprobs_json.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"

namespace octavo {
namespace {

constexpr double kFloor = -9999.0;

double finite(float logprob) { return std::isfinite(logprob) ? std::max<double>(logprob, kFloor) : kFloor; }

std::string id_name(std::int32_t id) { return "token_id:" + std::to_string(id); }

OrderedJson chat_entry(std::int32_t id, float logprob, const TokenNames& names) {
  const std::string_view bytes = names.tokenizer.token_bytes(id);
  OrderedJson entry;
  // A part of a character is shown as U+FFFD when written.
  entry["token"] = names.as_ids ? id_name(id) : std::string(bytes);
  entry["logprob"] = finite(logprob);
  entry["bytes"] = OrderedJson::array();
  for (const char byte : bytes) entry["bytes"].push_back(static_cast<unsigned char>(byte));
  return entry;
}

std::string unique_name(std::int32_t id, const TokenNames& names) {
  if (names.as_ids) return id_name(id);
  const std::string_view bytes = names.tokenizer.token_bytes(id);
  if (find_invalid_utf8(bytes) == std::string::npos) return std::string(bytes);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += "\\x";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

std::size_t characters(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

OrderedJson chat_logprobs(const std::vector<AnswerToken>& tokens, int top, const TokenNames& names) {
  OrderedJson content = OrderedJson::array();
  for (const AnswerToken& token : tokens) {
    OrderedJson entry = chat_entry(token.id, token.logprobs.logprob, names);
    entry["top_logprobs"] = OrderedJson::array();
    for (const auto& [id, logprob] : token.logprobs.top) {
      if (entry["top_logprobs"].size() >= static_cast<std::size_t>(top)) break;
      entry["top_logprobs"].push_back(chat_entry(id, logprob, names));
    }
    content.push_back(std::move(entry));
  }
  OrderedJson result;
  result["content"] = std::move(content);
  return result;
}

CompletionLogprobs::CompletionLogprobs(const TokenNames& names, int top, std::size_t offset)
    : names_(names), top_(top), offset_(offset) {
  for (const char* key : {"text_offset", "token_logprobs", "tokens", "top_logprobs"}) json_[key] = OrderedJson::array();
}

void CompletionLogprobs::add(std::int32_t id, const TokenLogprobs* row) {
  json_["tokens"].push_back(unique_name(id, names_));
  json_["text_offset"].push_back(offset_);
  offset_ += characters(names_.tokenizer.token_bytes(id));
  if (row == nullptr) {
    json_["token_logprobs"].push_back(nullptr);
    json_["top_logprobs"].push_back(nullptr);
    return;
  }
  json_["token_logprobs"].push_back(finite(row->logprob));
  OrderedJson best = OrderedJson::object();
  for (std::size_t i = 0; i < row->top.size() && i < static_cast<std::size_t>(top_); ++i)
    best[unique_name(row->top[i].first, names_)] = finite(row->top[i].second);
  best[unique_name(id, names_)] = finite(row->logprob);  // the same number as above, to the bit
  json_["top_logprobs"].push_back(std::move(best));
}

OrderedJson prompt_logprobs_json(const std::vector<std::int32_t>& ids, const std::vector<TokenLogprobs>& rows, int top,
                                 const Tokenizer& tokenizer) {
  OrderedJson list = OrderedJson::array();
  for (std::size_t i = 0; i < ids.size() && i < rows.size(); ++i) {
    if (i == 0) {
      list.push_back(nullptr);
      continue;
    }
    OrderedJson entry = OrderedJson::object();
    const auto put = [&](std::int32_t id, float logprob, int rank) {
      entry[std::to_string(id)] = {
          {"logprob", finite(logprob)}, {"rank", rank}, {"decoded_token", std::string(tokenizer.token_bytes(id))}};
    };
    put(ids[i], rows[i].logprob, rows[i].rank);
    for (std::size_t k = 0; k < rows[i].top.size() && k < static_cast<std::size_t>(top); ++k)
      if (rows[i].top[k].first != ids[i]) put(rows[i].top[k].first, rows[i].top[k].second, static_cast<int>(k) + 1);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace octavo
