#include "tool/advise_kernels.h"

#include "base/file.h"
#include "terminal/console.h"
#include "tool/kernel_results.h"

namespace octavo {

Status advise_kernels(const AdviseOptions& options, const KernelInventory& inventory) {
  OCTAVO_TRY(check_output_file(options.output_json, ""));
  if (!options.output_json.empty()) OCTAVO_TRY(write_file(options.output_json, to_text(as_json(inventory)) + "\n"));
  return write_stdout(as_table(inventory));
}

}  // namespace octavo
