#include "server/wakeups.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>
#include <vector>

namespace octavo {
namespace {

// Streams between which the loop looks at its sockets: a probe does not wait for thousands of them.
constexpr std::size_t kAtOnce = 4;

}  // namespace

std::function<void()> Wakeups::waker(std::weak_ptr<Wakeable> target) {
  auto slot = std::make_shared<Slot>();
  slot->target = std::move(target);
  return [self = shared_from_this(), slot] {
    if (!slot->listed.exchange(true)) self->list(slot);
  };
}

void Wakeups::list(const std::shared_ptr<Slot>& slot) noexcept {
  try {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = slots_.empty();
      slots_.push_back(slot);
    }
    if (first) loop_.post([self = shared_from_this()] { self->drain(); });
  } catch (const std::exception&) {
    slot->listed = false;  // no memory: the stream looks by itself at its next tick
  }
}

void Wakeups::drain() {
  std::vector<std::shared_ptr<Slot>> slots;
  {
    const std::lock_guard lock(mutex_);
    const auto end = slots_.begin() + static_cast<std::ptrdiff_t>(std::min(slots_.size(), kAtOnce));
    slots.assign(std::make_move_iterator(slots_.begin()), std::make_move_iterator(end));
    slots_.erase(slots_.begin(), end);
    if (!slots_.empty()) loop_.post([self = shared_from_this()] { self->drain(); });
  }
  for (const auto& slot : slots) {
    slot->listed = false;
    if (const auto target = slot->target.lock()) target->woken();
  }
}

}  // namespace octavo
