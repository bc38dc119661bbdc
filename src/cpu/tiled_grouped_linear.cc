#include "cpu/tiled_grouped_linear.h"

#include <algorithm>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"
#include "cpu/weight_tiles.h"

namespace octavo::cpu {

namespace {

// The choices t k + j in the order of their experts.
struct SortedChoices {
  std::vector<std::int64_t> first;  // [experts + 1]: where an expert's rows begin
  std::vector<std::int64_t> order;  // [tokens k]: the choice of each row
  std::vector<std::int64_t> place;  // [tokens k]: the row of each choice
};

SortedChoices sort_choices(const GroupedLinearArgs& args) {
  const std::int32_t* ids = ints(args.ids);
  const auto choices = static_cast<std::size_t>(args.ids.elements());
  SortedChoices sorted;
  sorted.first.assign(args.experts.size() + 1, 0);
  sorted.order.resize(choices);
  sorted.place.resize(choices);
  for (std::size_t i = 0; i < choices; ++i) {
    check(ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < args.experts.size(), "there is no such expert");
    ++sorted.first[static_cast<std::size_t>(ids[i]) + 1];
  }
  for (std::size_t e = 0; e < args.experts.size(); ++e) sorted.first[e + 1] += sorted.first[e];
  std::vector<std::int64_t> next(sorted.first.begin(), sorted.first.end() - 1);
  for (std::size_t i = 0; i < choices; ++i) {
    const std::int64_t row = next[static_cast<std::size_t>(ids[i])]++;
    sorted.order[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(i);
    sorted.place[i] = row;
  }
  return sorted;
}

void check_grouped(const GroupedLinearArgs& args) {
  const std::int64_t tokens = args.ids.size(0);
  const std::int64_t k = args.ids.size(1);
  const Weight& first = args.experts[0];
  for (const Weight& expert : args.experts)
    check(expert.in == args.x.size(1) && expert.out == first.out, "experts of one layer have one shape");
  check(args.x.size(0) == tokens || args.x.size(0) == tokens * k,
        "grouped_linear reads a row a token or a row a choice");
  check(args.out.size(0) == (args.weights.empty() ? tokens * k : tokens) && args.out.size(1) == first.out,
        "shapes of grouped_linear");
}

// The tiles of every expert that has rows, over blocks of its rows.
std::vector<LinearTile> tiles_of(const GroupedLinearArgs& args, const SortedChoices& sorted, const LinearInputs& inputs,
                                 const Tensor& results) {
  std::vector<LinearTile> tiles;
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    const std::int64_t end = sorted.first[e + 1];
    if (sorted.first[e] == end) continue;
    const Weight& expert = args.experts[e];
    check_weight(expert);
    const float* bias =
        args.bias.empty() ? nullptr : floats(args.bias) + static_cast<std::int64_t>(e) * args.bias.size(1);
    for (std::int64_t row = sorted.first[e]; row < end; row += kTileRows) {
      const std::size_t begin = tiles.size();
      add_tiles(expert, bias, results.rows(row, std::min(kTileRows, end - row)), tiles);
      for (std::size_t i = begin; i < tiles.size(); ++i) {
        tiles[i].x = inputs.row(row);
        tiles[i].x_stride = inputs.stride();
        tiles[i].rows = std::min(kTileRows, end - row);
      }
    }
  }
  return tiles;
}

// Results in the order of the choices, or each token's weighted and summed.
void gather_results(ThreadPool& pool, const GroupedLinearArgs& args, const SortedChoices& sorted,
                    const float* results) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t out = args.out.size(1);
  const std::int64_t rows = args.out.size(0);
  const std::int64_t k = args.ids.size(1);
  const float* weights = floats(args.weights);
  const auto result = [&](std::int64_t choice) {
    return results + sorted.place[static_cast<std::size_t>(choice)] * out;
  };
  pool.run((rows + kRows - 1) / kRows, [&](std::int64_t part) {
    std::vector<float> sums(static_cast<std::size_t>(out));
    for (std::int64_t row = part * kRows; row < std::min(rows, (part + 1) * kRows); ++row) {
      if (weights == nullptr) {
        store_row(result(row), out, row_at(args.out, row), args.out.dtype());
        continue;
      }
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t j = 0; j < k; ++j) {
        const float weight = weights[row * k + j];
        const float* one = result(row * k + j);
        for (std::size_t o = 0; o < sums.size(); ++o) sums[o] += weight * one[o];
      }
      store_row(sums.data(), out, row_at(args.out, row), args.out.dtype());
    }
  });
}

void run_grouped(ThreadPool& pool, const GroupedLinearArgs& args, const LinearPath& path) {
  check_grouped(args);
  const SortedChoices sorted = sort_choices(args);
  std::vector<std::int64_t> rows = sorted.order;  // of x
  if (args.x.size(0) == args.ids.size(0))
    for (std::int64_t& row : rows) row /= args.ids.size(1);
  const LinearInputs inputs(pool, args.x, rows, input_order(args.experts[0]), path.widen);
  const auto choices = static_cast<std::int64_t>(rows.size());
  const Floats memory = make_floats(choices * args.out.size(1));
  const Tensor results(memory.get(), DType::f32, {choices, args.out.size(1)});
  const std::vector<LinearTile> tiles = tiles_of(args, sorted, inputs, results);
  pool.run(static_cast<std::int64_t>(tiles.size()),
           [&](std::int64_t i) { path.tile(tiles[static_cast<std::size_t>(i)]); });
  gather_results(pool, args, sorted, memory.get());
}

bool are_tiled(const GroupedLinearArgs& args) {
  check(!args.experts.empty() && args.ids.rank() == 2, "shapes of grouped_linear");
  return std::all_of(args.experts.begin(), args.experts.end(), [&](const Weight& expert) {
    return is_tiled(expert) && input_order(expert) == input_order(args.experts[0]);
  });
}

}  // namespace

void avx512::grouped_linear(ThreadPool& pool, const GroupedLinearArgs& args, bool deterministic) {
  if (!are_tiled(args)) return plain::grouped_linear(pool, args, deterministic);
  run_grouped(pool, args, {linear_tile, widen});
}

void avx2::grouped_linear(ThreadPool& pool, const GroupedLinearArgs& args, bool deterministic) {
  if (!are_tiled(args)) return plain::grouped_linear(pool, args, deterministic);
  run_grouped(pool, args, {linear_tile, widen});
}

}  // namespace octavo::cpu
