#include "server/wakeups.h"

#include <exception>
#include <utility>

namespace octavo {

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
    slots.swap(slots_);
  }
  for (const auto& slot : slots) {
    slot->listed = false;
    if (const auto target = slot->target.lock()) target->woken();
  }
}

}  // namespace octavo
