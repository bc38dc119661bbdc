// attention: each key in turn joins the running softmax of every query row that sees it. A row's result depends on its
// own keys in their order alone, however the step is cut into pieces, chunks and pages.
#include <algorithm>
#include <iterator>
#include <vector>

#include "cpu/attention_plan.h"
#include "cpu/cache_rows.h"
#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/running_softmax.h"

namespace octavo::cpu::plain {

namespace {

// What the two segments mean. Grouped: K and V. Latent: keys are latent and rope side by side, values are the latent
// again.
struct RecordShape {
  bool latent = false;
  int key_width = 0;
  int value_width = 0;
};

RecordShape shape_of(const KvFormat& format) {
  const int first = format.segments[0].width;
  const int second = format.segments[1].width;
  if (is_latent(format)) return {true, first + second, first};
  return {false, first, second};
}

class PieceRunner {
 public:
  PieceRunner(const AttentionArgs& args, const PageLayout& layout, const AttentionPiece& piece)
      : args_(args), layout_(layout), piece_(piece), shape_(shape_of(args.kv.format)) {
    group_ = static_cast<int>(args.query.values.size(1)) / args.kv.format.segments[0].heads;
    const auto* query_start = ints(args.batch.query_start);
    const std::int32_t context = ints(args.batch.context)[piece.seq];
    first_position_ = context - (query_start[piece.seq + 1] - piece.first_row);
    check(first_position_ >= 0, "a sequence has more query rows than tokens");
    load_queries();
  }

  void run() {
    const std::int64_t last = first_position_ + piece_.num_rows - 1;
    std::vector<double> key(static_cast<std::size_t>(shape_.key_width));
    std::vector<double> value(static_cast<std::size_t>(shape_.value_width));
    for (std::int64_t j = first_visible(first_position_); j <= last; ++j) {
      load_key(j, key.data(), value.data());
      for (int row = 0; row < piece_.num_rows; ++row) {
        const std::int64_t position = first_position_ + row;
        if (j > position || j < first_visible(position)) continue;
        for (int g = 0; g < group_; ++g) {
          const auto i = static_cast<std::size_t>(row * group_ + g);
          running_[i].add(score_of(args_.rule, queries_.data() + i * key.size(), key.data(), shape_.key_width),
                          value.data());
        }
      }
    }
    store();
  }

 private:
  std::int64_t first_visible(std::int64_t position) const {
    return args_.rule.window == 0 ? 0 : std::max<std::int64_t>(0, position - args_.rule.window + 1);
  }
  int head_of(int g) const { return piece_.kv_head * group_ + g; }

  void load_queries() {
    const float* sinks = floats(args_.rule.sinks);
    const auto width = static_cast<std::size_t>(shape_.key_width);
    queries_.resize(static_cast<std::size_t>(piece_.num_rows * group_) * width);
    running_.resize(static_cast<std::size_t>(piece_.num_rows * group_));
    std::vector<float> row(width);
    for (int i = 0; i < piece_.num_rows * group_; ++i) {
      const int head = head_of(i % group_);
      load_row(row_at(args_.query.values, piece_.first_row + i / group_, head), DType::f32, shape_.key_width,
               row.data());
      std::copy(row.begin(), row.end(), queries_.begin() + static_cast<std::ptrdiff_t>(i * width));
      Running& running = running_[static_cast<std::size_t>(i)];
      running.values.assign(static_cast<std::size_t>(shape_.value_width), 0.0);
      if (sinks != nullptr) {
        running.max = sinks[head];
        running.sum = 1.0;
      }
    }
  }

  void load_key(std::int64_t j, double* key, double* value) const {
    const KvView& kv = args_.kv;
    const std::int64_t slot = slot_of(kv, piece_.seq, j);
    read_cache_row(kv, layout_, 0, piece_.kv_head, slot, key);
    read_cache_row(kv, layout_, 1, piece_.kv_head, slot, shape_.latent ? key + shape_.value_width : value);
    if (shape_.latent) std::copy(key, key + shape_.value_width, value);
  }

  void store() const {
    std::vector<float> row(static_cast<std::size_t>(shape_.value_width));
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const Running& running = running_[i];
      for (std::size_t c = 0; c < row.size(); ++c) row[c] = static_cast<float>(running.values[c] / running.sum);
      const int index = static_cast<int>(i);
      store_row(row.data(), shape_.value_width,
                row_at(args_.out, piece_.first_row + index / group_, head_of(index % group_)), args_.out.dtype());
    }
  }

  const AttentionArgs& args_;
  const PageLayout& layout_;
  const AttentionPiece& piece_;
  const RecordShape shape_;
  int group_ = 1;
  std::int64_t first_position_ = 0;
  std::vector<double> queries_;   // [rows, group, key_width]
  std::vector<Running> running_;  // [rows, group]
};

}  // namespace

void attention(ThreadPool& pool, const AttentionArgs& args, bool) {
  const PageLayout layout = page_layout(args.kv.format, args.kv.page_size);
  check_view(args.kv, layout);
  const RecordShape shape = shape_of(args.kv.format);
  const Tensor& q = args.query.values;
  check(q.dtype() == DType::f32 && q.size(2) == shape.key_width && q.size(1) % args.kv.format.segments[0].heads == 0,
        "queries do not have the shape that query_spec() says");
  check(args.out.size(0) == q.size(0) && args.out.size(1) == q.size(1) && args.out.size(2) == shape.value_width,
        "the shape of attention's result");
  check(args.rule.sinks.empty() || args.rule.sinks.elements() == q.size(1), "one sink a query head");
  const auto& plan = static_cast<const CpuAttentionPlan&>(args.plan);
  const std::vector<AttentionPiece>& pieces = plan.pieces();
  check(pieces.empty() || plan.kv_heads() == args.kv.format.segments[0].heads,
        "layers of one plan have as many KV heads");
  pool.run(std::ssize(pieces), [&](std::int64_t i) {
    const AttentionPiece& piece = pieces[static_cast<std::size_t>(i)];
    if (piece.first_row < q.size(0)) PieceRunner(args, layout, piece).run();  // the step may have more rows
  });
}

}  // namespace octavo::cpu::plain
