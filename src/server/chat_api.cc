#include "server/apis.h"
#include "server/generating_route.h"
#include "server/wire_chat.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

// What would be sent to the engine, without sending it.
HttpResponse render_chat_request(const OrderedJson& body, const Words& words) {
  SpecResult result = read_chat_request(body, words);
  if (!result.error) result.error = engine_refusal(result.spec, words, "messages");
  if (result.error) return error_response(*result.error);
  ChatInput input;
  Fields fields(body);
  read_chat_input(fields, words, input);
  const auto text = render_chat(input, words);
  OrderedJson answer;
  answer["prompt"] = text ? *text : std::string();
  answer["token_ids"] = result.spec.prompts.front().ids;
  answer["count"] = result.spec.prompts.front().ids.size();
  answer["max_model_len"] = words.max_model_len;
  return json_response(answer);
}

}  // namespace

void add_chat_routes(Router& router) {
  const GeneratingRoute chat{read_chat_request, make_chat_form, "messages"};
  router.add(
      {"POST", "/v1/chat/completions",
       [chat](Service& service, const std::shared_ptr<Exchange>& exchange) { generate(service, chat, exchange); },
       true});
  router.add({"POST", "/v1/chat/completions/render", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                answer_body(service, exchange, render_chat_request);
              }});
}

}  // namespace octavo
