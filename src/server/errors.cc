#include "server/errors.h"

#include "base/json.h"

namespace octavo {

std::string error_type(int status) {
  switch (status) {
    case 400:
      return "BadRequestError";
    case 404:
      return "NotFoundError";
    case 422:
      return "UnprocessableEntityError";
    case 500:
      return "InternalServerError";
    case 501:
      return "NotImplementedError";
  }
  return std::string(status_phrase(status));
}

std::string error_json(const ApiError& error) {
  OrderedJson body;
  body["message"] = error.message;
  body["type"] = error_type(error.status);
  body["param"] = error.param.empty() ? OrderedJson() : OrderedJson(error.param);
  body["code"] = error.status;
  return "{\"error\":" + to_text(body) + "}";
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after > 0) response.headers.emplace_back("retry-after", std::to_string(error.retry_after));
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

ApiError api_error(const Error& error, std::string param) {
  ApiError result{.status = 400, .message = error.message(), .param = std::move(param)};
  switch (error.kind()) {
    case ErrorKind::invalid:
    case ErrorKind::unsupported:
      break;
    case ErrorKind::not_found:
      result.status = 404;
      break;
    case ErrorKind::exhausted:
      result.status = 429;
      result.retry_after = 1;
      break;
    case ErrorKind::unavailable:
      result.status = 503;
      result.retry_after = 5;
      break;
    case ErrorKind::internal:
      result.status = 500;
      break;
  }
  return result;
}

}  // namespace octavo
