// ApiError: why a request is not served, as clients of the OpenAI API and vLLM read it:
// {"error": {"message", "type", "param", "code"}} with vLLM's types and the HTTP status as code.
#pragma once

#include <string>

#include "base/result.h"
#include "server/http_message.h"

namespace octavo {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field that is to blame, or empty: null
  int retry_after = 0;     // seconds; 0: no such header
};

std::string error_type(int status);             // "BadRequestError"
std::string error_json(const ApiError& error);  // the body
HttpResponse error_response(const ApiError& error);

// Of an engine's or a tokenizer's refusal.
ApiError api_error(const Error& error, std::string param = {});

}  // namespace octavo
