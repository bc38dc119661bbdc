// Fuzz target: a config.json, perhaps a generation_config.json behind a NUL byte. What a family accepts is a model
// whose weights can be counted, the same each time.
#include <cstddef>
#include <cstdint>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/weight_meter.h"
#include "model/model.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/readers.h"

namespace octavo {
namespace {

// Bytes of this rank's weights before they are cut; 0: refused.
std::size_t measure(const Checkpoint& checkpoint, RankOf rank) {
  const auto model = make_model(checkpoint, {}, rank);
  if (!succeeds(model)) return 0;
  const ModelSpec& spec = (*model)->spec();
  require(spec.vocab > 0 && spec.hidden > 0 && spec.max_positions > 0 && !spec.layers.empty(), "a model has sizes", "");
  WeightMeter meter(spec.quantization);
  require((*model)->visit(meter).has_value(), "a model's weights can be counted", "");
  require(meter.bytes() > 0, "a model has weights", "");
  return meter.bytes();
}

}  // namespace
}  // namespace octavo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  static const FuzzFolder folder;
  log::set_level(log::Level::error);
  const auto parts = split_input(data, size, 2);
  if (!succeeds(parse_json(parts[0], "config.json"))) return 0;  // without the pains of writing it
  folder.put("config.json", parts[0]);
  folder.put("generation_config.json", parts[1].empty() ? "{}" : parts[1]);
  const auto checkpoint = Checkpoint::open(folder.path(), LoadFormat::dummy);
  if (!succeeds(checkpoint)) return 0;
  const std::size_t alone = measure(*checkpoint, {}), shared = measure(*checkpoint, {1, 2});
  require(shared == 0 || alone == shared, "what ranks share is the same model", parts[0]);
  return 0;
}
