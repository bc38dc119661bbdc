#include "tool/timed_comm.h"

#include <utility>

namespace octavo {

template <class Work>
void TimedComm::timed(VerbCall call, const Work& work) {
  device_.synchronize();
  call.begin_ms = timeline_.now_ms();
  work();
  device_.synchronize();
  call.end_ms = timeline_.now_ms();
  timeline_.add(std::move(call));
}

// Read and written once here, whatever the other ranks do.
void TimedComm::all_reduce(const Tensor& x) {
  if (size() == 1) return;
  timed({.verb = "all_reduce", .bytes = 2 * x.bytes()}, [&] { inner_.all_reduce(x); });
}

void TimedComm::all_gather_columns(const Tensor& x, const Tensor& out) {
  const std::int64_t own = dtype_bytes(x.dtype(), x.elements());
  timed({.verb = "all_gather_columns", .bytes = own + out.bytes()}, [&] { inner_.all_gather_columns(x, out); });
}

}  // namespace octavo
