#include "cpu/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "cpu/peaks.h"

namespace octavo::cpu {

namespace {

constexpr int kMeasurements = 3;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kLeastBytesRead = 256 * kMiB;  // in one measurement
constexpr std::int64_t kRounds = 2'000'000;           // some ten milliseconds

float plain_read(const float* numbers, std::int64_t count) {
  constexpr int kSums = 16;
  float sums[kSums] = {};
  for (std::int64_t i = 0; i < count; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += numbers[i + j];
  return *std::max_element(sums, sums + kSums);
}

const Peaks& peaks_of(Isa isa) {
  switch (isa) {
    case Isa::plain:
      break;
    case Isa::avx2:
      return avx2::kPeaks;
    case Isa::avx512:
    case Isa::avx512vnni:
    case Isa::amx:
      return avx512::kPeaks;
  }
  return kPlainPeaks;
}

// The shortest of some measurements, in seconds. What `work` returns is kept, so that it is computed.
template <class Work>
double shortest(ThreadPool& pool, Work work) {
  std::atomic<float> kept = 0;
  double best = 0;
  for (int i = 0; i < kMeasurements; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pool.run(pool.num_threads(), [&](std::int64_t part) { kept.store(work(part), std::memory_order_relaxed); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i == 0 || seconds < best) best = seconds;
  }
  return best;
}

// Each thread reads its own share of the numbers, again and again.
double read_gb_s(ThreadPool& pool, const Peaks& peaks, const std::vector<float>& numbers, std::int64_t bytes) {
  const std::int64_t share = bytes / static_cast<std::int64_t>(sizeof(float)) / pool.num_threads();
  const std::int64_t count = std::max(kPeakStep, share / kPeakStep * kPeakStep);
  const std::int64_t read = count * pool.num_threads() * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t times = std::max<std::int64_t>(1, kLeastBytesRead / read);
  const double seconds = shortest(pool, [&](std::int64_t part) {
    float sum = 0;
    for (std::int64_t i = 0; i < times; ++i) sum += peaks.read(numbers.data() + part * count, count);
    return sum;
  });
  return 1e-9 * static_cast<double>(read * times) / seconds;
}

}  // namespace

const Peaks kPlainPeaks{.read = plain_read, .multiply_add = nullptr, .products = 0};

Ceilings measure_ceilings(ThreadPool& pool, Isa isa, std::size_t available_bytes) {
  const Peaks& peaks = peaks_of(isa);
  const std::int64_t threads = pool.num_threads();
  const std::int64_t smallest = threads * kMiB / 2;  // the second-level caches of all cores
  const std::int64_t most =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(available_bytes / 4), smallest, 512 * kMiB);
  const auto room = static_cast<std::size_t>(most / static_cast<std::int64_t>(sizeof(float)) + threads * kPeakStep);
  const std::vector<float> numbers(room);  // written with zeros, so that every page is there
  Ceilings ceilings;
  for (const std::int64_t bytes : {smallest, 16 * kMiB, 128 * kMiB, most}) {
    if (bytes > most || (!ceilings.reads.empty() && bytes <= ceilings.reads.back().bytes)) continue;
    ceilings.reads.push_back({bytes, read_gb_s(pool, peaks, numbers, bytes)});
  }
  ceilings.read_gb_s = ceilings.reads.back().gb_s;
  if (peaks.multiply_add == nullptr) return ceilings;
  const double seconds = shortest(pool, [&](std::int64_t) { return peaks.multiply_add(kRounds); });
  ceilings.f32_tflop_s = 2e-12 * static_cast<double>(kRounds * peaks.products * threads) / seconds;
  return ceilings;
}

}  // namespace octavo::cpu
