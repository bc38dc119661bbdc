// SseReader: server-sent events out of bytes, however these are cut. An event is the joined data of its lines;
// comments, names, ids and what has no data are skipped. Lines end in LF, CR or both. What is not ended by an empty
// line is no event. Refuses an event beyond 64 MiB.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace octavo {

class SseReader {
 public:
  // False: an event grew beyond every bound, and nothing more is read.
  bool feed(std::string_view bytes, const std::function<void(std::string_view data)>& event);

 private:
  void end_line(const std::function<void(std::string_view)>& event);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool first_line_ = true;  // may begin with a byte order mark
};

}  // namespace octavo
