#include "engine/step_inputs.h"

#include <algorithm>

#include "base/check.h"

namespace octavo {
namespace {

constexpr const char* kPurpose = "the inputs of a step";
constexpr std::size_t kAlignment = 16;

std::size_t int_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(std::int32_t); }
std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Tokens that a step draws lie before the known ids of the next, in numbers of ids.
std::int64_t drawn_room(int max_rows) { return static_cast<std::int64_t>(aligned(int_bytes(max_rows)) / 4); }

}  // namespace

struct StepInputs::Pieces {
  std::vector<std::int32_t> known_ids, id_index, positions;  // [tokens]
  std::vector<std::vector<std::int32_t>> slots;              // by group: [tokens]
  std::vector<std::vector<std::int32_t>> records;            // by state group: [seqs]
  std::vector<std::int32_t> query_start, context;            // [seqs + 1], [seqs]
  std::vector<std::int32_t> rows;                            // [rows]
  std::vector<SampleRow> settings;                           // [sampled rows]

  // Room for so many, filled with padding: each sequence has one token, and its logits are asked for.
  Pieces(int tokens, int seqs, int num_rows, int num_sampled, const StepLimits& limits)
      : known_ids(static_cast<std::size_t>(tokens)),
        positions(static_cast<std::size_t>(tokens)),
        slots(static_cast<std::size_t>(limits.num_groups), std::vector<std::int32_t>(static_cast<std::size_t>(tokens))),
        records(static_cast<std::size_t>(limits.num_state_groups),
                std::vector<std::int32_t>(static_cast<std::size_t>(seqs))),
        context(static_cast<std::size_t>(seqs), 1),
        settings(static_cast<std::size_t>(num_sampled), SampleRow{.temperature = 0.0f}) {
    const auto known_begin = static_cast<std::int32_t>(drawn_room(limits.max_rows));
    for (int t = 0; t < tokens; ++t) id_index.push_back(known_begin + t);
    for (int s = 0; s <= seqs; ++s) query_start.push_back(s);
    for (int row = 0; row < num_rows; ++row) rows.push_back(row);
  }
};

Status DeviceArray::ensure(Device& device, std::size_t bytes, const std::string& purpose) {
  if (bytes <= buffer_.size()) return {};
  // Half as much again, so that a list that grows token by token is not allocated anew each time.
  OCTAVO_TRY(buffer_, device.allocate(buffer_.size() == 0 ? bytes : bytes + bytes / 2, purpose));
  return {};
}

Result<std::unique_ptr<StepInputs>> StepInputs::create(Device& device, const StepLimits& limits) {
  auto inputs = std::unique_ptr<StepInputs>(new StepInputs(device, limits));
  const auto groups = static_cast<std::size_t>(limits.num_groups);
  inputs->table_memory_.resize(groups);
  inputs->slots_.resize(groups);
  inputs->page_tables_.resize(groups);
  inputs->records_.resize(static_cast<std::size_t>(limits.num_state_groups));
  inputs->table_rows_.assign(groups, std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(limits.max_seqs)));
  OCTAVO_TRY(inputs->id_memory_.ensure(device, int_bytes(limits.max_tokens), kPurpose));
  for (DeviceArray& table : inputs->table_memory_) {
    const std::size_t bytes = int_bytes(std::int64_t{limits.max_seqs} * limits.max_pages);
    OCTAVO_TRY(table.ensure(device, bytes, kPurpose));
    device.fill_zero(table.data(), bytes);  // entries beyond a sequence read the sink
  }
  OCTAVO_TRY(inputs->allocate_block());
  return inputs;
}

Status StepInputs::ensure_rows(int max_rows) {
  limits_.max_rows = std::max(limits_.max_rows, max_rows);
  return allocate_block();
}

// The block's size is what the largest step takes of it.
Status StepInputs::allocate_block() {
  stretch();
  return block_.ensure(device_, int_bytes(drawn_room(limits_.max_rows)) + staging_.size(), kPurpose);
}

void StepInputs::stretch() {
  lay_out(Pieces(limits_.max_tokens, limits_.max_seqs, limits_.max_rows, limits_.max_rows, limits_));
  batch_.num_decodes = 0;
  batch_.max_query = limits_.max_tokens;
  batch_.max_context = limits_.max_pages * limits_.page_size;
}

Status StepInputs::upload(const StepPlan& plan, int padded_seqs) {
  const auto num_seqs = static_cast<int>(plan.sequences.size());
  check(std::max(num_seqs, padded_seqs) <= limits_.max_seqs && plan.groups.size() <= slots_.size() + records_.size(),
        "a step is within its limits");
  check(padded_seqs == 0 || (num_seqs <= padded_seqs && plan.num_decodes == num_seqs &&
                             plan.rows.size() == plan.num_sampled() && plan.num_sampled() == plan.sequences.size()),
        "a plan that is padded has decodes only, and draws a token for each");
  const auto size_of = [padded_seqs](std::size_t planned) {
    return padded_seqs > 0 ? padded_seqs : static_cast<int>(planned);
  };
  Pieces pieces(size_of(plan.ids.size()), size_of(plan.sequences.size()), size_of(plan.rows.size()),
                size_of(plan.num_sampled()), limits_);
  fill_batch(plan, pieces);
  for (std::size_t group = 0; group < plan.groups.size(); ++group) {
    if (group < slots_.size())
      fill_group(plan, group, pieces);
    else
      fill_records(plan, group, pieces);
  }
  for (std::size_t row = 0; row < plan.rows.size(); ++row) pieces.rows[row] = plan.rows[row].token_row;
  std::copy(plan.sampling.rows.begin(), plan.sampling.rows.end(), pieces.settings.begin());
  lay_out(pieces);
  const std::size_t drawn_bytes = int_bytes(drawn_room(limits_.max_rows));
  check(drawn_bytes + staging_.size() <= block_.size(), "a step is within its limits");
  device_.upload(block_.data() + drawn_bytes, staging_);
  batch_.num_decodes = padded_seqs > 0 ? padded_seqs : plan.num_decodes;
  batch_.max_query = batch_.max_context = 1;
  for (const PlannedSequence& entry : plan.sequences) {
    batch_.max_query = std::max(batch_.max_query, entry.count);
    batch_.max_context = std::max(batch_.max_context, entry.context());
  }
  return upload_lists(plan.sampling);
}

void StepInputs::fill_batch(const StepPlan& plan, Pieces& pieces) {
  for (std::size_t t = 0; t < plan.ids.size(); ++t) {
    const std::int32_t id = plan.ids[t];
    if (id >= 0)
      pieces.known_ids[t] = id;
    else
      pieces.id_index[t] = drawn_row(id);
  }
  std::copy(plan.positions.begin(), plan.positions.end(), pieces.positions.begin());
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    begin += plan.sequences[s].count;
    pieces.query_start[s + 1] = begin;
    pieces.context[s] = plan.sequences[s].context();
  }
}

void StepInputs::fill_group(const StepPlan& plan, std::size_t group, Pieces& pieces) {
  const PlannedPages& planned = plan.groups[group];
  auto slot = pieces.slots[group].begin();
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    const auto pages = std::span(planned.pages).subspan(planned.begin[s], planned.begin[s + 1] - planned.begin[s]);
    check(static_cast<int>(pages.size()) <= limits_.max_pages, "a sequence is no longer than its page table");
    const PlannedSequence& entry = plan.sequences[s];
    for (int token = entry.first; token < entry.context(); ++token)
      *slot++ =
          pages[static_cast<std::size_t>(token / limits_.page_size)] * limits_.page_size + token % limits_.page_size;
    std::vector<std::int32_t>& held = table_rows_[group][s];
    if (std::equal(held.begin(), held.end(), pages.begin(), pages.end())) continue;
    held.assign(pages.begin(), pages.end());
    device_.upload(table_memory_[group].data() + int_bytes(static_cast<std::int64_t>(s) * limits_.max_pages),
                   std::as_bytes(std::span(held)));
  }
}

// A sequence has one page of a state group: its record.
void StepInputs::fill_records(const StepPlan& plan, std::size_t group, Pieces& pieces) const {
  const PlannedPages& planned = plan.groups[group];
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    check(planned.begin[s] < planned.begin[s + 1], "a sequence that is computed has a record");
    pieces.records[group - slots_.size()][s] = planned.pages[planned.begin[s]];
  }
}

// The pieces in their order, on the host, and views of where the device will have them.
void StepInputs::lay_out(const Pieces& pieces) {
  staging_.clear();
  const std::int64_t drawn = drawn_room(limits_.max_rows);
  const auto tokens = static_cast<std::int64_t>(pieces.known_ids.size());
  drawn_ = Tensor(block_.data(), DType::i32, {limits_.max_rows});
  id_source_ = Tensor(block_.data(), DType::i32, {drawn + tokens, 1});
  ids_ = Tensor(id_memory_.data(), DType::i32, {tokens});
  put_ints(pieces.known_ids);
  id_index_ = put_ints(pieces.id_index);
  batch_ = BatchView{};
  batch_.num_seqs = static_cast<std::int32_t>(pieces.context.size());
  batch_.num_tokens = static_cast<std::int32_t>(tokens);
  batch_.positions = put_ints(pieces.positions);
  batch_.query_start = put_ints(pieces.query_start);
  batch_.context = put_ints(pieces.context);
  for (std::size_t group = 0; group < slots_.size(); ++group) {
    slots_[group] = put_ints(pieces.slots[group]);
    page_tables_[group] = Tensor(table_memory_[group].data(), DType::i32, {batch_.num_seqs, limits_.max_pages});
  }
  for (std::size_t group = 0; group < records_.size(); ++group) records_[group] = put_ints(pieces.records[group]);
  rows_ = put_ints(pieces.rows);
  sampling_ = SampleArgs{};
  const auto settings = std::as_bytes(std::span(pieces.settings));
  sampling_.rows = reinterpret_cast<const SampleRow*>(put(settings, DType::u8, std::ssize(settings)).raw());
}

Tensor StepInputs::put(std::span<const std::byte> bytes, DType dtype, std::int64_t count) {
  const std::size_t at = staging_.size();
  staging_.resize(at + aligned(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), staging_.begin() + static_cast<std::ptrdiff_t>(at));
  const std::size_t place = int_bytes(drawn_room(limits_.max_rows)) + at;
  std::byte* const block = block_.data();  // null while it is measured how large it must be
  return Tensor(block == nullptr ? nullptr : block + place, dtype, {count});
}

Tensor StepInputs::put_ints(std::span<const std::int32_t> values) {
  return put(std::as_bytes(values), DType::i32, std::ssize(values));
}

Status StepInputs::upload_lists(const SampleBatch& sampling) {
  const auto bring = [this](DeviceArray& to, std::span<const std::byte> bytes) -> Status {
    OCTAVO_TRY(to.ensure(device_, bytes.size(), kPurpose));
    device_.upload(to.data(), bytes);
    return {};
  };
  if (const auto count = std::ssize(sampling.bias_ids); count > 0) {
    OCTAVO_TRY(bring(bias_id_memory_, std::as_bytes(std::span(sampling.bias_ids))));
    OCTAVO_TRY(bring(bias_value_memory_, std::as_bytes(std::span(sampling.bias_values))));
    sampling_.bias_ids = Tensor(bias_id_memory_.data(), DType::i32, {count});
    sampling_.bias_values = Tensor(bias_value_memory_.data(), DType::f32, {count});
  }
  if (const auto count = std::ssize(sampling.seen_ids); count > 0) {
    OCTAVO_TRY(bring(seen_id_memory_, std::as_bytes(std::span(sampling.seen_ids))));
    OCTAVO_TRY(bring(seen_count_memory_, std::as_bytes(std::span(sampling.seen_counts))));
    sampling_.seen_ids = Tensor(seen_id_memory_.data(), DType::i32, {count});
    sampling_.seen_counts = Tensor(seen_count_memory_.data(), DType::i32, {count});
  }
  return {};
}

}  // namespace octavo
