#include "server/apis.h"
#include "server/generating_route.h"
#include "server/wire_completions.h"
#include "server/wire_sampling.h"

namespace octavo {
namespace {

HttpResponse render_completion_request(const OrderedJson& body, const Words& words) {
  SpecResult result = read_completion_request(body, words);
  if (!result.error) result.error = engine_refusal(result.spec, words, "prompt");
  if (result.error) return error_response(*result.error);
  OrderedJson answer = OrderedJson::array();
  for (const PromptSpec& prompt : result.spec.prompts) {
    OrderedJson entry;
    entry["prompt"] = words.tokenizer.decode(prompt.ids);
    entry["token_ids"] = prompt.ids;
    entry["count"] = prompt.ids.size();
    entry["max_model_len"] = words.max_model_len;
    answer.push_back(std::move(entry));
  }
  return json_response(answer);
}

}  // namespace

void add_completion_routes(Router& router) {
  const GeneratingRoute completion{read_completion_request, make_completion_form, "prompt"};
  router.add({"POST", "/v1/completions",
              [completion](Service& service, const std::shared_ptr<Exchange>& exchange) {
                generate(service, completion, exchange);
              },
              true});
  router.add({"POST", "/v1/completions/render", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                answer_body(service, exchange, render_completion_request);
              }});
}

}  // namespace octavo
