// Ops: all arithmetic octavo knows, as one contract. A wing implements it; models and engine call nothing else.
//
// Each verb takes one plain struct whose fields carry their shapes. "rows" dimensions may be strided, the last
// dimension is contiguous unless said. Activations are in the compute dtype (bf16, or f32 under --dtype float32) unless
// a field says otherwise; sums, softmax and norms are float32 inside. Verbs are asynchronous in device order and never
// fail: shapes are checked (our own mistakes stop the process), the world was checked at start by Backend::supports().
// Formulas: models.md of each family; sources are named at each struct where they are not obvious.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "kv/view.h"
#include "ops/sampling.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace octavo {

struct EmbedArgs {
  Tensor ids;           // i32 [tokens], each in [0, vocab)
  const Weight& table;  // [vocab, hidden], one part
  float scale = 1.0f;
  Tensor out;  // [tokens, hidden]
  // The table is some of the vocabulary's rows: the first is this token's, and tokens of other rows give zeros.
  std::optional<std::int64_t> first_id = {};
};

// y = x * rsqrt(mean(x^2) + eps), then (weight + weight_offset) * y. rounded_first: y is rounded to the compute dtype
// before the product, otherwise after it.
struct NormRule {
  Tensor weight;  // f32 [n]; empty: no weight
  float eps = 1e-6f;
  float weight_offset = 0.0f;
  bool rounded_first = true;
};
struct RmsNormArgs {
  Tensor x;  // [rows, n]
  NormRule rule;
  Tensor out;  // [rows, n]; may be x
};
// residual += x (rounded to the compute dtype), then out = norm(residual).
struct AddRmsNormArgs {
  Tensor x;         // [rows, n]
  Tensor residual;  // [rows, n], updated
  NormRule rule;
  Tensor out;  // [rows, n]
};

// out = x W^T + bias. Weights of 8 and fewer bits are used at their exact values; inputs are not rounded on the CPU.
struct LinearArgs {
  Tensor x;  // [tokens, in]
  const Weight& weight;
  Tensor bias;  // f32 [out] or empty
  Tensor out;   // [tokens, out], compute dtype or f32
};

// A product for each head with rows of one matrix [heads * unit, in], as latent attention keeps its up-projection: W_h
// is rows [h unit + first, h unit + first + count). out[t, h] = x[t, h] W_h^T; transposed: x[t, h] W_h.
struct HeadLinearArgs {
  Tensor x;  // [tokens, heads, in]; transposed: [tokens, heads, count]
  const Weight& weight;
  std::int64_t unit = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool transposed = false;
  Tensor out;  // [tokens, heads, count]; transposed: [tokens, heads, in]. Any activation's dtype, whatever x has
};

// One matrix an expert: out[t k + j] = x[t or t k + j] W[ids[t, j]]^T + bias; with `weights`, the k results of a token
// are weighted and summed: out[t] = sum_j weights[t, j] (...).
struct GroupedLinearArgs {
  Tensor x;  // [tokens, in], or [tokens * k, in]
  std::span<const Weight> experts;
  Tensor bias;     // f32 [experts, out] or empty
  Tensor ids;      // i32 [tokens, k]
  Tensor weights;  // f32 [tokens, k] or empty
  Tensor out;      // [tokens * k, out], or [tokens, out] with weights
};

// Chooses k experts a token. sigmoid_groups: by sigmoid + bias within the best groups, weighed by
// sigmoid; softmax_all: softmax over all, then top k; softmax_chosen: top k, then softmax over them. Where a logit is
// no number all weights of its token are none: a damaged router must not choose quietly.
enum class RouteKind : std::uint8_t { softmax_all, softmax_chosen, sigmoid_groups };
struct RouteArgs {
  Tensor logits;  // f32 [tokens, experts]
  RouteKind kind = RouteKind::softmax_all;
  Tensor choice_bias;  // f32 [experts], sigmoid_groups only, or empty
  int num_groups = 1;
  int top_groups = 1;
  bool renormalise = true;
  float scaling = 1.0f;
  Tensor ids;      // i32 [tokens, k] out, best first
  Tensor weights;  // f32 [tokens, k] out
};

// Angles are position * inv_freq[i] in float32; cos and sin are multiplied by factor. half-split: elements i and i +
// pairs of the rotated part are a pair; interleaved: 2i and 2i + 1, written back de-interleaved (first members, then
// second).
struct RopeRule {
  Tensor inv_freq;  // f32 [pairs]; empty: no rotation
  float factor = 1.0f;
  bool interleaved = false;
};
struct RopeArgs {
  Tensor x;          // [tokens, heads, width], width = 2 * pairs, rotated in place
  Tensor positions;  // i32 [tokens]
  RopeRule rule;
};

enum class Activation : std::uint8_t {
  silu,           // up * g * sigmoid(g)
  gelu_tanh,      // up * gelu(g), tanh approximation
  sigmoid,        // up * sigmoid(g)
  clamped_swish,  // g = min(g, limit), u = clamp(up, +-limit): (u + 1) * g * sigmoid(1.702 g)
};
struct GatedActivationArgs {
  Tensor gate;  // [tokens, n], any element stride
  Tensor up;    // [tokens, n], any element stride
  Activation kind = Activation::silu;
  float limit = 0.0f;
  Tensor out;  // [tokens, n]; may be up
};

// gated_activation() of a product's halves: the gate is the first of x W^T + bias, up the second.
struct GatedLinearArgs {
  Tensor x;              // [tokens, in]
  const Weight& weight;  // [2 n, in]
  Tensor bias;           // f32 [2 n] or empty
  Activation kind = Activation::silu;
  float limit = 0.0f;
  Tensor both;  // [tokens, 2 n]: room for the product; whether it is there afterwards is the wing's affair
  Tensor out;   // [tokens, n]
};

// Queries in the form that this wing's attention reads; shapes from query_spec().
struct Query {
  Tensor values;  // [tokens, q_heads, width]
  Tensor scale;   // f32 [tokens, q_heads] or empty
};
struct QuerySpec {
  DType dtype = DType::f32;
  int width_factor = 1;  // 2: high and low parts side by side
  bool has_scale = false;
};

// From the projection to the cache: norm of q, k, v where the family has it, rope, transform of q and k, in float32
// without rounding; then K and V are divided by their scales, rounded with saturation, stored and counted (not in page
// 0: padding). q goes to `query`. A latent format takes the latent as k and the rope key as v (already normed and
// roped, rule empty), and queries of the first rows alone where the others are expanded_attention()'s.
struct KvWriteArgs {
  Tensor q;  // [tokens, q_heads, width], rows strided; of a latent format perhaps fewer rows
  Tensor k;  // [tokens, kv_heads, width]; empty: this layer reads another's cache, only q is prepared
  Tensor v;  // [tokens, kv_heads, v_width]
  const NormRule* q_norm = nullptr;  // weights [width]
  const NormRule* k_norm = nullptr;
  const NormRule* v_norm = nullptr;
  RopeRule rope;
  Tensor positions;  // i32 [tokens]
  Tensor slots;      // i32 [tokens]: page * page_size + place in the page
  const KvView& kv;
  Query query;
};

// The sequences of one step. Those that decode (one token) come first. Token rows of sequence s are
// [query_start[s], query_start[s + 1]); its cache holds context[s] tokens, this step's included.
struct BatchView {
  std::int32_t num_seqs = 0;
  std::int32_t num_decodes = 0;
  std::int32_t num_tokens = 0;
  std::int32_t max_query = 0;
  std::int32_t max_context = 0;
  Tensor query_start;  // i32 [num_seqs + 1]
  Tensor context;      // i32 [num_seqs]
  Tensor positions;    // i32 [num_tokens]
};

// Key j is visible to query i iff j <= i and (window == 0 or j > i - window). score = scale q.k, then soft_cap
// tanh(./soft_cap) if soft_cap > 0. A sink is one more logit of its head, neither scaled nor masked, whose probability
// is thrown away.
struct AttentionRule {
  float scale = 1.0f;
  std::int32_t window = 0;
  float soft_cap = 0.0f;
  Tensor sinks;  // f32 [q_heads] or empty
};

// The split of a step's attention over pages, made once a step and read by every layer of a group. The wing's own. Its
// memory is there from make_plan() on, so that planning a step and attending by it can be recorded.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
};
struct AttentionShape {
  KvFormat format;
  std::int32_t q_heads = 0;
  std::int32_t page_size = 0;
  std::int32_t window = 0;
  bool soft_cap = false;
  bool sinks = false;
};
struct PlanAttentionArgs {
  const BatchView& batch;
  AttentionShape shape;  // of the group's first layer; other layers of the group may differ in element kinds
  AttentionPlan& plan;
};

struct AttentionArgs {
  Query query;  // of a latent cache perhaps the first rows of the step alone
  const KvView& kv;
  const BatchView& batch;
  const AttentionPlan& plan;
  AttentionRule rule;
  Tensor out;  // [tokens, q_heads, v_width]
};

// Latent attention has two forms, equal up to rounding. Absorbed: head_linear() turns queries into the latents' space,
// attention() reads the records themselves, and head_linear() turns the results out of it. Expanded: keys [W_UK c |
// rope key] and values W_UV c of every head are made of the cached records, some tokens at a time, which costs less
// where many queries see few keys. How many of a step's first rows take the absorbed form (whole sequences, decodes
// always):
struct AbsorbedRowsArgs {
  const BatchView& batch;
  const KvFormat& format;
  std::int32_t key_width = 0;  // of a head, without rope
  std::int32_t value_width = 0;
};
// Rows of one matrix for each head, as in HeadLinearArgs.
struct HeadRows {
  const Weight& weight;
  std::int64_t unit = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool transposed = false;
};
// And the attention of the others in the expanded form.
struct ExpandedAttentionArgs {
  Tensor q;                    // [tokens, q_heads, key_width + rope], the rope part turned
  std::int64_t first_row = 0;  // the rows before it are left alone
  HeadRows key;                // from latents to key_width numbers
  HeadRows value;              // and to value_width
  const KvView& kv;
  const BatchView& batch;
  AttentionRule rule;  // without window and sinks
  Tensor out;          // [tokens, q_heads, value_width]
};

// Causal depthwise convolution with silu over each sequence; `state` keeps the last taps - 1 inputs of a channel.
// out[t, c] = silu(sum_j weight[c, j] x[t - taps + 1 + j, c]).
struct ConvUpdateArgs {
  Tensor x;                // [tokens, channels]
  Tensor weight;           // f32 [channels, taps]
  Tensor state;            // f32 [records, channels, taps - 1], oldest first, updated
  Tensor records;          // i32 [num_seqs]: the record of each sequence
  const BatchView& batch;  // a sequence whose context equals its query length starts from zeros
  Tensor out;              // [tokens, channels]
};
// The gates of the delta rule: decay = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b).
struct DeltaGatesArgs {
  Tensor a;        // f32 [tokens, value_heads]
  Tensor b;        // f32 [tokens, value_heads]
  Tensor a_log;    // f32 [value_heads]
  Tensor dt_bias;  // f32 [value_heads]
  Tensor decay;    // f32 [tokens, value_heads]; may be a
  Tensor beta;     // f32 [tokens, value_heads]; may be b
};
// The gated delta rule: S = exp(g) S; d = beta (v - k S); S += k d^T; o = q S, with q and k L2-normed (eps 1e-6 inside
// the root) and q scaled by key_width^-1/2; value head h reads key head h / (value_heads / key_heads). models.md 5.
struct DeltaRuleArgs {
  Tensor q;        // [tokens, key_heads, key_width]
  Tensor k;        // [tokens, key_heads, key_width]
  Tensor v;        // [tokens, value_heads, value_width]
  Tensor decay;    // f32 [tokens, value_heads]: g
  Tensor beta;     // f32 [tokens, value_heads]
  Tensor state;    // f32 [records, value_heads, key_width, value_width], updated
  Tensor records;  // i32 [num_seqs]
  const BatchView& batch;
  Tensor out;  // [tokens, value_heads, value_width]
};

struct GatherArgs {
  Tensor x;      // [rows, n]
  Tensor index;  // i32 [m], each in [0, rows)
  Tensor out;    // [m, n]
};
struct AddArgs {
  Tensor a;    // [rows, n]
  Tensor b;    // [rows, n], f32 or bf16 whatever a is
  Tensor out;  // [rows, n], of a's dtype; may be a
};
// out = factor * weight * x; with one of another dtype than x, a conversion.
struct ScaleArgs {
  Tensor x;       // [rows, n]
  Tensor weight;  // f32 [1], a factor that the checkpoint gives; empty: none
  float factor = 1.0f;
  float soft_cap = 0.0f;  // > 0: soft_cap * tanh(factor x / soft_cap)
  Tensor out;             // [rows, n]; may be x
};
struct AbsmaxArgs {
  Tensor x;    // [tokens, heads, width]
  Tensor out;  // f32 [heads], updated to max(out, |x|) by head
};

class Ops {
 public:
  virtual ~Ops() = default;

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void add_rms_norm(const AddRmsNormArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void head_linear(const HeadLinearArgs& args) = 0;
  virtual void grouped_linear(const GroupedLinearArgs& args) = 0;
  virtual void route(const RouteArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void gated_activation(const GatedActivationArgs& args) = 0;
  // Where a wing knows nothing better: one after the other.
  virtual void gated_linear(const GatedLinearArgs& args) {
    linear({args.x, args.weight, args.bias, args.both});
    const std::int64_t n = args.out.size(1);
    gated_activation({.gate = args.both.columns(0, n),
                      .up = args.both.columns(n, n),
                      .kind = args.kind,
                      .limit = args.limit,
                      .out = args.out});
  }

  virtual QuerySpec query_spec(const KvFormat& format) const = 0;
  virtual void kv_write(const KvWriteArgs& args) = 0;
  // For steps of at most max_seqs sequences and max_tokens rows over layers of a group whose first has this shape.
  virtual Result<std::unique_ptr<AttentionPlan>> make_plan(const AttentionShape& shape, int max_seqs,
                                                           int max_tokens) = 0;
  virtual void plan_attention(const PlanAttentionArgs& args) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  // Where a wing has the absorbed form alone: all rows, and nothing for the other.
  virtual std::int64_t absorbed_rows(const AbsorbedRowsArgs& args) const { return args.batch.num_tokens; }
  virtual void expanded_attention(const ExpandedAttentionArgs&) {
    check(false, "this wing has latent attention in its absorbed form alone");
  }

  virtual void conv_update(const ConvUpdateArgs& args) = 0;
  virtual void delta_gates(const DeltaGatesArgs& args) = 0;
  virtual void delta_rule(const DeltaRuleArgs& args) = 0;

  virtual void gather(const GatherArgs& args) = 0;
  virtual void add(const AddArgs& args) = 0;
  virtual void scale(const ScaleArgs& args) = 0;
  virtual void absmax(const AbsmaxArgs& args) = 0;

  virtual void sample(const SampleArgs& args) = 0;
  virtual void log_probs(const LogProbsArgs& args) = 0;
};

}  // namespace octavo
