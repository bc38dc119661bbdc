#include "checkpoint/gguf.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/gguf_reader.h"

namespace octavo {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxCount = 1 << 20;  // of tensors, and of keys
constexpr std::uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;
constexpr std::uint64_t kLeastKeyBytes = 8 + 4 + 1;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::int64_t kMaxAlignment = 1 << 20;

struct Header {
  std::uint32_t version = 0;
  std::uint64_t num_tensors = 0;
  std::uint64_t num_keys = 0;
};

Result<Header> read_header(GgufReader& reader) {
  OCTAVO_TRY(const auto magic, reader.number<std::uint32_t>());
  if (magic != kMagic) return Error("not a GGUF file: it does not begin with the letters GGUF");
  Header header;
  OCTAVO_TRY(header.version, reader.number<std::uint32_t>());
  if ((header.version & 0xFFFF) == 0 && header.version != 0)
    return Error("a big-endian GGUF file is not supported", ErrorKind::unsupported);
  if (header.version != 2 && header.version != 3)
    return Error("GGUF version " + std::to_string(header.version) + " is not supported; versions 2 and 3 are",
                 ErrorKind::unsupported);
  OCTAVO_TRY(header.num_tensors, reader.number<std::uint64_t>());
  OCTAVO_TRY(header.num_keys, reader.number<std::uint64_t>());
  const auto check_count = [&](std::uint64_t count, std::uint64_t least_bytes, const char* what) -> Status {
    if (count <= kMaxCount && count <= reader.left() / least_bytes) return {};
    return Error("it claims " + std::to_string(count) + " " + what + ", more than its " +
                 std::to_string(reader.left()) + " remaining bytes or the limit of " + std::to_string(kMaxCount) +
                 " allow; the file is truncated or damaged");
  };
  OCTAVO_TRY(check_count(header.num_tensors, kLeastTensorBytes, "tensors"));
  OCTAVO_TRY(check_count(header.num_keys, kLeastKeyBytes, "keys"));
  return header;
}

struct TensorRecord {
  StoredTensor tensor;
  std::uint64_t offset = 0;
  std::int64_t bytes = 0;
};

Status read_shape_and_place(GgufReader& reader, TensorRecord& record) {
  OCTAVO_TRY(const auto num_dims, reader.number<std::uint32_t>());
  if (num_dims == 0 || num_dims > kMaxDims)
    return Error("it has " + std::to_string(num_dims) + " dimensions, but 1 to 4 are possible");
  std::vector<std::int64_t>& shape = record.tensor.shape;
  shape.resize(num_dims);
  for (std::uint32_t d = num_dims; d-- > 0;) {  // the file has the fastest first
    OCTAVO_TRY(const auto n, reader.number<std::uint64_t>());
    if (n == 0 || n > static_cast<std::uint64_t>(INT64_MAX))
      return Error("one of its dimensions is " + std::to_string(n) + "; the file is damaged");
    shape[d] = static_cast<std::int64_t>(n);
  }
  OCTAVO_TRY(const auto number, reader.number<std::uint32_t>());
  const GgmlType type = ggml_type(number);
  if (!type.supported)
    return Error(
        "its GGML type " + type.name +
            " is not supported; use a file in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K "
            "(mixes of these, as Q4_K_M and Q5_K_M, are fine)",
        ErrorKind::unsupported);
  record.tensor.dtype = type.dtype;
  OCTAVO_TRY(record.offset, reader.number<std::uint64_t>());
  OCTAVO_TRY(record.bytes, stored_bytes(type.dtype, shape));
  return {};
}

Result<std::vector<TensorRecord>> read_records(GgufReader& reader, std::uint64_t count) {
  std::vector<TensorRecord> records(count);
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < records.size(); ++i) {
    TensorRecord& record = records[i];
    OCTAVO_TRY(record.tensor.name, reader.string().in("name of tensor " + std::to_string(i)));
    const std::string what = "tensor " + in_quotes(record.tensor.name);
    if (!seen.insert(record.tensor.name).second) return Error(what + " appears twice");
    OCTAVO_TRY(read_shape_and_place(reader, record).in(what));
  }
  return records;
}

// Where the data section begins.
Result<std::uint64_t> data_start(const GgufReader& reader, std::int64_t alignment, bool has_data) {
  if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
    return Error("key \"general.alignment\" is " + std::to_string(alignment) + ", but must be a power of two up to " +
                 std::to_string(kMaxAlignment));
  const auto step = static_cast<std::uint64_t>(alignment);
  const std::uint64_t start = (reader.position() + step - 1) / step * step;
  if (has_data && start > reader.position() + reader.left())
    return Error("the file ends before its data section; it is truncated");
  return start;
}

Status place_records(std::vector<TensorRecord>& records, std::span<const std::byte> data, std::uint64_t alignment) {
  for (TensorRecord& record : records) {
    const std::string what = "tensor " + in_quotes(record.tensor.name);
    if (record.offset % alignment != 0)
      return Error(what + ": its offset " + std::to_string(record.offset) + " is no multiple of the alignment " +
                   std::to_string(alignment));
    const auto needed = static_cast<std::uint64_t>(record.bytes);
    if (record.offset > data.size() || needed > data.size() - record.offset)
      return Error(what + ": " + std::to_string(needed) + " bytes at offset " + std::to_string(record.offset) +
                   " go beyond the " + std::to_string(data.size()) +
                   " bytes of data in the file; it is truncated or damaged");
    record.tensor.bytes = data.subspan(record.offset, needed);
  }
  std::vector<const TensorRecord*> sorted;
  for (const TensorRecord& record : records) sorted.push_back(&record);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset < sorted[i - 1]->offset + static_cast<std::uint64_t>(sorted[i - 1]->bytes))
      return Error("tensors " + in_quotes(sorted[i - 1]->tensor.name) + " and " + in_quotes(sorted[i]->tensor.name) +
                   " overlap");
  return {};
}

template <class T>
const T* find_list(const std::map<std::string, GgufValue>& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  return it == metadata.end() ? nullptr : std::get_if<T>(&it->second);
}

template <class T>
Result<std::optional<T>> find_typed(const std::map<std::string, GgufValue>& metadata, const std::string& key,
                                    const char* expected) {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return std::optional<T>();
  if (const T* value = std::get_if<T>(&it->second)) return std::optional<T>(*value);
  return Error("GGUF key " + in_quotes(key) + " must be " + expected + ", but has another type");
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path) {
  OCTAVO_TRY(MappedFile opened, MappedFile::open(path));
  auto mapping = std::make_shared<const MappedFile>(std::move(opened));
  const std::span<const std::byte> bytes = mapping->bytes();
  return parse(bytes, std::move(mapping), path);
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 const std::string& path) {
  GgufReader reader(bytes);
  OCTAVO_TRY(const Header header, read_header(reader).in(path));

  GgufFile file;
  file.version_ = header.version;
  for (std::uint64_t i = 0; i < header.num_keys; ++i) {
    OCTAVO_TRY(const std::string key, reader.string().in(path + ": name of key " + std::to_string(i)));
    const std::string where = path + ": key " + in_quotes(key);
    OCTAVO_TRY(const auto type, reader.number<std::uint32_t>().in(where));
    OCTAVO_TRY(GgufValue value, reader.value(type).in(where));
    if (!file.metadata_.emplace(key, std::move(value)).second) return Error(where + " appears twice");
  }

  OCTAVO_TRY(std::vector<TensorRecord> records, read_records(reader, header.num_tensors).in(path));
  OCTAVO_TRY(const auto alignment, file.find_int("general.alignment").in(path));
  OCTAVO_TRY(const std::uint64_t start, data_start(reader, alignment.value_or(32), !records.empty()).in(path));
  const auto data = bytes.subspan(std::min<std::size_t>(start, bytes.size()));
  OCTAVO_TRY(place_records(records, data, static_cast<std::uint64_t>(alignment.value_or(32))).in(path));
  for (TensorRecord& record : records) {
    record.tensor.owner = owner;
    record.tensor.file = path;
    file.tensors_.push_back(std::move(record.tensor));
  }
  return file;
}

Result<std::optional<std::int64_t>> GgufFile::find_int(const std::string& key) const {
  return find_typed<std::int64_t>(metadata_, key, "a whole number");
}

Result<std::optional<double>> GgufFile::find_number(const std::string& key) const {
  if (const auto* whole = find_list<std::int64_t>(metadata_, key)) return std::optional(static_cast<double>(*whole));
  OCTAVO_TRY(const auto number, find_typed<double>(metadata_, key, "a number"));
  if (number && !std::isfinite(*number)) return Error("GGUF key " + in_quotes(key) + " must be a finite number");
  return number;
}

Result<std::optional<bool>> GgufFile::find_bool(const std::string& key) const {
  return find_typed<bool>(metadata_, key, "true or false");
}

Result<std::optional<std::string>> GgufFile::find_string(const std::string& key) const {
  return find_typed<std::string>(metadata_, key, "a string");
}

const std::vector<std::string>* GgufFile::find_strings(const std::string& key) const {
  return find_list<std::vector<std::string>>(metadata_, key);
}

const std::vector<std::int64_t>* GgufFile::find_ints(const std::string& key) const {
  return find_list<std::vector<std::int64_t>>(metadata_, key);
}

const std::vector<double>* GgufFile::find_numbers(const std::string& key) const {
  return find_list<std::vector<double>>(metadata_, key);
}

}  // namespace octavo
