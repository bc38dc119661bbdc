// expanded_attention: keys and values of a head are made of each record in turn, and join the running softmax of every
// row that sees it.
#include <algorithm>
#include <vector>

#include "cpu/cache_rows.h"
#include "cpu/latent_form.h"
#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/running_softmax.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu::plain {

namespace {

// What turns a record of one head: [out, in] in double, read by rows or by columns.
class HeadMatrix {
 public:
  HeadMatrix(const HeadRows& rows, std::int64_t head) : transposed_(rows.transposed), in_(rows.weight.in) {
    numbers_.resize(static_cast<std::size_t>(rows.count * in_));
    for (std::int64_t r = 0; r < rows.count; ++r)
      load_weight_row(rows.weight, head * rows.unit + rows.first + r, numbers_.data() + r * in_);
  }

  void multiply(const double* x, std::int64_t width, double* out, std::int64_t count) const {
    for (std::int64_t o = 0; o < count; ++o) {
      out[o] = 0.0;
      for (std::int64_t i = 0; i < width; ++i)
        out[o] += x[i] * numbers_[static_cast<std::size_t>(transposed_ ? i * in_ + o : o * in_ + i)];
    }
  }

 private:
  bool transposed_;
  std::int64_t in_;
  std::vector<double> numbers_;
};

// One head's rows of one sequence.
class ExpandedRows {
 public:
  ExpandedRows(const ExpandedAttentionArgs& args, const PageLayout& layout, std::int64_t seq, std::int64_t head)
      : args_(args),
        layout_(layout),
        seq_(seq),
        head_(head),
        first_row_(ints(args.batch.query_start)[seq]),
        rows_(ints(args.batch.query_start)[seq + 1] - first_row_),
        first_position_(ints(args.batch.context)[seq] - rows_),
        key_(args.key, head),
        value_(args.value, head) {}

  void run() {
    load_queries();
    std::vector<double> key(static_cast<std::size_t>(args_.q.size(2)));
    std::vector<double> value(static_cast<std::size_t>(args_.out.size(2)));
    for (std::int64_t j = 0; j < first_position_ + rows_; ++j) {
      make(j, key, value);
      for (std::int64_t row = std::max<std::int64_t>(0, j - first_position_); row < rows_; ++row)
        running_[static_cast<std::size_t>(row)].add(
            score_of(args_.rule, queries_.data() + row * args_.q.size(2), key.data(), static_cast<int>(key.size())),
            value.data());
    }
    store();
  }

 private:
  void load_queries() {
    const std::int64_t width = args_.q.size(2);
    queries_.resize(static_cast<std::size_t>(rows_ * width));
    running_.resize(static_cast<std::size_t>(rows_));
    std::vector<float> row(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < rows_; ++i) {
      load_row(row_at(args_.q, first_row_ + i, head_), args_.q.dtype(), width, row.data());
      std::copy(row.begin(), row.end(), queries_.begin() + i * width);
      running_[static_cast<std::size_t>(i)].values.assign(static_cast<std::size_t>(args_.out.size(2)), 0.0);
    }
  }

  // W_UK c beside the rope key, and W_UV c.
  void make(std::int64_t j, std::vector<double>& key, std::vector<double>& value) const {
    const KvView& kv = args_.kv;
    const std::int64_t slot = slot_of(kv, seq_, j);
    const std::int64_t width = kv.format.segments[0].width;
    const std::int64_t rope = kv.format.segments[1].width;
    std::vector<double> latent(static_cast<std::size_t>(width));
    read_cache_row(kv, layout_, 0, 0, slot, latent.data());
    const std::int64_t nope = std::ssize(key) - rope;
    key_.multiply(latent.data(), width, key.data(), nope);
    read_cache_row(kv, layout_, 1, 0, slot, key.data() + nope);
    value_.multiply(latent.data(), width, value.data(), std::ssize(value));
  }

  void store() const {
    const std::int64_t width = args_.out.size(2);
    std::vector<float> row(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < rows_; ++i) {
      const Running& running = running_[static_cast<std::size_t>(i)];
      for (std::size_t c = 0; c < row.size(); ++c) row[c] = static_cast<float>(running.values[c] / running.sum);
      store_row(row.data(), width, row_at(args_.out, first_row_ + i, head_), args_.out.dtype());
    }
  }

  const ExpandedAttentionArgs& args_;
  const PageLayout& layout_;
  const std::int64_t seq_;
  const std::int64_t head_;
  const std::int64_t first_row_;
  const std::int64_t rows_;
  const std::int64_t first_position_;
  const HeadMatrix key_;
  const HeadMatrix value_;
  std::vector<double> queries_;   // [rows, width]
  std::vector<Running> running_;  // [rows]
};

}  // namespace

void expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args) {
  check_expanded_attention(args);
  const PageLayout layout = page_layout(args.kv.format, args.kv.page_size);
  const std::int64_t heads = args.out.size(1);
  pool.run(args.batch.num_seqs * heads, [&](std::int64_t i) {
    if (ints(args.batch.query_start)[i / heads] >= args.first_row)
      ExpandedRows(args, layout, i / heads, i % heads).run();
  });
}

}  // namespace octavo::cpu::plain
