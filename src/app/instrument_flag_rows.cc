#include "app/instrument_flag_rows.h"

#include <algorithm>

#include "app/flag_setters.h"

namespace octavo {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 28;  // tokens

Status set_kv_cache_list(Options& options, const std::string& text) {
  options.kv_caches.clear();
  for (const std::string_view part : split(text, ",")) {
    CacheVariant variant;
    variant.name = std::string(trim(part));
    OCTAVO_TRY(variant.choice, parse_kv_cache_dtype(variant.name));
    const auto same = [&](const CacheVariant& other) { return other.name == variant.name; };
    if (std::any_of(options.kv_caches.begin(), options.kv_caches.end(), same))
      return Error(in_quotes(variant.name) + " is named twice");
    options.kv_caches.push_back(std::move(variant));
  }
  if (options.kv_caches.empty()) return Error(in_quotes(text) + " names no cache dtype");
  return {};
}

Status set_input_lens(Options& options, const std::string& text) {
  options.input_lens.clear();
  for (const std::string_view part : split(text, ",")) {
    OCTAVO_TRY(const std::int64_t length, parse_size(trim(part)));
    if (length < 1 || length > kLongest)
      return Error(in_quotes(part) + " is not a length between 1 and " + std::to_string(kLongest));
    options.input_lens.push_back(static_cast<int>(length));
  }
  if (options.input_lens.empty()) return Error(in_quotes(text) + " names no length");
  return {};
}

Status set_reference(Options& options, const std::string& text) {
  OCTAVO_TRY(options.reference_kv_cache, parse_kv_cache_dtype(text));
  options.reference_name = text;
  return {};
}

Set length(int low, int& (*target)(Options&)) {
  return count(low, kLongest, true, [=](Options& o, std::int64_t v) { target(o) = static_cast<int>(v); });
}
int& output_len_of(Options& o) { return o.output_len; }

void add_eval_text_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--text", "FILE", "the text, UTF-8", "required", kEvalText,
                  any([](Options& o, const std::string& v) { o.text_file = v; })});
  rows.push_back({"--context", "TOKENS", "tokens of a window; the text is cut into windows",
                  "the model's, at most 2048", kEvalText,
                  count(2, kLongest, true, [](Options& o, std::int64_t v) { o.context = static_cast<int>(v); })});
  rows.push_back({"--reference-kv-cache-dtype", "DTYPE", "the cache that --kv-cache-dtype is compared with", "auto",
                  bit(Command::eval_kld), set_reference});
  rows.push_back({"--output-json", "FILE", "write the results as JSON too", "none", kEvalText | kBench | kKernels,
                  any([](Options& o, const std::string& v) { o.output_json = v; })});
}

void add_bench_many_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--kv-cache-dtype", "DTYPES",
                  "caches to measure, separated by commas; the first is what the others are compared with", "auto",
                  kBenchMany, set_kv_cache_list});
  rows.push_back({"--input-len", "TOKENS", "prompt lengths, separated by commas", "1024", bit(Command::bench_latency),
                  set_input_lens});
  rows.push_back({"--input-len", "TOKENS", "prompt lengths, separated by commas",
                  "256, 1k, 4k, 16k, 32k, 64k, 125000, as far as the model goes", bit(Command::bench_sweep),
                  set_input_lens});
  rows.push_back(
      {"--output-len", "TOKENS", "tokens of each answer, at least 2", "128", kBenchMany, length(2, output_len_of)});
  rows.push_back({"--num-iters", "COUNT", "measurements of which the median counts", "3",
                  kBenchMany | bit(Command::bench_verbs),
                  count(1, 1000, false, [](Options& o, std::int64_t v) { o.num_iters = static_cast<int>(v); })});
  rows.push_back({"--num-iters-warmup", "COUNT", "requests of the shortest length before each cache is measured", "1",
                  kBenchMany,
                  count(0, 1000, false, [](Options& o, std::int64_t v) { o.num_iters_warmup = static_cast<int>(v); })});
  rows.push_back({"--report", "FILE", "write one self-contained HTML page with plots", "none",
                  kBenchMany | bit(Command::bench_kernels),
                  any([](Options& o, const std::string& v) { o.report_file = v; })});
}

void add_bench_one_rows(std::vector<FlagRow>& rows) {
  const unsigned throughput = bit(Command::bench_throughput);
  const unsigned verbs = bit(Command::bench_verbs);
  const auto input_len =
      count(1, kLongest, true, [](Options& o, std::int64_t v) { o.input_lens = {static_cast<int>(v)}; });
  rows.push_back({"--input-len", "TOKENS", "tokens of each prompt", "512", throughput, input_len});
  rows.push_back({"--output-len", "TOKENS", "tokens of each answer", "128", throughput, length(1, output_len_of)});
  rows.push_back({"--input-len", "TOKENS", "tokens of the prompt", "1024", verbs, input_len});
  rows.push_back({"--output-len", "TOKENS", "tokens of the answer, at least 2", "32", verbs, length(2, output_len_of)});
  rows.push_back({"--num-prompts", "COUNT", "requests in all", "100", throughput,
                  count(1, 1 << 24, true, [](Options& o, std::int64_t v) { o.num_prompts = static_cast<int>(v); })});
  rows.push_back({"--max-concurrency", "COUNT", "requests at once", "8", throughput,
                  count(1, 4096, true, [](Options& o, std::int64_t v) { o.max_concurrency = static_cast<int>(v); })});
  rows.push_back({"--random-range-ratio", "NUMBER", "lengths are spread by this share to both sides", "0", throughput,
                  number(0, 1, true, [](Options& o, float v) { o.random_range_ratio = v; })});
}

void add_kernel_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--kernels", "", "list every kernel with its shape, registers, shared memory and spills", "off",
                  bit(Command::advise), any([](Options& o, const std::string&) { o.kernels = true; })});
  rows.push_back({"--rows", "PATTERN", "kernels by name; * and ? stand for any characters and for one", "*",
                  bit(Command::bench_kernels), any([](Options& o, const std::string& v) { o.kernel_rows = v; })});
}

}  // namespace

void add_instrument_rows(std::vector<FlagRow>& rows) {
  add_eval_text_rows(rows);
  add_bench_many_rows(rows);
  add_bench_one_rows(rows);
  add_kernel_rows(rows);
}

}  // namespace octavo
