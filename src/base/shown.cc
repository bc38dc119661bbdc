#include "base/shown.h"

#include "base/json.h"
#include "base/strings.h"

namespace octavo {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string visible(std::string_view text, std::size_t longest) {
  std::size_t end = text.size();
  if (end > longest)
    for (end = longest; end > 0 && continues_character(text[end]);) --end;
  std::string result;
  for (const char c : text.substr(0, end)) append_visible(result, c);
  return end < text.size() ? result + "..." : result;
}

std::string shown(const Json& value) { return visible(to_text(value)); }

}  // namespace octavo
