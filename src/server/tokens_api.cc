#include <array>
#include <charconv>

#include "server/apis.h"
#include "server/fields.h"
#include "server/generating_route.h"
#include "server/wire_chat.h"

namespace octavo {
namespace {

std::optional<ApiError> wrong_model(Fields& fields, const Words& words) {
  const std::string model = fields.text("model").value_or("");
  if (!fields.error() && !words.serves(model)) return words.unknown_model(model);
  return fields.error();
}

// Hundreds of thousands of numbers: written without building JSON.
std::string ids_text(const std::vector<std::int32_t>& ids) {
  std::string text = "[";
  std::array<char, 16> digits{};
  for (const std::int32_t id : ids) {
    if (text.size() > 1) text += ',';
    text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), id).ptr);
  }
  return text + "]";
}

HttpResponse tokens_response(const std::vector<std::int32_t>& ids, bool with_texts, const Words& words) {
  OrderedJson texts;
  if (with_texts) {
    texts = OrderedJson::array();
    for (const std::int32_t id : ids) texts.push_back(std::string(words.tokenizer.id_to_token(id)));
  }
  return {.status = 200,
          .body = "{\"count\":" + std::to_string(ids.size()) +
                  ",\"max_model_len\":" + std::to_string(words.max_model_len) + ",\"tokens\":" + ids_text(ids) +
                  ",\"token_strs\":" + to_text(texts) + "}"};
}

// A text, or messages through the template.
HttpResponse tokenize(const OrderedJson& body, const Words& words) {
  Fields fields(body);
  if (const auto error = wrong_model(fields, words)) return error_response(*error);
  const bool with_texts = fields.flag("return_token_strs").value_or(false);
  Result<std::vector<std::int32_t>> ids = std::vector<std::int32_t>();
  const char* field = "prompt";
  const OrderedJson* prompt = fields.find("prompt");
  if (prompt != nullptr && !prompt->is_string()) fields.wrong_type("prompt", "a string");
  const bool add_special = fields.flag("add_special_tokens").value_or(true);
  if (fields.find("messages") != nullptr) {
    field = "messages";
    ChatInput input;
    read_chat_input(fields, words, input);
    if (fields.error()) return error_response(*fields.error());
    const auto text = render_chat(input, words);
    if (!text) return error_response({.message = text.error().message(), .param = blamed_field(input)});
    ids = words.tokenizer.encode(*text, {.parse_special = true, .add_special = input.add_special_tokens});
  } else {
    if (prompt == nullptr) fields.refuse("prompt", "prompt or messages is missing: a text, or a list of messages");
    if (fields.error()) return error_response(*fields.error());
    ids = words.tokenizer.encode(prompt->get_ref<const std::string&>(),
                                 {.parse_special = true, .add_special = add_special});
  }
  if (!ids) return error_response(api_error(ids.error(), field));
  return tokens_response(*ids, with_texts, words);
}

HttpResponse detokenize(const OrderedJson& body, const Words& words) {
  Fields fields(body);
  if (const auto error = wrong_model(fields, words)) return error_response(*error);
  const OrderedJson* list = fields.array("tokens");
  if (list == nullptr) fields.refuse("tokens", "tokens is missing: a list of token ids");
  if (fields.error()) return error_response(*fields.error());
  std::vector<std::int32_t> ids;
  for (const OrderedJson& entry : *list) {
    const auto id = token_id(entry);
    if (!id || *id >= words.vocab)
      return error_response({.message = "tokens holds " + to_text(entry).substr(0, 40) +
                                        ", which is no token id: those are whole numbers from 0 to " +
                                        std::to_string(words.vocab - 1),
                             .param = "tokens"});
    ids.push_back(*id);
  }
  OrderedJson answer;
  answer["prompt"] = words.tokenizer.decode(ids);
  return json_response(answer);
}

OrderedJson tokenizer_info(const Words& words) {
  OrderedJson info;
  info["tokenizer_class"] = "OctavoTokenizer";
  info["description"] = words.tokenizer.description();
  info["vocab_size"] = words.tokenizer.vocab_size();
  info["model_max_length"] = words.max_model_len;
  const auto special = [&](const char* name, std::optional<int> id) {
    info[name] = nullptr;
    if (words.chat_template && words.chat_template->special.contains(name))
      info[name] = words.chat_template->special[name];
    else if (id)
      info[name] = std::string(words.tokenizer.id_to_token(*id));
  };
  special("eos_token", words.tokenizer.eos_id());
  special("bos_token", words.tokenizer.bos_id());
  special("pad_token", std::nullopt);
  special("unk_token", std::nullopt);
  info["chat_template"] =
      words.chat_template ? OrderedJson(words.chat_template->chat_template.source()) : OrderedJson();
  return info;
}

}  // namespace

void add_token_routes(Router& router) {
  const auto with_body = [](Answer answer) {
    return [answer = std::move(answer)](Service& service, const std::shared_ptr<Exchange>& exchange) {
      answer_body(service, exchange, answer);
    };
  };
  router.add({"POST", "/tokenize", with_body(tokenize)});
  router.add({"POST", "/detokenize", with_body(detokenize)});
  router.add({"GET", "/tokenizer_info", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                exchange->respond(json_response(tokenizer_info(service.words)));
              }});
}

}  // namespace octavo
