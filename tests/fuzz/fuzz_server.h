// A whole server over a made-up model, behind a Unix socket, for fuzz targets: bytes in, bytes out. One for the
// process: starting it takes longer than a thousand inputs. Whatever comes in, it must answer or close in time.
#pragma once

#include <string>
#include <string_view>

namespace octavo {

// Sends all and reads until the server closes. ends: says at once that nothing more will come.
std::string ask_fuzz_server(std::string_view bytes, bool ends);

}  // namespace octavo
