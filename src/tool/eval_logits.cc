#include "tool/eval_logits.h"

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "terminal/console.h"
#include "tool/token_ids.h"

namespace octavo {
Status eval_logits(const EvalLogitsOptions& options, const BackendFactory& make_backend) {
  OCTAVO_TRY(check_output_file(options.output, options.engine.model_path));
  OCTAVO_TRY(const Json list, read_json_file(options.ids_file));
  OCTAVO_TRY(const std::unique_ptr<Engine> engine, Engine::create(options.engine, make_backend));
  const int vocab = engine->spec().vocab;
  OCTAVO_TRY(const auto ids, token_ids_of(list, vocab).in(options.ids_file));
  if (ids.empty()) return Error(options.ids_file + " holds no token ids");
  if (options.decode_from && (*options.decode_from < 1 || *options.decode_from > static_cast<int>(ids.size())))
    return Error("--decode-from must be between 1 and the " + std::to_string(ids.size()) + " ids, but is " +
                 std::to_string(*options.decode_from));
  OCTAVO_TRY(const std::vector<float> logits, engine->logits(ids, options.decode_from));

  StoredTensor tensor;
  tensor.name = "logits";
  tensor.dtype = DType::f32;
  tensor.shape = {static_cast<std::int64_t>(ids.size()), vocab};
  tensor.bytes = std::as_bytes(std::span(logits));
  return write_safetensors(options.output, {tensor});
}

}  // namespace octavo
