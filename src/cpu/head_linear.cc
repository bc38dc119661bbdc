// head_linear: a head's rows are read once for a block of tokens. Each result is summed in double in the order of the
// matrix, whatever other tokens there are.
#include <algorithm>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu::plain {

namespace {

constexpr std::int64_t kTokensOfBlock = 16;

class HeadProduct {
 public:
  HeadProduct(const HeadLinearArgs& args, std::int64_t head, std::int64_t begin)
      : args_(args),
        head_(head),
        begin_(begin),
        tokens_(std::min(kTokensOfBlock, args.x.size(0) - begin)),
        x_(load_block()),
        sums_(static_cast<std::size_t>(tokens_ * args.out.size(2))) {}

  void run() {
    const std::int64_t in = args_.weight.in;
    std::vector<double> row(static_cast<std::size_t>(in));
    for (std::int64_t r = 0; r < args_.count; ++r) {
      load_weight_row(args_.weight, head_ * args_.unit + args_.first + r, row.data());
      for (std::int64_t t = 0; t < tokens_; ++t) {
        const float* x = x_.data() + t * args_.x.size(2);
        double* sums = sums_.data() + t * args_.out.size(2);
        if (args_.transposed)
          for (std::int64_t i = 0; i < in; ++i) sums[i] += static_cast<double>(x[r]) * row[static_cast<std::size_t>(i)];
        else
          for (std::int64_t i = 0; i < in; ++i) sums[r] += static_cast<double>(x[i]) * row[static_cast<std::size_t>(i)];
      }
    }
    store();
  }

 private:
  std::vector<float> load_block() const {
    const std::int64_t width = args_.x.size(2);
    std::vector<float> block(static_cast<std::size_t>(tokens_ * width));
    for (std::int64_t t = 0; t < tokens_; ++t)
      load_row(row_at(args_.x, begin_ + t, head_), args_.x.dtype(), width, block.data() + t * width);
    return block;
  }

  void store() const {
    const std::int64_t width = args_.out.size(2);
    const std::vector<float> rounded(sums_.begin(), sums_.end());
    for (std::int64_t t = 0; t < tokens_; ++t)
      store_row(rounded.data() + t * width, width, row_at(args_.out, begin_ + t, head_), args_.out.dtype());
  }

  const HeadLinearArgs& args_;
  const std::int64_t head_;
  const std::int64_t begin_;
  const std::int64_t tokens_;
  const std::vector<float> x_;  // [tokens, width of x]
  std::vector<double> sums_;    // [tokens, width of out]
};

}  // namespace

void check_head_linear(const HeadLinearArgs& args) {
  check_weight(args.weight);
  const std::int64_t tokens = args.x.size(0);
  const std::int64_t heads = args.x.size(1);
  check(
      args.first >= 0 && args.count > 0 && args.first + args.count <= args.unit && args.weight.out == heads * args.unit,
      "a head's rows lie within its unit");
  check(args.x.size(2) == (args.transposed ? args.count : args.weight.in) && args.out.size(0) == tokens &&
            args.out.size(1) == heads && args.out.size(2) == (args.transposed ? args.weight.in : args.count),
        "shapes of head_linear");
}

void head_linear(ThreadPool& pool, const HeadLinearArgs& args) {
  check_head_linear(args);
  const std::int64_t heads = args.x.size(1);
  const std::int64_t blocks = (args.x.size(0) + kTokensOfBlock - 1) / kTokensOfBlock;
  pool.run(heads * blocks, [&](std::int64_t i) { HeadProduct(args, i % heads, i / heads * kTokensOfBlock).run(); });
}

}  // namespace octavo::cpu::plain
