// Console: what a command reads and writes. Output that cannot be written is an error, not silence; Ctrl-C is a flag or
// the end, as the command says. main blocks SIGINT and ignores SIGPIPE before any thread starts; nothing here is
// global.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace octavo {

// Writes all of it to stdout and flushes; "cannot write to stdout: No space left on device".
Status write_stdout(std::string_view text);
// Whether there is a stdout at all; checked before files are opened that could take its number.
Status check_stdout();
// Whether a file can be written there, as far as its folder tells; checked before work that would be lost. Empty: none
// is asked for. A file of the model is refused: weights are mapped while they are used, and a result over them would
// destroy them.
Status check_output_file(const std::string& path, const std::string& model_path);

// All of stdin. Refuses bytes that are not UTF-8, with their offset.
Result<std::string> read_stdin_text();
// One line without its end, as it is; false at the end of input.
Result<bool> read_stdin_line(std::string& line);
bool stdin_is_terminal();

// Waits for SIGINT in a thread of its own while it lives. Outside an answer the program ends at once with one sentence;
// while `answering` the flag `interrupted` is raised and the callback runs.
class InterruptWatcher {
 public:
  InterruptWatcher();
  ~InterruptWatcher();

  void begin_answer(std::function<void()> stop);
  bool end_answer();  // whether Ctrl-C came meanwhile
  // Waiting for a line of a chat: Ctrl-C does nothing but say how to leave.
  void set_chatting(bool chatting) { chatting_ = chatting; }

 private:
  void watch();
  std::mutex mutex_;
  std::function<void()> stop_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> chatting_{false};
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace octavo
