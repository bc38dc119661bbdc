#include "model/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "base/shown.h"
#include "base/strings.h"
#include "model/config.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, 5> kKinds = {"default", "linear", "llama3", "yarn", "proportional"};
constexpr std::array<std::string_view, 19> kRopeKeys = {"rope_type",
                                                        "type",
                                                        "rope_theta",
                                                        "factor",
                                                        "original_max_position_embeddings",
                                                        "low_freq_factor",
                                                        "high_freq_factor",
                                                        "beta_fast",
                                                        "beta_slow",
                                                        "mscale",
                                                        "mscale_all_dim",
                                                        "attention_factor",
                                                        "truncate",
                                                        "partial_rotary_factor",
                                                        "mrope_section",
                                                        "mrope_interleaved",
                                                        "finetuned",
                                                        "max_position_embeddings",
                                                        "divisors"};

std::vector<float> default_frequencies(double theta, int width) {
  std::vector<float> frequencies(static_cast<std::size_t>(width / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
    frequencies[i] = 1.0f / std::pow(static_cast<float>(theta), exponent);
  }
  return frequencies;
}

void stretch_llama3(const RopeConfig& rope, std::vector<float>& frequencies) {
  const double low = rope.original_max_positions / rope.low_freq_factor;
  const double high = rope.original_max_positions / rope.high_freq_factor;
  for (float& f : frequencies) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength < high) continue;
    const float slow = f / static_cast<float>(rope.factor);
    if (wavelength > low) {
      f = slow;
      continue;
    }
    const double smooth = (rope.original_max_positions / wavelength - rope.low_freq_factor) /
                          (rope.high_freq_factor - rope.low_freq_factor);
    f = static_cast<float>((1 - smooth) * slow + smooth * f);
  }
}

void stretch_yarn(const RopeConfig& rope, int width, std::vector<float>& frequencies) {
  const auto dimension = [&](double rotations) {
    return width * std::log(rope.original_max_positions / (2 * std::numbers::pi * rotations)) /
           (2 * std::log(rope.theta));
  };
  double low = dimension(rope.beta_fast);
  double high = dimension(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const auto ramp = static_cast<float>(std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0));
    const float slow = frequencies[i] / static_cast<float>(rope.factor);
    frequencies[i] = slow * ramp + frequencies[i] * (1.0f - ramp);
  }
}

double yarn_scale(double factor, double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0; }

float yarn_factor(const RopeConfig& rope) {
  if (rope.attention_factor != 0) return static_cast<float>(rope.attention_factor);
  if (rope.mscale != 0 && rope.mscale_all_dim != 0)
    return static_cast<float>(yarn_scale(rope.factor, rope.mscale) / yarn_scale(rope.factor, rope.mscale_all_dim));
  return static_cast<float>(yarn_scale(rope.factor, 1));
}

Status check_keys(const Json& rope) {
  for (const auto& [key, value] : rope.items())
    if (std::find(kRopeKeys.begin(), kRopeKeys.end(), key) == kRopeKeys.end()) {
      const std::vector<std::string> known(kRopeKeys.begin(), kRopeKeys.end());
      const auto close = nearest(key, known);
      return Error("rope key " + in_quotes(key) + " is not known" +
                   (close ? "; did you mean \"" + *close + "\"?" : ""));
    }
  return {};
}

}  // namespace

Result<RopeConfig> read_rope(const Json& config, int max_positions, double default_theta) {
  Json rope = Json::object();
  if (const Json* theta = find_member(config, "rope_theta")) rope["rope_theta"] = *theta;
  if (const Json* partial = find_member(config, "partial_rotary_factor")) rope["partial_rotary_factor"] = *partial;
  if (find_member(config, "rope_scaling") != nullptr && find_member(config, "rope_parameters") != nullptr)
    return Error("\"rope_scaling\" and \"rope_parameters\" are both there: which rope is meant cannot be told");
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (const Json* found = find_member(config, key)) {
      if (!found->is_object()) return Error("\"" + std::string(key) + "\" must be an object, but is " + shown(*found));
      rope.update(*found);
    }
  OCTAVO_TRY(check_keys(rope));

  RopeConfig result;
  OCTAVO_TRY(const auto older, find_string(rope, "type"));
  OCTAVO_TRY(const auto newer, find_string(rope, "rope_type"));
  if (!newer && !older && find_member(rope, "factor") != nullptr)
    return Error("the rope has a \"factor\" but no \"rope_type\", which says how positions are stretched");
  result.kind = newer.value_or(older.value_or("default"));
  if (std::find(kKinds.begin(), kKinds.end(), result.kind) == kKinds.end())
    return Error("rope type " + in_quotes(result.kind) +
                     " is not supported; supported: default, linear, llama3, yarn, proportional",
                 ErrorKind::unsupported);
  const bool scaled = result.kind == "linear" || result.kind == "llama3" || result.kind == "yarn";
  OCTAVO_TRY(result.theta, read_number(rope, "rope_theta", 1, 1e12, default_theta));
  if (result.kind == "yarn" && result.theta <= 1) return Error("rope type \"yarn\" needs \"rope_theta\" above 1");
  OCTAVO_TRY(result.original_max_positions,
             read_number(rope, "original_max_position_embeddings", 1, 1e9, static_cast<double>(max_positions)));
  OCTAVO_TRY(result.factor, read_number(rope, "factor", 1e-3, 1e6,
                                        result.kind == "yarn" ? max_positions / result.original_max_positions : 1.0));
  if ((result.kind == "linear" || result.kind == "llama3") && find_member(rope, "factor") == nullptr)
    return Error("rope type \"" + result.kind + "\" needs \"factor\"");
  if (scaled && result.factor < 1)
    return Error("rope \"factor\" must be at least 1, but is " + to_text(Json(result.factor)));
  for (const char* key : {"low_freq_factor", "high_freq_factor"})
    if (result.kind == "llama3" && find_member(rope, key) == nullptr)
      return Error("rope type \"llama3\" needs \"" + std::string(key) + "\"");
  OCTAVO_TRY(result.low_freq_factor, read_number(rope, "low_freq_factor", 1e-6, 1e6, 1.0));
  OCTAVO_TRY(result.high_freq_factor, read_number(rope, "high_freq_factor", 1e-6, 1e6, 4.0));
  if (result.high_freq_factor <= result.low_freq_factor)
    return Error("rope \"high_freq_factor\" must be above \"low_freq_factor\"");
  OCTAVO_TRY(result.beta_fast, read_number(rope, "beta_fast", 1e-6, 1e6, 32.0));
  OCTAVO_TRY(result.beta_slow, read_number(rope, "beta_slow", 1e-6, 1e6, 1.0));
  OCTAVO_TRY(result.mscale, read_number(rope, "mscale", 0, 1e3, 0.0));
  OCTAVO_TRY(result.mscale_all_dim, read_number(rope, "mscale_all_dim", 0, 1e3, 0.0));
  OCTAVO_TRY(result.attention_factor, read_number(rope, "attention_factor", 0, 1e3, 0.0));
  OCTAVO_TRY(result.truncate, read_flag(rope, "truncate", true));
  OCTAVO_TRY(result.partial, read_number(rope, "partial_rotary_factor", 1e-3, 1, 1.0));
  if (const Json* divisors = find_member(rope, "divisors")) {
    for (const Json& divisor : *divisors) {
      const double value = divisor.is_number() ? divisor.get<double>() : 0.0;
      if (!(value > 0)) return Error("rope \"divisors\" must be positive numbers, but hold " + shown(divisor));
      result.divisors.push_back(static_cast<float>(value));
    }
  }
  return result;
}

RopeTable make_rope(const RopeConfig& rope, int head_dim) {
  RopeTable table;
  if (rope.kind == "proportional") {
    table.inv_freq = default_frequencies(rope.theta, head_dim);
    const auto rotated = static_cast<std::size_t>(std::floor(rope.partial * head_dim / 2));
    std::fill(table.inv_freq.begin() + static_cast<std::ptrdiff_t>(rotated), table.inv_freq.end(), 0.0f);
  } else {
    const int width = static_cast<int>(head_dim * rope.partial) / 2 * 2;
    table.inv_freq = default_frequencies(rope.theta, width);
    if (rope.kind == "llama3") stretch_llama3(rope, table.inv_freq);
    if (rope.kind == "yarn") {
      stretch_yarn(rope, width, table.inv_freq);
      table.factor = yarn_factor(rope);
    }
  }
  for (std::size_t i = 0; i < std::min(rope.divisors.size(), table.inv_freq.size()); ++i)
    table.inv_freq[i] /= rope.divisors[i];
  if (rope.kind == "linear" || rope.kind == "proportional")
    for (float& f : table.inv_freq) f /= static_cast<float>(rope.factor);
  return table;
}

int rope_max_positions(const RopeConfig& rope, int max_positions) {
  double stretched = max_positions;
  if (rope.kind == "yarn") stretched = std::max(stretched, rope.original_max_positions * rope.factor);
  if (rope.kind == "linear") stretched = max_positions * rope.factor;
  return static_cast<int>(std::min(stretched, double{1 << 28}));
}

std::string describe(const RopeConfig& rope) {
  char text[200];
  std::snprintf(text, sizeof text, "%s theta=%g", rope.kind.c_str(), rope.theta);
  std::string result = text;
  const auto add = [&](const char* name, double value) {
    std::snprintf(text, sizeof text, " %s=%g", name, value);
    result += text;
  };
  if (rope.kind != "default") add("factor", rope.factor);
  if (rope.kind == "llama3" || rope.kind == "yarn") add("original_max_positions", rope.original_max_positions);
  if (rope.kind == "llama3") {
    add("low_freq_factor", rope.low_freq_factor);
    add("high_freq_factor", rope.high_freq_factor);
  }
  if (rope.kind == "yarn") {
    add("beta_fast", rope.beta_fast);
    add("beta_slow", rope.beta_slow);
    add("attention_factor", yarn_factor(rope));
  }
  if (!rope.divisors.empty()) result += " divided by pair";
  if (rope.partial != 1.0) add("partial", rope.partial);
  return result;
}

}  // namespace octavo
