#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu::plain {

void embed(ThreadPool& pool, const EmbedArgs& args) {
  check_weight(args.table);
  const std::int64_t n = args.table.in;
  check(args.out.size(0) == args.ids.elements() && args.out.size(1) == n, "shapes of embed");
  const std::int32_t* ids = ints(args.ids);
  pool.run(args.out.size(0), [&](std::int64_t t) {
    const std::int64_t id = ids[t] - args.first_id.value_or(0);
    const bool is_here = id >= 0 && id < args.table.out;
    check(is_here || (args.first_id && ids[t] >= 0), "a token id beyond the vocabulary");
    std::vector<double> row(static_cast<std::size_t>(n));
    std::vector<float> rounded(static_cast<std::size_t>(n));
    if (is_here) load_weight_row(args.table, id, row.data());
    for (std::size_t i = 0; i < row.size(); ++i) rounded[i] = static_cast<float>(row[i] * args.scale);
    store_row(rounded.data(), n, row_at(args.out, t), args.out.dtype());
  });
}

}  // namespace octavo::cpu::plain
