#include <algorithm>
#include <string>

#include "base/check.h"
#include "cuda/attention.h"
#include "cuda/attention_plan.h"
#include "cuda/attention_rows.h"
#include "cuda/kv_write.h"
#include "cuda/portable/params.h"

namespace octavo::cuda {

namespace {

using portable::AttentionParams;
using portable::LatentParams;
using portable::Phase;

constexpr std::int64_t kCachedBytes = std::int64_t{32} << 20;  // of the L2 cache, for pages
constexpr std::int32_t kLongContext = 4096;                    // whose tiles several blocks may share
constexpr int kTilesOfGrid = 32768;                            // in its second dimension, of a latent prefill

Error unsupported(const std::string& sentence) { return Error(sentence, ErrorKind::unsupported); }

// As many KV heads as have their K and V in the L2 cache at once: of more, blocks would drive out what others want.
std::int32_t heads_together(const AttentionArgs& args) {
  const KvFormat& format = args.kv.format;
  const std::int64_t bytes = std::int64_t{args.batch.max_context} * format.segments[0].width *
                             (elem_bytes(format.segments[0].elem) + elem_bytes(format.segments[1].elem));
  std::int32_t heads = format.segments[0].heads;
  while (heads % 2 == 0 && heads * bytes > kCachedBytes) heads /= 2;
  return heads;
}

AttentionParams params_of(const AttentionArgs& args, const PagePlan& plan, const RowLaunch& launch) {
  const KvFormat& format = args.kv.format;
  const Tensor& q = args.query.values;
  check(q.dtype() == DType::bf16 && args.out.dtype() == DType::bf16 && q.stride(2) == 1 && args.out.stride(2) == 1,
        "queries and results are rows of bfloat16");
  check(q.stride(0) % 8 == 0 && q.stride(1) % 8 == 0 && reinterpret_cast<std::uintptr_t>(q.raw()) % 16 == 0,
        "rows of queries begin at multiples of 16 bytes");
  const std::int32_t key_width = format.segments[0].width + (is_latent(format) ? format.segments[1].width : 0);
  check(q.size(2) == key_width && q.size(1) % format.segments[0].heads == 0,
        "queries do not have the shape that query_spec() says");
  check(args.out.size(0) == q.size(0) && args.out.size(1) == q.size(1) && args.out.size(2) == format.segments[0].width,
        "the shape of attention's result");
  check(q.size(1) == plan.q_heads() && format.segments[0].heads == plan.kv_heads() &&
            format.segments[0].width == plan.width(),
        "a layer has the heads of its group's plan");
  check(args.kv.page_bytes == bytes_per_page(format, kPageTokens), "pages do not have this wing's size");
  AttentionParams p;
  p.query = reinterpret_cast<const __nv_bfloat16*>(q.raw());
  p.query_token_stride = q.stride(0);
  p.query_head_stride = q.stride(1);
  p.out = reinterpret_cast<__nv_bfloat16*>(args.out.raw());
  p.out_token_stride = args.out.stride(0);
  p.out_head_stride = args.out.stride(1);
  p.pages = args.kv.pages;
  p.page_bytes = args.kv.page_bytes;
  p.page_table = args.kv.page_table;
  p.max_pages = args.kv.max_pages;
  p.query_start = args.batch.query_start.data<std::int32_t>();
  p.context = args.batch.context.data<std::int32_t>();
  if (!args.rule.sinks.empty()) p.sinks = args.rule.sinks.data<float>();
  p.scale = args.rule.scale;
  p.soft_cap = args.rule.soft_cap;
  p.window = args.rule.window;
  p.q_heads = static_cast<std::int32_t>(q.size(1));
  p.kv_heads = format.segments[0].heads;
  p.group = p.q_heads / p.kv_heads;
  p.plan = plan.view(*launch.row);
  if (is_latent(format)) {
    p.layout.width = format.segments[0].width;
    return p;
  }
  p.layout = page_layout(format);
  p.key_scales = given_scales(args.kv, 0);
  p.value_scales = given_scales(args.kv, 1);
  p.heads_together = heads_together(args);
  return p;
}

LatentParams latent_params_of(const AttentionArgs& args, const AttentionParams& p) {
  return {.attention = p,
          .layout = latent_layout(args.kv.format),
          .latent_scale = given_scales(args.kv, 0),
          .rope_scale = given_scales(args.kv, 1)};
}

// Blocks that stay and walk over the list, so the grid is the same whatever its length.
int decode_blocks(const RowLaunch& launch, int num_decodes, const PagePlan& plan, const AttentionParams& p) {
  const int parts = p.kv_heads * ((p.group + launch.row->tile_rows - 1) / launch.row->tile_rows);
  return std::min(num_decodes * launch.row->max_splits * parts, plan.num_processors() * launch.blocks);
}

int prefill_tiles(const RowLaunch& launch, const BatchView& batch, const PagePlan& plan) {
  return plan.max_prefills(batch.num_tokens - batch.num_decodes, batch.num_seqs - batch.num_decodes,
                           launch.row->tile_rows);
}

void launch_prefill(cudaStream_t stream, const RowLaunch& launch, const BatchView& batch, const PagePlan& plan,
                    const AttentionParams& p) {
  const int tiles = prefill_tiles(launch, batch, plan);
  const portable::KernelRow& row = *launch.row;
  if (!row.stays) return row.kernel<<<dim3(p.kv_heads, tiles), row.threads, launch.shared_bytes, stream>>>(p);
  int blocks = plan.num_processors() * launch.blocks;
  AttentionParams of_long = p;
  if (batch.max_context < kLongContext) {
    blocks = std::min(blocks, p.kv_heads * tiles);
    of_long.plan.pieces = nullptr;
  }
  row.kernel<<<blocks, row.threads, launch.shared_bytes, stream>>>(of_long);
  if (of_long.plan.pieces != nullptr) row.join<<<blocks, row.join_threads, 0, stream>>>(of_long, blocks);
}

void attend_decodes(cudaStream_t stream, const AttentionArgs& args, const PagePlan& plan) {
  const RowLaunch& launch = plan.launch(args.kv.format, Phase::decode);
  const AttentionParams p = params_of(args, plan, launch);
  const int blocks = decode_blocks(launch, args.batch.num_decodes, plan, p);
  const int threads = launch.row->threads;
  if (launch.latent_kernel != nullptr)
    launch.latent_kernel<<<blocks, threads, launch.shared_bytes, stream>>>(latent_params_of(args, p));
  else
    launch.row->kernel<<<blocks, threads, launch.shared_bytes, stream>>>(p);
}

void attend_prefills(cudaStream_t stream, const AttentionArgs& args, const PagePlan& plan) {
  const RowLaunch& launch = plan.launch(args.kv.format, Phase::prefill);
  const AttentionParams p = params_of(args, plan, launch);
  if (launch.latent_kernel == nullptr) return launch_prefill(stream, launch, args.batch, plan, p);
  const int tiles = prefill_tiles(launch, args.batch, plan);
  const dim3 grid(1, std::min(tiles, kTilesOfGrid), (tiles + kTilesOfGrid - 1) / kTilesOfGrid);
  launch.latent_kernel<<<grid, launch.row->threads, launch.shared_bytes, stream>>>(latent_params_of(args, p));
}

}  // namespace

Status supports(const AttentionShape& shape) {
  const KvFormat& format = shape.format;
  const KvSegment& key = format.segments[0];
  const KvSegment& value = format.segments[1];
  const bool has_pair = key.part == KvPart::key && value.part == KvPart::value;
  const bool has_latent = is_latent(format) && value.part == KvPart::rope && key.heads == 1;
  if (format.num_segments != 2 || (!has_pair && !has_latent))
    return unsupported(
        "attention on CUDA reads caches of K and V, or of one latent and its rope key, but this model "
        "keeps " +
        describe(format) + ": use --device cpu");
  if (key.heads < 1 || key.heads != value.heads || shape.q_heads % key.heads != 0)
    return unsupported("attention needs as many KV heads for K as for V, and a multiple of them as query heads, not " +
                       std::to_string(shape.q_heads) + " query heads over " + describe(format));
  if (shape.page_size != kPageTokens)
    return unsupported("a page has 64 tokens on CUDA, not " + std::to_string(shape.page_size) +
                       ": use --block-size 64");
  return rows_serve(shape, shared_limit());
}

QuerySpec query_spec(const KvFormat&) { return {.dtype = DType::bf16, .width_factor = 1, .has_scale = false}; }

Result<std::unique_ptr<AttentionPlan>> make_plan(Device& device, const AttentionShape& shape, int max_seqs,
                                                 int max_tokens, bool deterministic) {
  OCTAVO_TRY(auto plan, PagePlan::create(device, shape, max_seqs, max_tokens, deterministic));
  return std::unique_ptr<AttentionPlan>(std::move(plan));
}

void plan_attention(cudaStream_t stream, const PlanAttentionArgs& args) {
  static_cast<PagePlan&>(args.plan).make(stream, args);
}

void attention(cudaStream_t stream, const AttentionArgs& args) {
  const auto& plan = static_cast<const PagePlan&>(args.plan);
  if (args.batch.num_decodes > 0) attend_decodes(stream, args, plan);
  if (args.batch.num_seqs > args.batch.num_decodes) attend_prefills(stream, args, plan);
}

}  // namespace octavo::cuda
