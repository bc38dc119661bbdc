// kv_write of the vector paths: a token's heads, or its latent and rope key, through norm, rope and rotation, then as
// codes into their page.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu/cache_rows.h"
#include "cpu/plain.h"
#include "cpu/row_tasks.h"
#include "cpu/row_verbs.h"
#include "cpu/rows.h"
#include "kv/codec.h"

namespace octavo::cpu {

namespace {

constexpr int kMaxWidth = 1024;
constexpr std::int64_t kTokensOfPart = 4;
constexpr std::int64_t kQueryNumbersOfPart = 4096;  // a token of a latent cache has a query that large

bool is_vectored(const KvWriteArgs& args) {
  const auto fits = [](const Tensor& x) {
    return x.empty() || (is_activation(x) && x.size(2) % 16 == 0 && x.size(2) <= kMaxWidth);
  };
  return fits(args.q) && fits(args.k) && fits(args.v);
}

// The number that hadamard() of kv/codec.h multiplies a row with.
float hadamard_norm(int block) {
  float norm = 1.0f;
  for (int n = block; n >= 4; n /= 4) norm *= 0.5f;
  return std::countr_zero(static_cast<unsigned>(block)) % 2 == 1 ? norm * 0.70710678118654752f : norm;
}

class HeadWriter {
 public:
  HeadWriter(const KvWriteArgs& args, const PageLayout& layout, const RowKernels& kernels)
      : args_(args), layout_(layout), kernels_(kernels) {
    q_task_ = task_of(args.q, args.q_norm, true);
    if (args.k.empty()) return;
    k_task_ = task_of(args.k, args.k_norm, true);
    v_task_ = task_of(args.v, args.v_norm, false);
  }

  // One token after the other; what was noticed is added up.
  void write(std::int64_t token) {
    if (q_task_.pairs > 0)
      kernels_.angles(floats(args_.rope.inv_freq), q_task_.pairs, static_cast<float>(ints(args_.positions)[token]),
                      args_.rope.factor, cos_, sin_);
    for (std::int64_t head = 0; token < args_.q.size(0) && head < args_.q.size(1); ++head)
      prepare(q_task_, args_.q, token, head, reinterpret_cast<float*>(row_at(args_.query.values, token, head)));
    if (args_.k.empty()) return;
    const std::int32_t slot = ints(args_.slots)[token];
    check(slot >= 0 && slot / args_.kv.page_size < args_.kv.num_pages, "a slot beyond the cache");
    RowCounts padding[2];
    RowCounts* counts = slot >= args_.kv.page_size ? counts_ : padding;  // page 0 takes padding
    for (int head = 0; head < static_cast<int>(args_.k.size(1)); ++head) {
      prepare(k_task_, args_.k, token, head, row_);
      store(0, head, slot, counts[0]);
      prepare(v_task_, args_.v, token, head, row_);
      store(1, head, slot, counts[1]);
    }
  }

  void finish() const {
    if (args_.kv.counters != nullptr && counts_[0].written > 0) add_counts(*args_.kv.counters, counts_[0], counts_[1]);
  }

 private:
  HeadTask task_of(const Tensor& x, const NormRule* norm, bool key) const {
    HeadTask task;
    task.width = static_cast<int>(x.size(2));
    if (norm != nullptr) {
      task.normed = true;
      task.weight = floats(norm->weight);
      check(task.weight == nullptr || norm->weight.elements() == x.size(2), "a norm's weight has one number a channel");
      task.eps = norm->eps;
      task.offset = norm->weight_offset;
    }
    if (!key) return task;
    if (!args_.rope.inv_freq.empty()) {
      task.pairs = static_cast<int>(args_.rope.inv_freq.elements());
      check(2 * task.pairs <= task.width, "more pairs to rotate than a head has");
      task.cos = cos_;
      task.sin = sin_;
      task.interleaved = args_.rope.interleaved;
    }
    if (args_.kv.format.segments[0].transform == KvTransform::hadamard) {
      task.hadamard_block = hadamard_block(task.width);
      task.hadamard_norm = hadamard_norm(task.hadamard_block);
    }
    return task;
  }

  void prepare(HeadTask task, const Tensor& x, std::int64_t token, std::int64_t head, float* out) const {
    task.x = {row_at(x, token, head), x.dtype() == DType::bf16};
    task.out = out;
    kernels_.head(task);
  }

  void store(int segment, int head, std::int32_t slot, RowCounts& counts) {
    const KvSegment& kind = args_.kv.format.segments[segment];
    const SegmentLayout& layout = layout_.segments[segment];
    const int place = slot % args_.kv.page_size;
    std::byte* page = args_.kv.pages + slot / args_.kv.page_size * args_.kv.page_bytes;
    RowNotice notice;
    if (kind.elem == KvElem::int8) {
      const std::uint16_t scale = int8_scale(kernels_.amax(row_, kind.width));
      const float limit = scale != 0 ? 127.0f * f32_from_bf16(scale) : INFINITY;
      notice = kernels_.encode_int8(row_, kind.width, int8_inverse(scale), limit, codes_);
      std::memcpy(page + layout.scale(head, place), &scale, sizeof scale);
    } else if (kind.grain == KvGrain::token_block) {
      notice = encode_blocks(kind, page + layout.scale(head, place));
    } else {
      notice = encode(kind, segment, head);
    }
    put(page + layout.row(head, place), layout.step, elem_bytes(kind.elem), kind.width);
    counts.written += static_cast<std::uint64_t>(kind.width);
    counts.saturated += static_cast<std::uint64_t>(notice.saturated);
    counts.amax = std::max(counts.amax, notice.amax);
  }

  RowNotice encode(const KvSegment& kind, int segment, int head) {
    const bool scaled = kind.grain == KvGrain::tensor || kind.grain == KvGrain::head;
    const float scale = scaled ? args_.kv.scales[segment][head] : 1.0f;
    switch (kind.elem) {
      case KvElem::f32:
        return kernels_.encode_f32(row_, kind.width, reinterpret_cast<float*>(codes_));
      case KvElem::bf16:
        return kernels_.encode_bf16(row_, kind.width, reinterpret_cast<std::uint16_t*>(codes_));
      case KvElem::e5m2:
        return kernels_.encode_e5m2(row_, kind.width, scale, codes_);
      default:
        return kernels_.encode_e4m3(row_, kind.width, scale, codes_);
    }
  }

  // A scale of its own for each block of numbers. The largest may come to lie a rounding above the largest code:
  // nothing is clipped but infinities. A NaN is no magnitude; it becomes a NaN's code, also beside numbers too small to
  // keep.
  RowNotice encode_blocks(const KvSegment& kind, std::byte* scales_to) {
    const auto encode_block = kind.elem == KvElem::e5m2 ? kernels_.encode_e5m2 : kernels_.encode_e4m3;
    RowNotice notice;
    for (int begin = 0; begin < kind.width; begin += kScaleBlock) {
      const int count = std::min(kScaleBlock, kind.width - begin);
      const float* block = row_ + begin;
      float kept[kScaleBlock];
      const float amax = kernels_.encode_f32(block, count, kept).amax;
      const float scale = float8_scale(kind.elem, amax);
      std::memcpy(scales_to + begin / kScaleBlock * 4, &scale, sizeof scale);
      notice.amax = std::max(notice.amax, amax);
      if (scale > 0.0f) {
        encode_block(block, count, scale, codes_ + begin);
        if (std::isinf(amax))
          notice.saturated += std::count_if(block, block + count, [](float x) { return std::isinf(x); });
      } else {
        for (int i = 0; i < count; ++i) codes_[begin + i] = std::isnan(block[i]) ? encode8(kind.elem, block[i]) : 0;
      }
    }
    return notice;
  }

  void put(std::byte* to, std::int64_t step, int bytes, int width) const {
    if (step == bytes) {
      std::memcpy(to, codes_, static_cast<std::size_t>(width * bytes));
      return;
    }
    for (int i = 0; i < width; ++i) std::memcpy(to + i * step, codes_ + i * bytes, static_cast<std::size_t>(bytes));
  }

  const KvWriteArgs& args_;
  const PageLayout& layout_;
  const RowKernels& kernels_;
  HeadTask q_task_, k_task_, v_task_;
  RowCounts counts_[2];  // K, V
  alignas(64) float row_[kMaxWidth];
  alignas(64) float cos_[kMaxWidth];
  alignas(64) float sin_[kMaxWidth];
  alignas(64) std::uint8_t codes_[kMaxWidth * sizeof(float)];
};

void run_kv_write(ThreadPool& pool, const KvWriteArgs& args, const RowKernels& kernels) {
  if (!is_vectored(args)) return plain::kv_write(pool, args);
  const PageLayout layout = page_layout(args.kv.format, args.kv.page_size);
  check_kv_write(args, layout);
  const std::int64_t tokens = args.k.empty() ? args.q.size(0) : args.k.size(0);
  const std::int64_t numbers = std::max<std::int64_t>(1, args.q.size(1) * args.q.size(2));
  const std::int64_t step = std::clamp<std::int64_t>(kQueryNumbersOfPart / numbers, 1, kTokensOfPart);
  pool.run((tokens + step - 1) / step, [&](std::int64_t part) {
    HeadWriter writer(args, layout, kernels);
    for (std::int64_t t = part * step; t < std::min(tokens, (part + 1) * step); ++t) writer.write(t);
    writer.finish();
  });
}

}  // namespace

void avx512::kv_write(ThreadPool& pool, const KvWriteArgs& args) { run_kv_write(pool, args, kRowKernels); }
void avx2::kv_write(ThreadPool& pool, const KvWriteArgs& args) { run_kv_write(pool, args, kRowKernels); }

}  // namespace octavo::cpu
