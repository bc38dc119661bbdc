#include "engine/failing_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace octavo {
namespace {

constexpr int kNever = -1;
thread_local int allowed_on_this_thread = kNever;

// Every form of new and delete is replaced, so that what one gives another takes back.
void* allocate(std::size_t bytes) {
  if (allowed_on_this_thread != kNever && allowed_on_this_thread-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* allocate_or_null(std::size_t bytes) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

// After the failure the count stands at kNever: all succeed.
void FailingMemory::arm() { allowed_on_this_thread = allowed_; }
void FailingMemory::disarm() {
  allowed_ = allowed_on_this_thread;
  allowed_on_this_thread = kNever;
}

TEST(FailingMemory, FailsOnce) {
  FailingMemory memory(1);
  memory.arm();
  EXPECT_NO_THROW(std::make_unique<int>(1));
  EXPECT_THROW(std::make_unique<int>(2), std::bad_alloc);
  EXPECT_NO_THROW(std::make_unique<int>(3));
  memory.disarm();
}

}  // namespace octavo

void* operator new(std::size_t bytes) { return octavo::allocate(bytes); }
void* operator new[](std::size_t bytes) { return octavo::allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return octavo::allocate_or_null(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return octavo::allocate_or_null(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
