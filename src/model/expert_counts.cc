#include "model/expert_counts.h"

#include "model/config.h"

namespace octavo {
namespace {

constexpr int kMaxExperts = 1024;

struct NamedCount {
  std::string name;
  int count = 0;
};

Result<NamedCount> read_one_of(const Json& config, const std::vector<std::string>& names) {
  NamedCount found;
  for (const std::string& name : names) {
    if (find_member(config, name) == nullptr) continue;
    OCTAVO_TRY(const int count, read_count(config, name, 1, kMaxExperts));
    if (!found.name.empty() && found.count != count)
      return Error("\"" + found.name + "\" " + std::to_string(found.count) + " and \"" + name + "\" " +
                   std::to_string(count) + " contradict each other");
    found = {name, count};
  }
  if (found.name.empty()) {
    OCTAVO_TRY(found.count, read_count(config, names.front(), 1, kMaxExperts));  // says that it is missing
  }
  return found;
}

}  // namespace

Result<ExpertCounts> read_expert_counts(const Json& config, const std::vector<std::string>& experts,
                                        const std::vector<std::string>& per_token) {
  OCTAVO_TRY(const NamedCount all, read_one_of(config, experts));
  OCTAVO_TRY(const NamedCount chosen, read_one_of(config, per_token));
  if (chosen.count > all.count)
    return Error("\"" + chosen.name + "\" " + std::to_string(chosen.count) + " is more than \"" + all.name + "\" " +
                 std::to_string(all.count));
  return ExpertCounts{all.count, chosen.count};
}

}  // namespace octavo
