#include "client/sse_reader.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr std::size_t kLongestEvent = std::size_t{64} << 20;

}  // namespace

void SseReader::end_line(const std::function<void(std::string_view)>& event) {
  std::string_view line = line_;
  if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  first_line_ = false;
  if (line.empty()) {
    if (has_data_) event(data_);
    data_.clear();
    has_data_ = false;
  } else if (const std::string_view field = line.substr(0, line.find(':')); field == "data") {
    std::string_view value = line.substr(std::min(field.size() + 1, line.size()));
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

bool SseReader::feed(std::string_view bytes, const std::function<void(std::string_view)>& event) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes[0] == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > kLongestEvent) return false;
    if (end == std::string_view::npos) return true;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(event);
  }
  return true;
}

}  // namespace octavo
