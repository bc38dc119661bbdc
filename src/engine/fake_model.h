// For tests: a model whose cache holds the tokens themselves. Each layer writes (token, position) of every row to its
// slot; the logits of a row are a hash of what its layers then read back through the page table, all of it or the
// window. A recurrent layer keeps a hash of all it was given, in its order, in its record. So a wrong page, record,
// slot, order, length or shared page gives another output, and what a history must give is known without any engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/fake_backend.h"
#include "model/model.h"

namespace octavo {

constexpr std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15ull;
  return state ^ (state >> 29);
}

class FakeModel final : public Model {
 public:
  struct Record {
    std::int32_t token;
    std::int32_t position;
  };

  static constexpr int kRecurrent = -1;
  static constexpr int kMarks = 29;
  // windows: of each layer, 0 for all; or kRecurrent.
  FakeModel(int vocab, int max_positions, std::vector<int> windows) {
    spec_.family = "fake";
    spec_.architecture = "FakeForCausalLM";
    spec_.vocab = vocab;
    spec_.hidden = 8;
    spec_.max_positions = max_positions;
    spec_.stored_dtype = "nothing";
    for (const int window : windows) {
      if (window == kRecurrent) {
        LayerSpec& layer = spec_.layers.emplace_back();
        layer.kind = "linear_attention";
        layer.cache = CacheKind::state;
        layer.state_parts = {1, 2, kMarks};
        continue;
      }
      spec_.layers.push_back({.kind = window > 0 ? "sliding_window" : "full_attention",
                              .window = window,
                              .q_heads = 1,
                              .kv_heads = 1,
                              .head_dim = 8,
                              .value_dim = 8,
                              .state_parts = {}});
    }
  }

  ModelSpec& mutable_spec() { return spec_; }
  const ModelSpec& spec() const override { return spec_; }
  NameMap names() const override { return {}; }
  Status visit(Binder&) override { return {}; }
  std::vector<KvScales> kv_scales() const override { return scales; }

  Tensor forward(Step& step) override {
    const std::int64_t rows = step.sampled_rows.size(0);
    const Tensor logits = step.arena.take(DType::f32, {rows, spec_.vocab});
    if (measuring(step)) return logits;
    const int number = forwards++;
    if (number == throw_at) throw std::runtime_error("the fake device fell off");
    if (number == out_of_memory_at) throw std::bad_alloc();
    write(step);
    for (std::int64_t row = 0; row < rows; ++row)
      if (!is_padding(step, step.sampled_rows.data<std::int32_t>()[row]))
        fill(read_back(step, step.sampled_rows.data<std::int32_t>()[row]),
             std::span(logits.data<float>() + row * spec_.vocab, static_cast<std::size_t>(spec_.vocab)));
    max_tokens_seen = std::max(max_tokens_seen.load(), step.batch.num_tokens);
    share_out(step, logits);
    return logits;
  }

  // What the logits after this history must be.
  std::vector<float> expected(std::span<const std::int32_t> history) const {
    std::uint64_t state = 1;
    for (const LayerSpec& layer : spec_.layers) {
      const auto size = static_cast<int>(history.size());
      if (layer.cache == CacheKind::state) {
        std::uint64_t kept = 1;
        for (int j = 0; j < size; ++j) kept = absorb(kept, {history[static_cast<std::size_t>(j)], j});
        state = mixed(state, kept);
        continue;
      }
      const int first = layer.window > 0 ? std::max(0, size - layer.window) : 0;
      for (int j = first; j < size; ++j) state = absorb(state, {history[static_cast<std::size_t>(j)], j});
    }
    std::vector<float> logits(static_cast<std::size_t>(spec_.vocab));
    fill(state, logits);
    return logits;
  }

  int throw_at = -1;  // which forward throws
  int out_of_memory_at = -1;
  std::vector<KvScales> scales;
  std::atomic<int> forwards = 0;
  std::atomic<int> max_tokens_seen = 0;
  std::atomic<int> wrong_places = 0;  // records that were read and belong elsewhere

 private:
  // A rank knows some columns, and learns the others from the rest.
  static void share_out(const Step& step, const Tensor& logits) {
    if (step.comm.size() == 1) return;
    for (std::int64_t i = 0; i < logits.elements(); ++i)
      if (i % step.comm.size() != step.comm.rank()) logits.data<float>()[i] = 0;
    step.comm.all_reduce(logits);
  }

  // While the arena is measured there is nothing to read.
  static bool measuring(const Step& step) { return dynamic_cast<const FakeOps*>(&step.ops) == nullptr; }

  // A row that the engine made up lies in the sink page.
  static bool is_padding(const Step& step, std::int32_t row) {
    return step.groups.front().slots.data<std::int32_t>()[row] < step.store.spec().page_size;
  }

  static std::uint64_t absorb(std::uint64_t state, Record record) {
    return mixed(mixed(state, static_cast<std::uint64_t>(record.token) + 1),
                 static_cast<std::uint64_t>(record.position));
  }
  static void fill(std::uint64_t state, std::span<float> logits) {
    for (std::size_t v = 0; v < logits.size(); ++v)
      logits[v] = static_cast<float>(mixed(state, v) >> 40) * 0x1p-21f - 4.0f;  // [-4, 4)
  }

  static std::byte* place(const KvView& view, std::int32_t page, std::int32_t in_page) {
    return view.pages + page * view.page_bytes + in_page * (view.page_bytes / view.page_size);
  }

  // A record counts its tokens in its first part and keeps their hash in the second. The third is full of the count, so
  // that a record which was not brought over whole is noticed.
  void update_records(Step& step, int layer) {
    const Tensor counts = step.store.state(layer, 0);
    const Tensor hashes = step.store.state(layer, 1);
    const Tensor all_marks = step.store.state(layer, 2);
    const std::int32_t* start = step.batch.query_start.data<std::int32_t>();
    std::vector<std::uint64_t>& after = after_[static_cast<std::size_t>(layer)];
    after.assign(static_cast<std::size_t>(step.batch.num_tokens), 0);
    for (std::int32_t s = 0; s < step.batch.num_seqs; ++s) {
      const std::int32_t record = step.group_of(layer).records.data<std::int32_t>()[s];
      const std::int32_t context = step.batch.context.data<std::int32_t>()[s];
      float* count = counts.data<float>() + record;
      float* hash = hashes.data<float>() + std::int64_t{2} * record;
      const std::span marks(all_marks.data<float>() + std::int64_t{kMarks} * record, kMarks);
      std::uint64_t kept = 1;
      if (context == start[s + 1] - start[s]) {
        *count = 0;
      } else {
        std::memcpy(&kept, hash, sizeof kept);
        if (std::any_of(marks.begin(), marks.end(), [&](float mark) { return mark != *count; })) ++wrong_places;
      }
      if (static_cast<std::int32_t>(*count) != context - (start[s + 1] - start[s])) ++wrong_places;
      for (std::int32_t t = start[s]; t < start[s + 1]; ++t)
        kept = after[static_cast<std::size_t>(t)] =
            absorb(kept, {step.ids.data<std::int32_t>()[t], step.batch.positions.data<std::int32_t>()[t]});
      std::memcpy(hash, &kept, sizeof kept);
      *count = static_cast<float>(context);
      std::fill(marks.begin(), marks.end(), *count);
    }
  }

  void write(Step& step) {
    after_.resize(spec_.layers.size());
    for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) {
      if (spec_.layers[layer].cache == CacheKind::state) {
        update_records(step, static_cast<int>(layer));
        continue;
      }
      const GroupStep& group = step.group_of(static_cast<int>(layer));
      const KvView view = step.store.view(static_cast<int>(layer), group.page_table);
      for (std::int32_t t = 0; t < step.batch.num_tokens; ++t) {
        const std::int32_t slot = group.slots.data<std::int32_t>()[t];
        const Record record{step.ids.data<std::int32_t>()[t], step.batch.positions.data<std::int32_t>()[t]};
        std::memcpy(place(view, slot / view.page_size, slot % view.page_size), &record, sizeof record);
      }
    }
  }

  std::uint64_t read_back(Step& step, std::int32_t row) {
    const std::int32_t* start = step.batch.query_start.data<std::int32_t>();
    std::int32_t s = 0;
    while (start[s + 1] <= row) ++s;
    const std::int32_t position = step.batch.positions.data<std::int32_t>()[row];
    const std::int32_t context = step.batch.context.data<std::int32_t>()[s];
    if (position != context - start[s + 1] + row) ++wrong_places;
    std::uint64_t state = 1;
    for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) {
      if (spec_.layers[layer].cache == CacheKind::state) {
        state = mixed(state, after_[layer][static_cast<std::size_t>(row)]);
        continue;
      }
      const KvView view = step.store.view(static_cast<int>(layer), step.group_of(static_cast<int>(layer)).page_table);
      const int window = spec_.layers[layer].window;
      for (std::int32_t j = window > 0 ? std::max(0, position - window + 1) : 0; j <= position; ++j) {
        const std::int32_t page = view.page_table[s * view.max_pages + j / view.page_size];
        Record record;
        std::memcpy(&record, place(view, page, j % view.page_size), sizeof record);
        if (record.position != j || page == 0) ++wrong_places;
        state = absorb(state, record);
      }
    }
    return state;
  }

  ModelSpec spec_;
  std::vector<std::vector<std::uint64_t>> after_;  // by layer: what its record was after each row
};

}  // namespace octavo
