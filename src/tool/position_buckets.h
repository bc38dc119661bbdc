// PositionBuckets: divergences gathered by how far back a position could look: 0-255, 256-1023, 1024-2047, 2048-4095
// and so on, doubling; and all together.
#pragma once

#include <string>
#include <vector>

#include "tool/likelihood.h"

namespace octavo {

struct DivergenceSummary {
  std::string name;  // "256-1k", "all"
  int first = 0;     // positions [first, end)
  int end = 0;
  std::int64_t positions = 0;
  double mean = 0;
  double p99 = 0;
  double max = 0;
  double same_argmax = 0;  // share
};

class PositionBuckets {
 public:
  void add(int position, const Divergence& divergence);
  // Those that hold something, in order, then "all".
  std::vector<DivergenceSummary> summaries() const;

 private:
  struct Bucket {
    std::vector<double> kl;
    std::int64_t same = 0;
  };
  static DivergenceSummary summary(const Bucket& bucket);
  std::vector<Bucket> buckets_;
};

// Where bucket i begins: 0, 256, 1024, 2048, 4096, ...
int bucket_begin(std::size_t bucket);

}  // namespace octavo
