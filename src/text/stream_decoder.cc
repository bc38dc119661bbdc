#include "text/stream_decoder.h"

#include <utility>

namespace octavo {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string StreamDecoder::push(std::int32_t id) {
  std::string delta;
  tokenizer_.decode_token(id, options_, state_, delta);
  return delta;
}

std::string StreamDecoder::finish() {
  std::string rest;
  tokenizer_.decode_finish(state_, rest);
  return rest;
}

bool StreamDecoder::holds_text() const { return !state_.held.empty(); }

}  // namespace octavo
