// rms_norm, add_rms_norm, gated_activation and kv_write of the vector paths: row by row through RowKernels. Rows of a
// dtype or width that those do not take go the plain path.
#pragma once

#include "base/parallel.h"
#include "ops/ops.h"

namespace octavo::cpu {

namespace avx512 {
void rms_norm(ThreadPool& pool, const RmsNormArgs& args);
void add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args);
void gated_activation(ThreadPool& pool, const GatedActivationArgs& args);
void kv_write(ThreadPool& pool, const KvWriteArgs& args);
}  // namespace avx512
namespace avx2 {
void rms_norm(ThreadPool& pool, const RmsNormArgs& args);
void add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args);
void gated_activation(ThreadPool& pool, const GatedActivationArgs& args);
void kv_write(ThreadPool& pool, const KvWriteArgs& args);
}  // namespace avx2

}  // namespace octavo::cpu
