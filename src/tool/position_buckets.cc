#include "tool/position_buckets.h"

#include <algorithm>
#include <limits>

#include "terminal/statistics.h"

namespace octavo {
namespace {

std::string short_count(int count) { return count < 1024 ? std::to_string(count) : std::to_string(count / 1024) + "k"; }

std::string range_name(int first, int end) {
  return first == 0 ? "0-" + std::to_string(end - 1) : short_count(first) + "-" + short_count(end);
}

}  // namespace

int bucket_begin(std::size_t bucket) {
  if (bucket < 2) return bucket == 0 ? 0 : 256;
  return bucket < 23 ? 1024 << (bucket - 2) : std::numeric_limits<int>::max();
}

void PositionBuckets::add(int position, const Divergence& divergence) {
  std::size_t index = 0;
  while (position >= bucket_begin(index + 1)) ++index;
  if (buckets_.size() <= index) buckets_.resize(index + 1);
  buckets_[index].kl.push_back(divergence.kl);
  if (divergence.same_best) ++buckets_[index].same;
}

DivergenceSummary PositionBuckets::summary(const Bucket& bucket) {
  DivergenceSummary result;
  result.positions = std::ssize(bucket.kl);
  result.mean = mean(bucket.kl);
  result.p99 = percentile(bucket.kl, 99);
  result.max = *std::max_element(bucket.kl.begin(), bucket.kl.end());
  result.same_argmax = static_cast<double>(bucket.same) / static_cast<double>(bucket.kl.size());
  return result;
}

std::vector<DivergenceSummary> PositionBuckets::summaries() const {
  std::vector<DivergenceSummary> result;
  Bucket all;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (bucket.kl.empty()) continue;
    result.push_back(summary(bucket));
    result.back().first = bucket_begin(i);
    result.back().end = bucket_begin(i + 1);
    result.back().name = range_name(result.back().first, result.back().end);
    all.kl.insert(all.kl.end(), bucket.kl.begin(), bucket.kl.end());
    all.same += bucket.same;
  }
  if (all.kl.empty()) return result;
  const int end = result.back().end;
  result.push_back(summary(all));
  result.back().name = "all";
  result.back().end = end;
  return result;
}

}  // namespace octavo
