// Fuzz target: safetensors files. Whatever is accepted lies inside the file, can be written, and is the same when it is
// read again; whatever is refused is refused in a sentence.
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/readers.h"

namespace octavo {
namespace {

bool by_name(const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; }

bool same_tensor(const StoredTensor& a, const StoredTensor& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

void require_same(SafetensorsFile a, SafetensorsFile b) {
  std::sort(a.tensors.begin(), a.tensors.end(), by_name);
  std::sort(b.tensors.begin(), b.tensors.end(), by_name);
  require(a.metadata == b.metadata, "metadata is read as it was written", "");
  require(std::ranges::equal(a.tensors, b.tensors, same_tensor), "tensors are read as they were written", "");
}

}  // namespace
}  // namespace octavo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  static const FuzzFolder folder;
  const auto bytes = exact_copy(data, size);
  const auto file = parse_safetensors(*bytes, bytes, "in memory");
  if (!succeeds(file)) return 0;
  for (const StoredTensor& tensor : file->tensors)
    require(tensor.bytes.empty() || (tensor.bytes.data() >= bytes->data() &&
                                     tensor.bytes.data() + tensor.bytes.size() <= bytes->data() + size),
            "tensors lie in the file", tensor.name);
  const std::string path = folder.path("again.safetensors");
  const auto written = write_safetensors(path, file->tensors, file->metadata);
  require(written.has_value(), "what was read can be written", written ? "" : written.error().message());
  const auto again = read_safetensors(path);
  require(again.has_value(), "what was written can be read", again ? "" : again.error().message());
  require_same(*file, *again);
  return 0;
}
