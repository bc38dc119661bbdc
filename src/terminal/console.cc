#include "terminal/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxStdin = std::size_t{1} << 30;

Error stdout_error() { return Error(std::string("cannot write to stdout: ") + std::strerror(errno)); }

// Appends what one read gives; false at the end of input.
Result<bool> read_some(std::string& text) {
  char buffer[1 << 16];
  ssize_t count;
  do count = ::read(STDIN_FILENO, buffer, sizeof buffer);
  while (count < 0 && errno == EINTR);
  if (count < 0) return Error(std::string("cannot read stdin: ") + std::strerror(errno));
  text.append(buffer, static_cast<std::size_t>(count));
  if (text.size() > kMaxStdin) return Error("stdin holds more than 1 GiB");
  return count > 0;
}

Status check_utf8(std::string_view text) {
  const std::size_t at = find_invalid_utf8(text);
  if (at == std::string_view::npos) return {};
  return Error("stdin is not valid UTF-8 at byte " + std::to_string(at));
}

}  // namespace

Status write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return stdout_error();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status check_stdout() {
  if (::fcntl(STDOUT_FILENO, F_GETFD) < 0) return stdout_error();
  return {};
}

Status check_output_file(const std::string& path, const std::string& model_path) {
  if (path.empty()) return {};
  if (directory_exists(path)) return Error(path + " is a folder: name a file to write");
  if (::access(path.c_str(), F_OK) == 0 && !file_exists(path))
    return Error(path + " is not a regular file: name one to write");
  const std::size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (!directory_exists(folder)) return Error("cannot write " + path + ": there is no folder " + folder);
  std::error_code code;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, code);
  const std::filesystem::path model = std::filesystem::weakly_canonical(model_path, code);
  if (file_exists(path) && (target == model || target.parent_path() == model))
    return Error(path + " is a file of the model " + model_path + ": name another one to write");
  return {};
}

Result<std::string> read_stdin_text() {
  std::string text;
  for (bool more = true; more;) {
    OCTAVO_TRY(more, read_some(text));
  }
  OCTAVO_TRY(check_utf8(text));
  return text;
}

Result<bool> read_stdin_line(std::string& line) {
  line.clear();
  for (char c; true;) {
    const ssize_t count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error(std::string("cannot read stdin: ") + std::strerror(errno));
    if (count == 0 && line.empty()) return false;
    if (count == 0 || c == '\n') break;
    line += c;
    if (line.size() > kMaxStdin) return Error("a line of stdin holds more than 1 GiB");
  }
  return true;
}

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

InterruptWatcher::InterruptWatcher() : thread_([this] { watch(); }) {}

InterruptWatcher::~InterruptWatcher() {
  leaving_ = true;
  thread_.join();
}

void InterruptWatcher::watch() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  const timespec pause{0, 20'000'000};
  while (!leaving_) {
    if (sigtimedwait(&signals, nullptr, &pause) != SIGINT) continue;
    const std::lock_guard lock(mutex_);
    if (stop_) {
      interrupted_ = true;
      stop_();
    } else if (chatting_) {
      std::fputs("\n(Ctrl-D leaves)\n> ", stderr);
    } else {
      std::fputs("octavo: interrupted before the work was done\n", stderr);
      std::_Exit(1);
    }
  }
}

void InterruptWatcher::begin_answer(std::function<void()> stop) {
  const std::lock_guard lock(mutex_);
  interrupted_ = false;
  stop_ = std::move(stop);
}

bool InterruptWatcher::end_answer() {
  const std::lock_guard lock(mutex_);
  stop_ = nullptr;
  return interrupted_;
}

}  // namespace octavo
