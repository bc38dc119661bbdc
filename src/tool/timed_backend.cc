#include "tool/timed_backend.h"

#include <algorithm>
#include <initializer_list>
#include <span>

namespace octavo {
namespace {

// Of the numbers that a view shows, whatever its strides.
std::int64_t bytes_of(std::initializer_list<const Tensor*> tensors) {
  std::int64_t bytes = 0;
  for (const Tensor* tensor : tensors)
    if (!tensor->empty()) bytes += dtype_bytes(tensor->dtype(), tensor->elements());
  return bytes;
}

std::int64_t bytes_of(const Weight& weight) {
  std::int64_t bytes = 0;
  for (const WeightPart& part : weight.parts) bytes += bytes_of({&part.values, &part.scale});
  return bytes;
}

// "960 x 576 q4_1": rows, columns, and the dtypes of its parts.
std::string kind_of(const Weight& weight) {
  std::string dtypes;
  for (const WeightPart& part : weight.parts) {
    const std::string name(dtype_info(part.values.dtype()).name);
    if (dtypes.find(name) == std::string::npos) dtypes += (dtypes.empty() ? "" : "+") + name;
  }
  return std::to_string(weight.out) + " x " + std::to_string(weight.in) + " " + dtypes;
}

// Of x W^T + bias, by LinearArgs or GatedLinearArgs.
template <class Args>
VerbCall product_of(const char* verb, const Args& args) {
  return {.verb = verb,
          .bytes = bytes_of(args.weight) + bytes_of({&args.x, &args.bias, &args.out}),
          .operations = 2 * args.x.size(0) * args.weight.in * args.weight.out,
          .kind = kind_of(args.weight)};
}

}  // namespace

void TimedOps::begin_step(const BatchView& batch) {
  timeline_.begin_step(batch.num_tokens, batch.num_decodes, batch.max_context);
  contexts_.resize(static_cast<std::size_t>(batch.num_seqs));
  starts_.resize(contexts_.size() + 1);
  device_.download(std::as_writable_bytes(std::span(contexts_)), batch.context.raw());
  device_.download(std::as_writable_bytes(std::span(starts_)), batch.query_start.raw());
}

// A chunk reads each key and value that any of its tokens sees once.
std::int64_t TimedOps::tokens_seen(const AttentionRule& rule, std::int64_t first, std::int64_t end) const {
  std::int64_t tokens = 0;
  for (std::size_t s = 0; s < contexts_.size(); ++s) {
    if (starts_[s] < first || starts_[s] >= end) continue;
    const std::int64_t seen = contexts_[s];
    const std::int64_t window = rule.window + (starts_[s + 1] - starts_[s]) - 1;
    tokens += rule.window > 0 ? std::min(seen, window) : seen;
  }
  return tokens;
}

// Pairs of a query and a key that it sees.
std::int64_t TimedOps::keys_seen(const AttentionRule& rule, std::int64_t first, std::int64_t end) const {
  std::int64_t pairs = 0;
  for (std::size_t s = 0; s < contexts_.size(); ++s) {
    if (starts_[s] < first || starts_[s] >= end) continue;
    for (std::int64_t seen = contexts_[s] - (starts_[s + 1] - starts_[s]) + 1; seen <= contexts_[s]; ++seen)
      pairs += rule.window > 0 ? std::min<std::int64_t>(seen, rule.window) : seen;
  }
  return pairs;
}

// Rows of the table that are looked up, not the table.
void TimedOps::embed(const EmbedArgs& args) {
  const std::int64_t row = args.table.out > 0 ? bytes_of(args.table) / args.table.out : 0;
  timed("embed", args.ids.elements() * row + bytes_of({&args.ids, &args.out}), [&] { inner_.embed(args); });
}

void TimedOps::rms_norm(const RmsNormArgs& args) {
  timed("rms_norm", bytes_of({&args.x, &args.rule.weight, &args.out}), [&] { inner_.rms_norm(args); });
}

void TimedOps::add_rms_norm(const AddRmsNormArgs& args) {
  timed("add_rms_norm", bytes_of({&args.x, &args.residual, &args.residual, &args.rule.weight, &args.out}),
        [&] { inner_.add_rms_norm(args); });
}

void TimedOps::linear(const LinearArgs& args) {
  timed(product_of("linear", args), [&] { inner_.linear(args); });
}

void TimedOps::head_linear(const HeadLinearArgs& args) {
  const std::int64_t share = args.unit > 0 ? bytes_of(args.weight) / args.unit * args.count : 0;
  timed({.verb = "head_linear",
         .bytes = share + bytes_of({&args.x, &args.out}),
         .operations = 2 * args.x.size(0) * args.x.size(1) * args.count * args.weight.in,
         .kind = kind_of(args.weight)},
        [&] { inner_.head_linear(args); });
}

// Of all experts: which are chosen lies on the device, so this is the most that can be read.
void TimedOps::grouped_linear(const GroupedLinearArgs& args) {
  std::int64_t experts = 0;
  for (const Weight& expert : args.experts) experts += bytes_of(expert);
  const std::int64_t chosen = std::min(std::ssize(args.experts), args.ids.elements());
  if (!args.experts.empty()) experts = experts / std::ssize(args.experts) * chosen;
  const bool any = !args.experts.empty();
  timed({.verb = "grouped_linear",
         .bytes = experts + bytes_of({&args.x, &args.bias, &args.ids, &args.weights, &args.out}),
         .operations = any ? 2 * args.ids.elements() * args.experts[0].in * args.experts[0].out : 0,
         .kind = any ? std::to_string(args.experts.size()) + " experts of " + kind_of(args.experts[0]) : ""},
        [&] { inner_.grouped_linear(args); });
}

void TimedOps::route(const RouteArgs& args) {
  timed("route", bytes_of({&args.logits, &args.choice_bias, &args.ids, &args.weights}), [&] { inner_.route(args); });
}

void TimedOps::rope(const RopeArgs& args) {
  timed("rope", bytes_of({&args.x, &args.x, &args.positions}), [&] { inner_.rope(args); });
}

void TimedOps::gated_activation(const GatedActivationArgs& args) {
  timed("gated_activation", bytes_of({&args.gate, &args.up, &args.out}), [&] { inner_.gated_activation(args); });
}

// The product is read and written between its two parts only where the wing does them apart.
void TimedOps::gated_linear(const GatedLinearArgs& args) {
  timed(product_of("gated_linear", args), [&] { inner_.gated_linear(args); });
}

void TimedOps::kv_write(const KvWriteArgs& args) {
  const std::int64_t stored = args.k.empty() ? 0 : args.k.size(0) * bytes_per_token(args.kv.format);
  timed("kv_write", stored + bytes_of({&args.q, &args.k, &args.v, &args.positions, &args.slots, &args.query.values}),
        [&] { inner_.kv_write(args); });
}

void TimedOps::plan_attention(const PlanAttentionArgs& args) {
  const BatchView& batch = args.batch;
  if (!timeline_.planning()) begin_step(batch);
  timed("plan_attention", bytes_of({&batch.query_start, &batch.context}), [&] { inner_.plan_attention(args); });
}

void TimedOps::attention(const AttentionArgs& args) {
  // Of all heads, for one query and one key.
  const std::int64_t numbers = args.out.size(1) * (args.query.values.size(2) + args.out.size(2));
  const std::int64_t rows = args.out.size(0);
  timed({.verb = "attention",
         .bytes = tokens_seen(args.rule, 0, rows) * bytes_per_token(args.kv.format) +
                  bytes_of({&args.query.values, &args.out}),
         .operations = 2 * keys_seen(args.rule, 0, rows) * numbers,
         .kind = args.rule.window > 0 ? "window " + std::to_string(args.rule.window) : "full"},
        [&] { inner_.attention(args); });
}

// Each sequence's keys and values are made once at least.
void TimedOps::expanded_attention(const ExpandedAttentionArgs& args) {
  const std::int64_t heads = args.out.size(1);
  const std::int64_t end = args.out.size(0);
  const std::int64_t records = tokens_seen(args.rule, args.first_row, end);
  const std::int64_t made = args.key.count * args.key.weight.in + args.value.count * args.value.weight.in;
  timed(
      {.verb = "attention",
       .bytes = records * bytes_per_token(args.kv.format) + bytes_of({&args.q, &args.out}) + bytes_of(args.key.weight) +
                (&args.value.weight == &args.key.weight ? 0 : bytes_of(args.value.weight)),
       .operations = 2 * heads *
                     (keys_seen(args.rule, args.first_row, end) * (args.q.size(2) + args.out.size(2)) + records * made),
       .kind = "expanded"},
      [&] { inner_.expanded_attention(args); });
}

void TimedOps::conv_update(const ConvUpdateArgs& args) {
  timed("conv_update", bytes_of({&args.x, &args.weight, &args.out}), [&] { inner_.conv_update(args); });
}

void TimedOps::delta_gates(const DeltaGatesArgs& args) {
  timed("delta_gates", bytes_of({&args.a, &args.b, &args.decay, &args.beta}), [&] { inner_.delta_gates(args); });
}

void TimedOps::delta_rule(const DeltaRuleArgs& args) {
  timed("delta_rule", bytes_of({&args.q, &args.k, &args.v, &args.decay, &args.beta, &args.out}),
        [&] { inner_.delta_rule(args); });
}

void TimedOps::gather(const GatherArgs& args) {
  timed("gather", bytes_of({&args.index, &args.out, &args.out}), [&] { inner_.gather(args); });
}

void TimedOps::add(const AddArgs& args) {
  timed("add", bytes_of({&args.a, &args.b, &args.out}), [&] { inner_.add(args); });
}

void TimedOps::scale(const ScaleArgs& args) {
  timed("scale", bytes_of({&args.x, &args.out}), [&] { inner_.scale(args); });
}

void TimedOps::absmax(const AbsmaxArgs& args) {
  timed("absmax", bytes_of({&args.x, &args.out}), [&] { inner_.absmax(args); });
}

void TimedOps::sample(const SampleArgs& args) {
  timed("sample", bytes_of({&args.logits, &args.out}), [&] { inner_.sample(args); });
}

void TimedOps::log_probs(const LogProbsArgs& args) {
  timed("log_probs", bytes_of({&args.logits, &args.chosen}), [&] { inner_.log_probs(args); });
}

}  // namespace octavo
