#include "cpu/latent_form.h"

#include <algorithm>

#include "cpu/cache_rows.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu {

namespace {

// Products of one head for `count` tokens whose last sees `context` keys.
struct FormCosts {
  std::int64_t absorbed = 0;
  std::int64_t expanded = 0;
};

FormCosts costs_of(const AbsorbedRowsArgs& args, std::int64_t count, std::int64_t context) {
  const std::int64_t latent = args.format.segments[0].width;
  const std::int64_t rope = args.format.segments[1].width;
  const std::int64_t turned = latent * (args.key_width + args.value_width);  // of a query or a record alike
  const std::int64_t pairs = count * (context - count) + count * (count + 1) / 2;
  FormCosts costs;
  costs.absorbed = count * turned + pairs * (2 * latent + rope);
  costs.expanded = pairs * (args.key_width + rope + args.value_width);
  for (std::int64_t end = count; end > 0; end -= kExpandedTokens) costs.expanded += (context - count + end) * turned;
  return costs;
}

void check_rows(const HeadRows& rows, std::int64_t heads, std::int64_t latent, std::int64_t width) {
  check_weight(rows.weight);
  check(
      rows.first >= 0 && rows.count > 0 && rows.first + rows.count <= rows.unit && rows.weight.out == heads * rows.unit,
      "a head's rows lie within its unit");
  check(rows.weight.in == (rows.transposed ? width : latent) && rows.count == (rows.transposed ? latent : width),
        "a head's rows turn latents into its keys or values");
}

}  // namespace

std::int64_t cheaper_absorbed_rows(const AbsorbedRowsArgs& args) {
  const BatchView& batch = args.batch;
  const std::int32_t* query_start = ints(batch.query_start);
  FormCosts sum;
  for (std::int32_t seq = batch.num_decodes; seq < batch.num_seqs; ++seq) {
    const FormCosts costs = costs_of(args, query_start[seq + 1] - query_start[seq], ints(batch.context)[seq]);
    sum.absorbed += costs.absorbed;
    sum.expanded += costs.expanded;
  }
  return sum.expanded < sum.absorbed ? query_start[batch.num_decodes] : batch.num_tokens;
}

void check_expanded_attention(const ExpandedAttentionArgs& args) {
  check_view(args.kv, page_layout(args.kv.format, args.kv.page_size));
  const KvSegment& latent = args.kv.format.segments[0];
  const std::int64_t heads = args.q.size(1);
  const std::int64_t nope = args.q.size(2) - args.kv.format.segments[1].width;
  check(is_latent(args.kv.format) && latent.heads == 1, "the expanded form is that of a latent cache");
  check(args.rule.window == 0 && args.rule.sinks.empty(), "latent attention has no window and no sinks");
  check(args.q.size(0) == args.batch.num_tokens && args.out.size(0) == args.q.size(0) && args.out.size(1) == heads,
        "shapes of expanded_attention");
  check_rows(args.key, heads, latent.width, nope);
  check_rows(args.value, heads, latent.width, args.out.size(2));
}

}  // namespace octavo::cpu
