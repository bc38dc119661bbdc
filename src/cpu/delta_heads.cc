#include "cpu/delta_heads.h"

#include <algorithm>

#include "base/check.h"
#include "cpu/rows.h"

namespace octavo::cpu {

void each_delta_head(ThreadPool& pool, const DeltaRuleArgs& args,
                     void (*work)(const DeltaRuleArgs& args, const DeltaHead& head)) {
  const std::int64_t heads = args.v.size(1);
  const std::int64_t key_heads = args.k.size(1);
  const std::int64_t numbers = args.k.size(2) * args.v.size(2);
  check(heads % key_heads == 0 && args.q.size(1) == key_heads && args.q.size(2) == args.k.size(2) &&
            args.state.contiguous() && args.state.size(1) == heads &&
            args.state.elements() == args.state.size(0) * heads * numbers,
        "shapes of delta_rule");
  const std::int32_t* records = ints(args.records);
  const std::int32_t* query_start = ints(args.batch.query_start);
  const std::int32_t* context = ints(args.batch.context);
  pool.run(args.batch.num_seqs * heads, [&](std::int64_t piece) {
    const std::int64_t seq = piece / heads;
    DeltaHead head{.begin = query_start[seq], .end = query_start[seq + 1], .head = piece % heads};
    head.key_head = head.head / (heads / key_heads);
    check(records[seq] >= 0 && records[seq] < args.state.size(0), "a record beyond the states");
    head.state = args.state.data<float>() + (records[seq] * heads + head.head) * numbers;
    if (context[seq] == head.end - head.begin) std::fill(head.state, head.state + numbers, 0.0f);
    work(args, head);
  });
}

}  // namespace octavo::cpu
