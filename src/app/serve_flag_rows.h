// The rows of `octavo serve`, in vLLM's spellings where it has them.
#pragma once

#include <vector>

#include "app/flag_rows.h"

namespace octavo {

void add_serve_rows(std::vector<FlagRow>& rows);

}  // namespace octavo
