#include "base/check.h"
#include "cuda/kernel_rows.h"
#include "cuda/kv_write.h"
#include "cuda/kv_write_kernel.cuh"

namespace octavo::cuda {

namespace {

constexpr int kFewWrites = 64;  // tokens of which each warp takes one row: what counts is how soon the last is done

// Heads of q or k that a block takes, as long as so many blocks of queries keep every multiprocessor at work.
struct BlockRule {
  int least_heads, most_heads, blocks;
};
constexpr BlockRule kRowBlocks{1, 8, 1024}, kPairBlocks{8, 32, 512};
constexpr int kLeastPairBlocks = 256;  // fewer leave multiprocessors idle, however much quicker a row is

// Whether halves of whole heads are turned by each other, as they were stored.
bool turns_pairs(const WriteParams& p) {
  return p.inv_freq != nullptr && !p.interleaved && 2 * p.pairs == p.width && image_width(p.width) == p.width &&
         p.width <= 256 && (p.rotation_block == 1 || p.rotation_block == p.width) && !p.q.normed && !p.k.normed &&
         (p.query_token_stride | p.query_head_stride) % 8 == 0;
}

WriteRows write_rows_of(const Tensor& x, const NormRule* norm) {
  octavo::check(x.dtype() == DType::bf16 && x.stride(2) == 1, "the cache's writer reads bfloat16 rows");
  octavo::check(x.stride(0) % 8 == 0 && x.stride(1) % 8 == 0 && reinterpret_cast<std::uintptr_t>(x.raw()) % 16 == 0,
                "rows for the cache's writer begin at multiples of 16 bytes");
  WriteRows rows;
  rows.data = reinterpret_cast<const __nv_bfloat16*>(x.raw());
  rows.token_stride = x.stride(0);
  rows.head_stride = x.stride(1);
  if (norm == nullptr) return rows;
  rows.normed = true;
  rows.norm_eps = norm->eps;
  rows.norm_offset = norm->weight_offset;
  if (norm->weight.empty()) return rows;
  octavo::check(norm->weight.elements() == x.size(2), "a norm's weight has one number a channel");
  rows.norm_weight = norm->weight.data<float>();
  return rows;
}

void put_query(const KvWriteArgs& args, WriteParams& p) {
  const Tensor& query = args.query.values;
  octavo::check(query.dtype() == DType::bf16 && query.size(0) == args.q.size(0) && query.size(1) == args.q.size(1) &&
                    query.size(2) == args.q.size(2),
                "queries do not have the shape that query_spec() says");
  p.q = write_rows_of(args.q, args.q_norm);
  p.tokens = static_cast<std::int32_t>(args.q.size(0));
  p.q_heads = static_cast<std::int32_t>(args.q.size(1));
  p.query = reinterpret_cast<__nv_bfloat16*>(query.raw());
  p.query_token_stride = query.stride(0);
  p.query_head_stride = query.stride(1);
  p.width = static_cast<std::int32_t>(args.q.size(2));
  octavo::check(has_page_layout(p.width), "a head size that this wing refuses");
  if (args.kv.format.segments[0].transform == KvTransform::hadamard) p.rotation_block = hadamard_block(p.width);
  for (int n = p.rotation_block; n > 1; n /= n >= 4 ? 4 : 2) p.rotation_norm *= n >= 4 ? 0.5f : 0.70710678118654752f;
  if (args.rope.inv_freq.empty()) return;
  octavo::check(args.positions.elements() == args.q.size(0), "rope needs one position a token");
  p.inv_freq = args.rope.inv_freq.data<float>();
  p.pairs = static_cast<std::int32_t>(args.rope.inv_freq.elements());
  octavo::check(2 * p.pairs <= args.q.size(2), "more pairs to rotate than a head has");
  p.rope_factor = args.rope.factor;
  p.interleaved = args.rope.interleaved;
  p.positions = args.positions.data<std::int32_t>();
}

void put_cache(const KvWriteArgs& args, WriteParams& p) {
  const KvFormat& format = args.kv.format;
  for (const auto& [x, segment] : {std::pair{&args.k, 0}, std::pair{&args.v, 1}})
    octavo::check(x->size(0) == args.q.size(0) && x->size(1) == format.segments[segment].heads &&
                      x->size(2) == format.segments[segment].width && x->size(2) == args.q.size(2),
                  "k and v do not have the shape of the cache");
  octavo::check(args.slots.elements() == args.q.size(0), "one slot a token");
  octavo::check(args.kv.page_size == kPageTokens && args.kv.page_bytes == bytes_per_page(format, kPageTokens),
                "pages do not have this wing's size");
  p.k = write_rows_of(args.k, args.k_norm);
  p.v = write_rows_of(args.v, args.v_norm);
  p.kv_heads = format.segments[0].heads;
  p.slots = args.slots.data<std::int32_t>();
  p.layout = page_layout(format);
  p.key_elem = format.segments[0].elem;
  p.value_elem = format.segments[1].elem;
  p.key_scales = given_scales(args.kv, 0);
  p.value_scales = given_scales(args.kv, 1);
  p.pages = args.kv.pages;
  p.page_bytes = args.kv.page_bytes;
  p.num_pages = args.kv.num_pages;
  p.counters = args.kv.counters;
}

template <int kWide>
KernelEntry entry() {
  KernelEntry written;
  written.row.name = "kv_write.d" + std::to_string(32 * kWide);
  written.row.phase = KernelPhase::kv_write;
  written.row.head_dim = 32 * kWide;
  written.row.threads = kWriteThreads;
  written.function = reinterpret_cast<const void*>(kv_write_kernel<kWide, false>);
  return written;
}

}  // namespace

const float* given_scales(const KvView& kv, int segment) {
  const KvGrain grain = kv.format.segments[segment].grain;
  if (grain != KvGrain::tensor && grain != KvGrain::head) return nullptr;
  octavo::check(kv.scales[segment] != nullptr, "a scale of the cache was not delivered");
  return kv.scales[segment];
}

std::vector<KernelEntry> kv_write_kernels() { return {entry<2>(), entry<4>(), entry<8>(), entry<16>()}; }

void kv_write(cudaStream_t stream, const KvWriteArgs& args) {
  WriteParams p;
  put_query(args, p);
  if (!args.k.empty()) put_cache(args, p);
  if (p.tokens == 0) return;
  if (p.tokens <= kFewWrites) p.block_rows = kWriteWarps;
  const int token_blocks = (p.tokens + p.block_rows - 1) / p.block_rows, rows = token_blocks * p.q_heads;
  const bool pairs = rows >= kLeastPairBlocks * kPairBlocks.least_heads && turns_pairs(p);
  const BlockRule rule = pairs ? kPairBlocks : kRowBlocks;
  p.block_heads = rule.least_heads;
  while (p.block_heads < rule.most_heads && rows / (2 * p.block_heads) >= rule.blocks) p.block_heads *= 2;
  const auto blocks_of = [&](int heads) { return (heads + p.block_heads - 1) / p.block_heads; };
  const dim3 grid(token_blocks, blocks_of(p.q_heads) + blocks_of(p.kv_heads) + p.kv_heads);
  const auto launch = [&](auto kernel) { launch_early(stream, grid, kWriteThreads, 0, kernel, p); };
  switch (image_width(p.width)) {
    case 64:
      return launch(pairs ? kv_write_kernel<2, true> : kv_write_kernel<2, false>);
    case 128:
      return launch(pairs ? kv_write_kernel<4, true> : kv_write_kernel<4, false>);
    case 256:
      return launch(pairs ? kv_write_kernel<8, true> : kv_write_kernel<8, false>);
    default:
      return launch(kv_write_kernel<16, false>);
  }
}

}  // namespace octavo::cuda
