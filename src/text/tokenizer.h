// Text to token ids and back, as the model's makers do it: Hugging Face tokenizer.json, or the vocabulary of a GGUF
// file.
//
// A Tokenizer is immutable and cheap to copy (copies share their tables); every const call may run on many threads at
// once. Encoding takes time linear in the text (n log n inside one piece), bounded stack, and refuses texts above 1
// GiB. A component that octavo does not know is refused by name when the tokenizer is read, never ignored. Bytes that
// are not UTF-8 are encoded one by one by the vocabulary's byte tokens; where it has none they become its unknown
// token, and where it has no such token either they are left out (as are valid bytes that a byte-level vocabulary
// lacks).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

struct EncodeOptions {
  bool parse_special = true;  // control tokens written in the text are recognised; added tokens that are not special
                              // always are, since they are ordinary vocabulary (line breaks, tags)
  bool add_special = false;   // what the model expects around a text: mostly its BOS
};

struct DecodeState;  // text/decoder.h

struct DecodeOptions {
  bool skip_special = false;  // leave control tokens out
};

// A vocabulary as a GGUF file carries it; the checkpoint room fills it. Optional fields: nullopt where the file is
// silent, then the customary value of model and pre is taken.
struct Vocabulary {
  std::string model;                // the file's word for the kind: byte-level BPE by merges, or pieces by score, ...
  std::string pre;                  // names the pre-tokenizer of a byte-level vocabulary: "gpt-2", "default", ...
  std::vector<std::string> tokens;  // by id
  std::vector<std::int32_t> types;  // by id, or empty: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<float> scores;        // by id; needed where pieces are joined by score
  std::vector<std::string> merges;  // "a b", best first; needed by the other kinds
  std::optional<int> bos, eos, unk;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

class Tokenizer {
 public:
  // tokenizer_config may be null; its bos_token and eos_token are read, and where its tokenizer_class heeds them
  // add_bos_token and add_eos_token.
  static Result<Tokenizer> from_json(const nlohmann::json& tokenizer_json, const nlohmann::json* tokenizer_config);
  static Result<Tokenizer> from_vocabulary(const Vocabulary& vocabulary);

  Result<std::vector<std::int32_t>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Ids that name no token give no text. Broken UTF-8 becomes U+FFFD, as Hugging Face's decode does.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  int vocab_size() const;                      // largest id + 1, added tokens included
  bool has_token(int id) const;                // some ids below vocab_size() may be free
  std::string_view id_to_token(int id) const;  // as the file spells it ("Ġthe", "▁the", "<0x0A>"); empty for a free id
  std::optional<int> token_to_id(std::string_view token) const;  // by the same spelling
  std::string_view token_bytes(int id) const;  // what the token stands for (" the", "\n"), perhaps part of a character
  bool is_special(int id) const;               // a control token
  std::optional<int> bos_id() const;
  std::optional<int> eos_id() const;
  std::span<const std::int32_t> prefix() const;  // what add_special puts in front
  std::span<const std::int32_t> suffix() const;  // and behind
  const std::string& description() const;        // for people: "byte-level BPE, NFC, ignore_merges, 151669 tokens"

  // Decoding step by step, for StreamDecoder: appends what is certain; then the rest.
  void decode_token(std::int32_t id, const DecodeOptions& options, DecodeState& state, std::string& out) const;
  void decode_finish(DecodeState& state, std::string& out) const;

  struct Parts;  // text/tokenizer_parts.h
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace octavo
