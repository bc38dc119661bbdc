#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/tokenizer_parts.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
constexpr std::size_t kCacheFrom = 2048;  // bytes of text from which a cache of pieces pays for its memory

// One call of encode().
class Encoding {
 public:
  Encoding(const Tokenizer::Parts& parts, std::string_view text, bool parse_special)
      : parts_(parts),
        text_(text),
        skip_special_(!parse_special),
        run_(parts.pre_tokenizer),
        scratch_(text.size() >= kCacheFrom),
        piece_([this](std::string_view piece) { parts_.bpe.encode(piece, scratch_, ids_); }) {}

  Status all() {
    ids_.reserve(text_.size() / 4);
    return cut(parts_.added_raw, text_, [&](std::string_view part) { return raw(part); });
  }

  std::vector<std::int32_t> ids_;

 private:
  // Takes the added tokens out of `text` and gives what is between them to `plain`.
  template <class Plain>
  Status cut(const AddedTokens& added, std::string_view text, const Plain& plain) {
    std::size_t at = 0;
    while (const auto match = added.find(text, at, skip_special_)) {
      if (match->begin > at) OCTAVO_TRY(plain(text.substr(at, match->begin - at)));
      ids_.push_back(match->id);
      first_ = false;
      at = match->end;
    }
    return at < text.size() ? plain(text.substr(at)) : Status();
  }

  // Text as the user wrote it, perhaps with bytes that are not UTF-8.
  Status raw(std::string_view text) {
    bool continues = false;
    while (!text.empty()) {
      const std::size_t good = std::min(find_invalid_utf8(text), text.size());
      if (good > 0) OCTAVO_TRY(valid(text.substr(0, good), continues));
      text.remove_prefix(good);
      std::size_t bad = 0;
      while (bad < text.size() && find_invalid_utf8(text.substr(bad, 4)) == 0) ++bad;
      parts_.bpe.encode_bytes(text.substr(0, bad), scratch_, ids_);
      text.remove_prefix(bad);
      continues = true;
      first_ = false;
    }
    return {};
  }

  Status valid(std::string_view text, bool continues) {
    std::string changed;
    if (!parts_.normalizer.empty()) {
      OCTAVO_TRY(changed, parts_.normalizer.apply(text, continues));
      text = changed;
    }
    return cut(parts_.added_normalized, text, [&](std::string_view part) {
      const Status status = run_.split(part, {first_, continues && part.data() == text.data()}, piece_);
      first_ = false;
      return status;
    });
  }

  const Tokenizer::Parts& parts_;
  std::string_view text_;
  bool skip_special_;
  bool first_ = true;  // nothing of the text has become a token
  PreTokenizer::Run run_;
  Bpe::Scratch scratch_;
  PreTokenizer::PieceFn piece_;
};

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes)
    return Error("the text has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(kMaxTextBytes) +
                 " can be encoded at once");
  Encoding encoding(*parts_, text, options.parse_special);
  OCTAVO_TRY(encoding.all());
  std::vector<std::int32_t> ids = std::move(encoding.ids_);
  if (options.add_special) {
    ids.insert(ids.begin(), parts_->prefix.begin(), parts_->prefix.end());
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, const DecodeOptions& options) const {
  DecodeState state;
  std::string text;
  for (const std::int32_t id : ids) decode_token(id, options, state, text);
  parts_->decoder.finish(state, text);
  return text;
}

void Tokenizer::decode_token(std::int32_t id, const DecodeOptions& options, DecodeState& state,
                             std::string& out) const {
  if (!has_token(id) || (options.skip_special && is_special(id))) return;
  const TokenTable& texts = state.first && parts_->decoder.first_differs() ? parts_->decoded_first : parts_->decoded;
  parts_->decoder.push(texts.text(id), parts_->is_byte[static_cast<std::size_t>(id)], state, out);
}

void Tokenizer::decode_finish(DecodeState& state, std::string& out) const { parts_->decoder.finish(state, out); }

int Tokenizer::vocab_size() const { return parts_->spelled.size(); }

bool Tokenizer::has_token(int id) const { return !id_to_token(id).empty(); }

std::string_view Tokenizer::id_to_token(int id) const {
  return id < 0 || id >= vocab_size() ? std::string_view() : parts_->spelled.text(id);
}

std::optional<int> Tokenizer::token_to_id(std::string_view token) const {
  const int id = token.empty() ? -1 : parts_->spelled.find(token);
  return id < 0 ? std::nullopt : std::optional<int>(id);
}

std::string_view Tokenizer::token_bytes(int id) const {
  return has_token(id) ? parts_->decoded.text(id) : std::string_view();
}

bool Tokenizer::is_special(int id) const {
  return id >= 0 && id < vocab_size() && parts_->special[static_cast<std::size_t>(id)];
}

std::optional<int> Tokenizer::bos_id() const { return parts_->bos; }
std::optional<int> Tokenizer::eos_id() const { return parts_->eos; }
std::span<const std::int32_t> Tokenizer::prefix() const { return parts_->prefix; }
std::span<const std::int32_t> Tokenizer::suffix() const { return parts_->suffix; }
const std::string& Tokenizer::description() const { return parts_->description; }

}  // namespace octavo
