// The rows of what talks to a running server: chat and bench serve.
#pragma once

#include <vector>

#include "app/flag_rows.h"

namespace octavo {

void add_client_rows(std::vector<FlagRow>& rows);

}  // namespace octavo
