#include "text/jinja/loop.h"

namespace octavo::jinja {

bool Loop::fetch() {
  Value item;
  while (cursor->next(item)) {
    if (accepts && !accepts(item)) continue;
    if (ahead_at_ == ahead_.size()) {
      ahead_.clear();
      ahead_at_ = 0;
    }
    if (ahead_.size() > 1) {  // loop.length of a filtered or generated sequence
      budget->take(sizeof(Value));
      num_bytes += sizeof(Value);
    }
    ahead_.push_back(std::move(item));
    return true;
  }
  return false;
}

const Value* Loop::peek() {
  if (ahead_at_ == ahead_.size() && !fetch()) return nullptr;
  return &ahead_[ahead_at_];
}

bool Loop::advance() {
  if (!peek()) return false;
  previous = std::move(current);
  current = std::move(ahead_[ahead_at_++]);
  ++index0;
  return true;
}

std::size_t Loop::length() {
  std::size_t length = 0;
  if (!accepts && find_length(source, length)) return length;
  while (fetch()) {
  }
  return static_cast<std::size_t>(index0 + 1) + ahead_.size() - ahead_at_;
}

}  // namespace octavo::jinja
