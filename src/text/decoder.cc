#include "text/decoder.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/strings.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace octavo {
namespace {

// Byte-level vocabularies spell printable Latin-1 as itself and the other 68 bytes as U+0100 and up, in order.
constexpr bool spelled_as_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kSpellings = 256 + 68;

constexpr std::array<std::int16_t, kSpellings> byte_by_spelling() {
  std::array<std::int16_t, kSpellings> bytes{};
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte)
    bytes[static_cast<std::size_t>(spelled_as_itself(byte) ? byte : next++)] = static_cast<std::int16_t>(byte);
  return bytes;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "<0x0A>" is the byte 10.
std::optional<char> byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return {};
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  if (high < 0 || low < 0) return {};
  return static_cast<char>(high * 16 + low);
}

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelled) {
  constexpr std::array<std::int16_t, kSpellings> kBytes = byte_by_spelling();
  if (find_invalid_utf8(spelled) != std::string_view::npos) return {};
  std::string bytes;
  for (std::size_t at = 0; at < spelled.size(); at += utf8_length(spelled[at])) {
    const char32_t character = decode_utf8(spelled, at);
    if (character >= kSpellings || kBytes[character] < 0) return {};
    bytes.push_back(static_cast<char>(kBytes[character]));
  }
  return bytes;
}

Decoder Decoder::byte_level() {
  Decoder decoder;
  decoder.byte_level_ = true;
  return decoder;
}

Decoder Decoder::spaced_pieces(bool strip_first) {
  Decoder decoder;
  decoder.steps_.push_back({Step::Kind::replace, std::string(kSpaceMark), " ", 0, 0, false});
  decoder.byte_fallback_ = true;
  if (strip_first) {
    decoder.strip_ = " ";
    decoder.strip_max_ = 1;
  }
  return decoder;
}

Result<Decoder::TokenText> Decoder::token_text(std::string_view spelled, bool first) const {
  if (byte_level_) return TokenText{bytes_of_spelling(spelled).value_or(std::string(spelled)), false};
  std::string text;
  append_repaired(text, spelled, false);
  for (const Step& step : steps_) {
    if (step.kind != Step::Kind::strip) {
      const std::string_view with = step.drop_first && first ? std::string_view() : step.with;
      OCTAVO_TRY(text, replace_all(text, step.what, with, grown_limit(spelled.size())).in("the decoder"));
      continue;
    }
    std::string_view left = text;
    for (std::size_t i = 0; i < step.start && left.starts_with(step.what); ++i) left.remove_prefix(step.what.size());
    for (std::size_t i = 0; i < step.stop && left.ends_with(step.what); ++i) left.remove_suffix(step.what.size());
    text = std::string(left);
  }
  if (byte_fallback_)
    if (const auto byte = byte_token(text)) return TokenText{std::string(1, *byte), true};
  return TokenText{text, false};
}

void Decoder::push(std::string_view text, bool is_byte, DecodeState& state, std::string& out) const {
  if (!state.first && !separator_.empty()) emit(separator_, state, out);
  state.first = false;
  if (byte_level_) {
    if (!state.held.empty()) {
      state.held.append(text);
      const std::string bytes = std::move(state.held);
      const std::size_t kept = append_repaired(out, bytes, true);
      state.held = bytes.substr(bytes.size() - kept);
    } else {
      const std::size_t kept = append_repaired(out, text, true);
      state.held.assign(text.substr(text.size() - kept));
    }
  } else if (is_byte) {
    state.held.append(text);
  } else {
    emit_run(state, out);
    emit(text, state, out);
  }
}

void Decoder::finish(DecodeState& state, std::string& out) const {
  if (byte_level_)
    append_repaired(out, state.held, false);
  else
    emit_run(state, out);
  state = DecodeState();
}

void Decoder::emit_run(DecodeState& state, std::string& out) const {
  if (state.held.empty()) return;
  if (find_invalid_utf8(state.held) == std::string_view::npos) {
    emit(state.held, state, out);
  } else {
    for (std::size_t i = 0; i < state.held.size(); ++i) emit(kReplacementCharacter, state, out);
  }
  state.held.clear();
}

void Decoder::emit(std::string_view text, DecodeState& state, std::string& out) const {
  while (!state.strip_over && !text.empty()) {
    if (state.stripped < strip_max_ && text.starts_with(strip_)) {
      text.remove_prefix(strip_.size());
      ++state.stripped;
    } else {
      state.strip_over = true;
    }
  }
  out.append(text);
}

}  // namespace octavo
