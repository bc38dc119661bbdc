// Device: where numbers lie and in which order work happens. A contract; each wing implements it.
//
// Work given to a device happens in order. The host may read device memory only after synchronize(); on the CPU wing
// device memory is host memory and every call has finished when it returns.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "tensor/tensor.h"

namespace octavo {

// A piece of work that was recorded and can be replayed on the same memory. On CUDA a graph, on the CPU a kept closure.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

// Bytes on their way to the host. Work that is given to the device later does not delay them.
class Download {
 public:
  virtual ~Download() = default;
  virtual std::span<const std::byte> wait() = 0;  // valid as long as this object is
};

struct MemoryInfo {
  std::size_t total_bytes = 0;
  std::size_t available_bytes = 0;
  std::size_t held_bytes = 0;  // allocated through this device; 0 where it is not told
  bool dedicated = false;      // apart from the host's: nothing else on the machine needs what is left free
};

struct RandomMatrix;  // tensor/random_matrix.h

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string describe() const = 0;  // "2 threads, avx512" / the card's name
  virtual MemoryInfo memory() const = 0;

  // Uninitialised memory, aligned to at least 64 bytes. `purpose` is for the message and the account:
  // "cannot allocate 3.0 GiB for the KV cache: 1.2 GiB available".
  virtual Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) = 0;
  virtual void fill_zero(std::byte* data, std::size_t bytes) = 0;
  // Random numbers, rows one after another; on every device the same.
  virtual void fill_random(std::byte* to, const RandomMatrix& matrix);

  // Makes host bytes readable by this device. A wing whose memory is the host's returns a view that keeps `owner` alive
  // and copies nothing; another copies. `bytes` need not be aligned.
  virtual Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                               const std::string& purpose) = 0;

  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;    // has taken the bytes when it returns
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;  // complete when it returns
  virtual std::unique_ptr<Download> begin_download(const std::byte* from, std::size_t bytes);
  virtual void synchronize() = 0;

  // Whether calls return before their work is done, so that the host can prepare the next step meanwhile.
  virtual bool asynchronous() const { return false; }
  // Ok, or why this device can work no more (a fault of the hardware or of a kernel, which lasts). To be asked after a
  // wait and before its bytes are believed.
  virtual Status status() const { return {}; }

  // Runs `work` once, and keeps it unless that is an error. `work` must read its inputs from device memory at fixed
  // addresses.
  virtual Result<std::unique_ptr<Recording>> record(std::function<void()> work) = 0;
};

}  // namespace octavo
