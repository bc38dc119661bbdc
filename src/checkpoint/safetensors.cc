#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/safetensors_dtype.h"

namespace octavo {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
};

// Takes the header's events from the JSON parser: a tree would silently keep the last of two equal names.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string failure;

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) return enter(Place::names);
    if (place_ != Place::names) return unexpected("an object");
    if (name_ == kMetadata) return enter(Place::metadata);
    entries.emplace_back().name = name_;
    return enter(Place::tensor);
  }

  bool key(std::string& text) override {
    if (place_ != Place::names) {
      field_ = text;
      return true;
    }
    name_ = text;
    return seen_.insert(text).second || fail("the name appears twice");
  }

  bool end_object() override {
    if (place_ == Place::names) return enter(Place::outside);
    if (place_ == Place::tensor) {
      const Entry& entry = entries.back();
      if (!entry.dtype || !entry.shape || !entry.offsets || entry.offsets->size() != 2)
        return fail("it needs dtype, shape and two data_offsets");
    }
    return enter(Place::names);
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata)
      return metadata.emplace(field_, text).second || fail(in_quotes(field_) + " appears twice");
    if (place_ != Place::tensor || field_ != "dtype" || entries.back().dtype) return unexpected("a string");
    entries.back().dtype = text;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor) return unexpected("a list");
    std::optional<std::vector<std::int64_t>>* numbers = nullptr;
    if (field_ == "shape") numbers = &entries.back().shape;
    if (field_ == "data_offsets") numbers = &entries.back().offsets;
    if (numbers == nullptr || numbers->has_value()) return unexpected("a list");
    numbers_ = &numbers->emplace();
    return enter(Place::numbers);
  }

  bool end_array() override { return enter(Place::tensor); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::numbers) return unexpected("a number");
    if (value > static_cast<std::uint64_t>(INT64_MAX))
      return fail(in_quotes(field_) + " holds a number above 2^63 - 1");
    if (numbers_->size() >= kMaxStoredRank) return fail(in_quotes(field_) + " holds more than 8 numbers");
    numbers_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool number_integer(std::int64_t) override { return fail(in_quotes(field_) + " holds a negative number"); }
  bool number_float(double, const std::string&) override {
    return fail(in_quotes(field_) + " holds no whole number of 64 bits");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    failure = "the header is not valid JSON at byte " + std::to_string(position) + "; the file is damaged";
    return false;
  }

 private:
  enum class Place { outside, names, tensor, numbers, metadata };
  static constexpr std::string_view kMetadata = "__metadata__";

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool fail(const std::string& what) {
    failure = "in its header, " + (name_.empty() ? std::string() : "tensor " + in_quotes(name_) + ": ") + what;
    return false;
  }
  bool unexpected(const std::string& what) {
    return fail("unexpected " + what + (field_.empty() ? std::string() : " at " + in_quotes(field_)));
  }

  Place place_ = Place::outside;
  std::string name_;
  std::string field_;
  std::vector<std::int64_t>* numbers_ = nullptr;
  std::unordered_set<std::string> seen_;
};

Result<std::string_view> find_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes)
    return Error("only " + std::to_string(bytes.size()) + " bytes, too short for safetensors; the file is truncated");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeaderBytes)
    return Error("not a safetensors file: its first 8 bytes claim a header of " + std::to_string(length) +
                 " bytes, above the limit of 100 MB");
  if (length > bytes.size() - kLengthBytes)
    return Error("the header is said to have " + std::to_string(length) + " bytes, but the file has only " +
                 std::to_string(bytes.size()) + "; it is truncated or damaged");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (header.empty() || header[0] != '{') return Error("not a safetensors file: the header does not begin with '{'");
  return header;
}

// Every byte of the data belongs to exactly one tensor; `entries` are sorted by offset.
Status check_layout(const std::vector<Entry>& entries, std::int64_t data_bytes) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::vector<std::int64_t>& offsets = *entries[i].offsets;
    if (offsets[0] < end)
      return Error("tensors " + in_quotes(entries[i - 1].name) + " and " + in_quotes(entries[i].name) +
                   " overlap");
    if (offsets[0] > end)
      return Error(std::to_string(offsets[0] - end) + " bytes before tensor " + in_quotes(entries[i].name) +
                   " belong to no tensor");
    end = offsets[1];
  }
  if (end != data_bytes)
    return Error(std::to_string(data_bytes - end) + " bytes at the end belong to no tensor; the file is damaged");
  return {};
}

Result<StoredTensor> locate(const Entry& entry, std::span<const std::byte> data) {
  StoredTensor tensor;
  tensor.name = entry.name;
  tensor.shape = *entry.shape;
  const std::optional<DType> dtype = dtype_of_safetensors(*entry.dtype);
  if (!dtype) return Error("dtype " + in_quotes(*entry.dtype) + " is not supported", ErrorKind::unsupported);
  tensor.dtype = *dtype;
  const std::int64_t begin = (*entry.offsets)[0];
  const std::int64_t end = (*entry.offsets)[1];
  if (begin > end) return Error("its data_offsets " + shape_text(*entry.offsets) + " run backwards");
  if (static_cast<std::uint64_t>(end) > data.size())
    return Error("its data_offsets " + shape_text(*entry.offsets) + " go beyond the " + std::to_string(data.size()) +
                 " bytes of data in the file; it is truncated or damaged");
  OCTAVO_TRY(const std::int64_t needed, stored_bytes(tensor.dtype, tensor.shape));
  if (needed != end - begin)
    return Error(std::string(dtype_info(tensor.dtype).name) + " " + shape_text(tensor.shape) + " needs " +
                 std::to_string(needed) + " bytes, but its data_offsets hold " + std::to_string(end - begin));
  tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(needed));
  return tensor;
}

Result<SafetensorsFile> parse(std::span<const std::byte> bytes) {
  OCTAVO_TRY(const std::string_view header, find_header(bytes));
  HeaderEvents events;
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &events)) return Error(events.failure);

  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header.size());
  SafetensorsFile file;
  file.metadata = std::move(events.metadata);
  std::sort(events.entries.begin(), events.entries.end(),
            [](const Entry& a, const Entry& b) { return *a.offsets < *b.offsets; });
  for (const Entry& entry : events.entries) {
    OCTAVO_TRY(StoredTensor tensor, locate(entry, data).in("tensor " + in_quotes(entry.name)));
    file.tensors.push_back(std::move(tensor));
  }
  OCTAVO_TRY(check_layout(events.entries, static_cast<std::int64_t>(data.size())));
  return file;
}

}  // namespace

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                          const std::string& path) {
  OCTAVO_TRY(SafetensorsFile file, parse(bytes).in(path));
  for (StoredTensor& tensor : file.tensors) {
    tensor.owner = owner;
    tensor.file = path;
  }
  return file;
}

Result<SafetensorsFile> read_safetensors(const std::string& path) {
  OCTAVO_TRY(MappedFile opened, MappedFile::open(path));
  auto mapping = std::make_shared<const MappedFile>(std::move(opened));
  const std::span<const std::byte> bytes = mapping->bytes();
  return parse_safetensors(bytes, std::move(mapping), path);
}

}  // namespace octavo
