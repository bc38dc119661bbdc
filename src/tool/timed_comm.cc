#include "tool/timed_comm.h"

namespace octavo {

// Read and written once here, whatever the other ranks do.
void TimedComm::all_reduce(const Tensor& x) {
  if (size() == 1) return;
  timeline_.time(device_, {.verb = "all_reduce", .bytes = 2 * x.bytes()}, [&] { inner_.all_reduce(x); });
}

void TimedComm::all_gather_columns(const Tensor& x, const Tensor& out) {
  const std::int64_t own = dtype_bytes(x.dtype(), x.elements());
  timeline_.time(device_, {.verb = "all_gather_columns", .bytes = own + out.bytes()},
                 [&] { inner_.all_gather_columns(x, out); });
}

}  // namespace octavo
