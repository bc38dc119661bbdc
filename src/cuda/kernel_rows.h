// The tables of kernels, listed and run by name: what Backend::inventory() and run_row() answer on this wing.
//
// list_kernels() works without a device too; then it leaves out what only a device says of a kernel, and says why.
// run_row() refuses names that are not in the list and work that is not of the row's shape.
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"
#include "ops/kernel_row.h"

namespace octavo::cuda {

struct KernelEntry {
  KernelRow row;                   // without what a device says; shared_bytes: what is asked for at launch
  const void* function = nullptr;  // null: a library's
};

// The parts of the list, each beside its kernels.
std::vector<KernelEntry> attention_kernels();
std::vector<KernelEntry> kv_write_kernels();
std::vector<KernelEntry> few_rows_kernels();
std::vector<KernelEntry> one_row_kernels();
std::vector<KernelEntry> tile_rows_kernels();

KernelInventory list_kernels();

Result<double> run_row(CudaDevice& device, Ops& ops, const std::string& name, const KernelWork& work);

}  // namespace octavo::cuda
