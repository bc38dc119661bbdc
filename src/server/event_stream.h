// Server-sent events as text.
#pragma once

#include <string>
#include <string_view>

namespace octavo {

constexpr std::string_view kEventStreamType = "text/event-stream; charset=utf-8";
constexpr std::string_view kStreamDone = "data: [DONE]\n\n";
constexpr std::string_view kStreamPing = ": ping\n\n";  // a comment: says that the server is alive

// `json` is one line.
inline void append_event(std::string& out, std::string_view json) { out.append("data: ").append(json).append("\n\n"); }

}  // namespace octavo
