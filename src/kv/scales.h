// KvScales: the given scales of one layer's cache and where they come from. One source of truth: the store uploads them
// beside the pages, views carry the pointer, and reports read this value.
//
// Scales describe K and V after norm and rope, unrotated; of a latent record, K is the latent and V the rope key. A
// rotated K in a floating kind keeps only their order of magnitude: stored_scale() multiplies a calibrated one by 8,
// since |rotated k_i| <= |k|_2 (kv-accuracy: a floating format loses nothing by a larger scale, and clips are counted).
#pragma once

#include <string_view>
#include <vector>

#include "kv/format.h"

namespace octavo {

enum class ScaleSource : std::uint8_t { checkpoint, given, uncalibrated };
std::string_view name_of(ScaleSource source);  // "checkpoint", "given", "1.0 uncalibrated"

struct KvScales {
  ScaleSource source = ScaleSource::uncalibrated;
  std::vector<float> key;    // [kv_heads], equal for a scale per tensor; empty = 1.0
  std::vector<float> value;  // [kv_heads]
  std::vector<float> query;  // [kv_heads] static scale of the queries, or empty: a dynamic one per token and head
  bool per_head = false;
};

// What is multiplied with a code of this segment, per head.
std::vector<float> stored_scales(const KvScales& scales, const KvSegment& segment);

}  // namespace octavo
