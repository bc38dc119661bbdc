#include "kv/format.h"

#include "base/strings.h"

namespace octavo {
namespace {

std::optional<KvElem> elem_from_name(std::string_view name) {
  if (name == "bfloat16" || name == "bf16") return KvElem::bf16;
  if (name == "float32") return KvElem::f32;
  if (name == "fp8" || name == "fp8_e4m3") return KvElem::e4m3;
  if (name == "fp8_e5m2") return KvElem::e5m2;
  if (name == "int8") return KvElem::int8;
  return std::nullopt;
}

Error unknown_dtype(std::string_view text, const std::string& why) {
  return Error(
      in_quotes(text) + ": " + why +
      "; accepted are auto, bfloat16 (bf16), float32, fp8 (fp8_e4m3), fp8_e5m2, int8, or a pair K:V such as int8:fp8");
}

KvGrain grain_of(KvElem elem, bool per_head_scales) {
  switch (elem) {
    case KvElem::int8:
      return KvGrain::token_head;
    case KvElem::e4m3:
    case KvElem::e5m2:
      return per_head_scales ? KvGrain::head : KvGrain::tensor;
    default:
      return KvGrain::none;
  }
}

Result<KvTransform> key_transform(TransformChoice choice, KvElem key, int head_dim) {
  if (choice == TransformChoice::none) return KvTransform::none;
  if (is_8bit(key) && has_hadamard(head_dim)) return KvTransform::hadamard;
  if (choice == TransformChoice::automatic) return KvTransform::none;
  if (!is_8bit(key))
    return Error("--kv-cache-transform hadamard turns K before it is rounded to 8 bits, but K is kept as " +
                 std::string(name_of(key)) + ": choose an 8-bit --kv-cache-dtype, or --kv-cache-transform auto");
  return Error(
      "--kv-cache-transform hadamard needs heads of a power of two times an odd number up to 15, but K has heads of " +
          std::to_string(head_dim) + ": choose --kv-cache-transform auto or none",
      ErrorKind::unsupported);
}

// One segment of a latent record.
KvSegment latent_segment(KvPart part, KvElem elem, int width, bool given_scales) {
  KvGrain grain = grain_of(elem, false);
  if (grain == KvGrain::tensor && !given_scales) grain = KvGrain::token_block;
  return {part, elem, grain, KvTransform::none, 1, width};
}

std::string_view name_of(KvPart part) {
  switch (part) {
    case KvPart::key:
      return "K";
    case KvPart::value:
      return "V";
    case KvPart::latent:
      return "latent";
    case KvPart::rope:
      return "rope";
  }
  return "?";
}

}  // namespace

Result<KvCacheChoice> parse_kv_cache_dtype(std::string_view text) {
  KvCacheChoice choice;
  if (text == "auto") return choice;
  choice.automatic = false;
  const auto colon = text.find(':');
  const std::string_view key = text.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? key : text.substr(colon + 1);
  for (const std::string_view name : {key, value}) {
    if (name == "auto") return unknown_dtype(text, "auto stands alone, a pair names both kinds");
    if (name.empty()) return unknown_dtype(text, "a kind is missing");
    if (!elem_from_name(name)) return unknown_dtype(text, "there is no kind " + in_quotes(name));
  }
  choice.key = *elem_from_name(key);
  choice.value = *elem_from_name(value);
  return choice;
}

Status parse_kv_rope_dtype(std::string_view text, KvCacheChoice& choice) {
  choice.rope.reset();
  if (text == "auto") return {};
  const auto elem = elem_from_name(text);
  if (!elem || *elem == KvElem::int8)
    return Error(in_quotes(text) + " is no kind for rope keys; accepted are auto, bfloat16, float32, fp8, fp8_e5m2");
  choice.rope = elem;
  return {};
}

Result<KvFormat> latent_format(const KvCacheChoice& choice, KvElem compute, int latent_dim, int rope_dim,
                               bool given_scales) {
  if (latent_dim < 1 || rope_dim < 1)
    return Error("a latent cache needs a latent and a rope key of at least one number, not " +
                 std::to_string(latent_dim) + " and " + std::to_string(rope_dim));
  if (!choice.automatic && choice.key != choice.value)
    return Error("a latent cache keeps one latent as key and value, but --kv-cache-dtype names two kinds, " +
                 std::string(name_of(choice.key)) + " and " + std::string(name_of(choice.value)) + ": name one");
  if (choice.transform == TransformChoice::hadamard)
    return Error("a latent cache is not rotated: choose --kv-cache-transform auto or none", ErrorKind::unsupported);
  const KvElem latent = choice.automatic ? compute : choice.key;
  const KvElem rope = choice.rope.value_or(is_8bit(latent) ? KvElem::bf16 : latent);
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = latent_segment(KvPart::latent, latent, latent_dim, given_scales);
  format.segments[1] = latent_segment(KvPart::rope, rope, rope_dim, given_scales);
  return format;
}

Result<KvFormat> grouped_format(const KvCacheChoice& choice, KvElem compute, int kv_heads, int head_dim,
                                bool per_head_scales) {
  if (kv_heads < 1 || head_dim < 1)
    return Error("a layer's cache needs at least one KV head and one number a head, not " + std::to_string(kv_heads) +
                 " x " + std::to_string(head_dim));
  const KvElem key = choice.automatic ? compute : choice.key;
  const KvElem value = choice.automatic ? compute : choice.value;
  OCTAVO_TRY(const KvTransform transform, key_transform(choice.transform, key, head_dim));
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] = {KvPart::key, key, grain_of(key, per_head_scales), transform, kv_heads, head_dim};
  format.segments[1] = {KvPart::value, value, grain_of(value, per_head_scales), KvTransform::none, kv_heads, head_dim};
  return format;
}

std::string_view name_of(KvElem elem) {
  switch (elem) {
    case KvElem::f32:
      return "float32";
    case KvElem::bf16:
      return "bfloat16";
    case KvElem::e4m3:
      return "fp8_e4m3";
    case KvElem::e5m2:
      return "fp8_e5m2";
    case KvElem::int8:
      return "int8";
  }
  return "?";
}

std::string_view name_of(KvGrain grain) {
  switch (grain) {
    case KvGrain::none:
      return "unscaled";
    case KvGrain::tensor:
      return "per tensor";
    case KvGrain::head:
      return "per KV head";
    case KvGrain::token_head:
      return "per token and head";
    case KvGrain::token_block:
      return "per token and 128 numbers";
  }
  return "?";
}

std::string_view name_of(KvTransform transform) { return transform == KvTransform::hadamard ? "hadamard" : "none"; }

std::string describe(const KvFormat& format) {
  std::string text;
  for (int i = 0; i < format.num_segments; ++i) {
    const KvSegment& s = format.segments[i];
    if (i > 0) text += " | ";
    text += name_of(s.part);
    text += " ";
    text += name_of(s.elem);
    text += " " + std::to_string(s.heads) + "x" + std::to_string(s.width);
    if (s.grain != KvGrain::none) {
      text += " ";
      text += name_of(s.grain);
    }
    if (s.transform != KvTransform::none) {
      text += ", ";
      text += name_of(s.transform);
    }
  }
  return text;
}

}  // namespace octavo
