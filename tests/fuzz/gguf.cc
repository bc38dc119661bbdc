// Fuzz target: GGUF files: metadata and tensors, and what is made of them where a model is loaded: its tokenizer, its
// chat template, and the model without its weights.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "engine/text_assets.h"
#include "model/model.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/words.h"

namespace octavo {
namespace {

void require_readable(const StoredTensor& tensor, const std::vector<std::byte>& file) {
  require(tensor.bytes.data() >= file.data() && tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
          "tensors lie in the file", tensor.name);
  const auto needed = stored_bytes(tensor.dtype, tensor.shape);
  require(needed && static_cast<std::size_t>(*needed) == tensor.bytes.size(), "tensors are whole", tensor.name);
  succeeds(read_floats(tensor));
}

void load(const Checkpoint& checkpoint) {
  if (const auto tokenizer = load_tokenizer(checkpoint); succeeds(tokenizer)) require_words(*tokenizer, kMixedText);
  succeeds(load_chat_template(checkpoint, ""));
  for (const RankOf rank : {RankOf{}, RankOf{1, 2}})
    if (const auto model = make_model(checkpoint, {}, rank); succeeds(model))
      require(!(*model)->spec().layers.empty(), "a model has layers", "");
}

}  // namespace
}  // namespace octavo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  static const FuzzFolder folder;
  log::set_level(log::Level::error);
  const auto bytes = exact_copy(data, size);
  const auto file = GgufFile::parse(*bytes, bytes, "in memory");
  if (!succeeds(file)) return 0;
  for (const StoredTensor& tensor : file->tensors()) require_readable(tensor, *bytes);
  const std::string path = folder.put("a.gguf", {reinterpret_cast<const char*>(data), size});
  const auto checkpoint = Checkpoint::open(path);
  require(checkpoint.has_value(), "the file is read as the memory was", checkpoint ? "" : checkpoint.error().message());
  require(checkpoint->tensors().size() == file->tensors().size(), "the file has the same tensors", "");
  require(checkpoint->gguf()->metadata().size() == file->metadata().size(), "and the same keys", "");
  load(*checkpoint);
  return 0;
}
