// The report of a latency bench as one HTML page that needs nothing else: inter-token latency and time to first token
// against context, the fitted lines, and all numbers as tables.
#pragma once

#include <string>

#include "tool/latency_results.h"

namespace octavo {

std::string latency_page(const LatencyReport& report);

}  // namespace octavo
