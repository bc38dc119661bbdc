#include "engine/load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace octavo {
namespace {

constexpr double kQuiet = 0.5;         // seconds before a terminal shows anything
constexpr double kLong = 2.0;          // seconds from which the log tells
constexpr double kBetweenDraws = 0.1;  // seconds
constexpr int kStep = 10;              // percent between lines of the log
constexpr int kBarWidth = 30;

std::size_t bytes_of(const Weight& weight) {
  std::size_t bytes = 0;
  for (const WeightPart& part : weight.parts) bytes += static_cast<std::size_t>(part.values.bytes());
  return bytes;
}

}  // namespace

LoadProgress::Display LoadProgress::standard_error() {
  return {.terminal = isatty(STDERR_FILENO) == 1,
          .write =
              [](const std::string& text) {
                std::fputs(text.c_str(), stderr);
                std::fflush(stderr);
              },
          .log =
              [](int percent, std::size_t bytes, double bytes_per_second) {
                log::info("loading", {{"percent", percent},
                                      {"bytes", bytes},
                                      {"bytes_per_second", static_cast<std::int64_t>(bytes_per_second)}});
              },
          .clock = [] { return std::chrono::steady_clock::now().time_since_epoch(); }};
}

LoadProgress::LoadProgress(Binder& binder, std::size_t total_bytes, Display display)
    : binder_(binder), total_(std::max<std::size_t>(total_bytes, 1)), display_(std::move(display)) {
  start_ = drawn_ = display_.clock().count();
}

LoadProgress::~LoadProgress() {
  if (line_) display_.write("\r\033[K");
}

Status LoadProgress::weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) {
  OCTAVO_TRY(binder_.weight(target, parts, in));
  add(bytes_of(target));
  return {};
}

Status LoadProgress::experts(std::vector<Weight>& target, const ExpertsRequest& request) {
  OCTAVO_TRY(binder_.experts(target, request));
  for (const Weight& expert : target) add(bytes_of(expert));
  return {};
}

Status LoadProgress::expert_biases(Tensor& target, const ExpertsRequest& request) {
  OCTAVO_TRY(binder_.expert_biases(target, request));
  add(static_cast<std::size_t>(target.bytes()));
  return {};
}

Status LoadProgress::vectors(Tensor& target, std::span<const PartRequest> parts) {
  OCTAVO_TRY(binder_.vectors(target, parts));
  add(static_cast<std::size_t>(target.bytes()));
  return {};
}

Status LoadProgress::depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) {
  OCTAVO_TRY(binder_.depthwise(target, parts, taps));
  add(static_cast<std::size_t>(target.bytes()));
  return {};
}

Status LoadProgress::constant(Tensor& target, std::span<const float> values) {
  return binder_.constant(target, values);
}

void LoadProgress::add(std::size_t bytes) {
  done_ += bytes;
  const double now = display_.clock().count();
  const double seconds = now - start_;
  const int percent =
      static_cast<int>(std::min(100.0, 100.0 * static_cast<double>(done_) / static_cast<double>(total_)));
  if (display_.terminal) {
    if (seconds < kQuiet || now - drawn_ < kBetweenDraws) return;
    drawn_ = now;
    return draw(percent, seconds);
  }
  if (seconds < kLong || percent / kStep == told_ / kStep) return;
  told_ = percent;
  display_.log(percent, done_, static_cast<double>(done_) / seconds);
}

// "loading [#########                     ] 30%  4.5 of 15.0 GiB  5.1 GiB/s"
void LoadProgress::draw(int percent, double seconds) {
  const auto full = static_cast<std::size_t>(percent * kBarWidth / 100);
  const double speed = static_cast<double>(done_) / seconds;
  line_ = true;
  display_.write("\rloading [" + std::string(full, '#') + std::string(kBarWidth - full, ' ') + "] " +
                 std::to_string(percent) + "%  " + human_bytes(done_) + " of " + human_bytes(total_) + "  " +
                 human_bytes(static_cast<std::uint64_t>(speed)) + "/s\033[K");
}

}  // namespace octavo
