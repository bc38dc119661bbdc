#include "terminal/progress.h"

#include <unistd.h>

#include <cstdio>

namespace octavo {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress(std::string what, int total, bool shown)
    : what_(std::move(what)), total_(total), shown_(shown), terminal_(::isatty(STDERR_FILENO) == 1) {}

std::string Progress::line(const std::string& what, int done, int total, int width, const std::string& note) {
  const int filled = total > 0 ? static_cast<int>(static_cast<long long>(width) * done / total) : width;
  std::string text = what + " [" + std::string(static_cast<std::size_t>(filled), '#') +
                     std::string(static_cast<std::size_t>(width - filled), '-') + "] " + std::to_string(done) + "/" +
                     std::to_string(total);
  return note.empty() ? text : text + "  " + note;
}

void Progress::advance(int done, const std::string& note) {
  if (!shown_) return;
  const std::string text = line(what_, done, total_, kBarWidth, note);
  if (!terminal_) {
    const int tenths = total_ > 0 ? static_cast<int>(10LL * done / total_) : 10;
    if (tenths == tenths_) return;
    tenths_ = tenths;
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (done < total_ && now - last_ < kRedraw) return;
  last_ = now;
  drawn_ = true;
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
}

void Progress::finish() {
  if (drawn_) std::fputs("\n", stderr);
  drawn_ = false;
}

}  // namespace octavo
