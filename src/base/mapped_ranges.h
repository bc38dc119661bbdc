// Which files are mapped where, in a form that a signal handler may read, and the handler: when a mapped file has
// become shorter, or its disk does not give a page, the kernel sends SIGBUS to whoever reads there. The program then
// says so in one sentence that names the file, and ends with exit code 1. A SIGBUS of any other cause ends it as it
// would without.
//
// The table and the handler are of the process, as signals are. No lock and no order of calls is needed; of more files
// than the table holds, the last ones are not known by name.
#pragma once

#include <cstddef>
#include <string>

namespace octavo {

void note_mapping(const std::byte* data, std::size_t size, const std::string& path);
void forget_mapping(const std::byte* data);

// main installs it before threads start.
void end_when_mapped_files_shrink();

}  // namespace octavo
