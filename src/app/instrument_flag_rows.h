// The rows of the instruments: eval nll, eval kld, bench and advise.
#pragma once

#include <vector>

#include "app/flag_rows.h"

namespace octavo {

void add_instrument_rows(std::vector<FlagRow>& rows);

}  // namespace octavo
