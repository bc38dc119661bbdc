#include "server/page.h"

#include <array>
#include <string>
#include <utility>

namespace octavo {
namespace {

// Text of models can reach the page's elements as text alone: no script in the document, and none made from strings.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
      {{".html", "text/html; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".svg", "image/svg+xml"}}};
  for (const auto& [end, type] : kTypes)
    if (name.ends_with(end)) return type;
  return "application/octet-stream";
}

HttpResponse page_response(const PageFile& file, const HttpRequest& request) {
  const std::string tag = "\"" + std::string(file.sha256.substr(0, 32)) + "\"";
  HttpResponse response;
  response.headers = {{"etag", tag},
                      {"cache-control", "no-cache"},  // asked about each time, so a new octavo is a new page
                      {"content-security-policy", kPolicy},
                      {"x-content-type-options", "nosniff"},
                      {"referrer-policy", "no-referrer"}};
  if (request.header("if-none-match").find(tag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  response.body = std::string(file.text);
  response.content_type = std::string(type_of(file.name));
  return response;
}

}  // namespace

void add_page_routes(Router& router) {
  const auto add = [&](std::string path, const PageFile& file) {
    router.add({.method = "GET",
                .path = std::move(path),
                .handler =
                    [&file](Service&, const std::shared_ptr<Exchange>& exchange) {
                      exchange->respond(page_response(file, exchange->request()));
                    },
                .for_programs = false});
  };
  for (const PageFile& file : page_files()) {
    add(file.name == "index.html" ? "/" : "/page/" + std::string(file.name), file);
    if (file.name == "icon.svg") add("/favicon.ico", file);
  }
}

}  // namespace octavo
