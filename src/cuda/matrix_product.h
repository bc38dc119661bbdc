// MatrixProduct: y = x W^T for BF16 x and W through cuBLASLt, sums in float32, y BF16 or float32. A plan (layouts and
// the algorithm that the library picks) is made the first time a shape is seen and kept. Refuses nothing by itself:
// run() answers false for a shape that the library has no algorithm for, and the caller takes another way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <tuple>

#include "cuda/cublaslt.h"
#include "tensor/device.h"

namespace octavo::cuda {

struct ProductArgs {
  Tensor x;                           // bf16 [tokens, in], rows strided
  const std::byte* weight = nullptr;  // bf16 [out, in], contiguous
  Tensor out;                         // bf16 or f32 [tokens, out], rows strided
};

class MatrixProduct {
 public:
  static Result<std::unique_ptr<MatrixProduct>> create(Device& device);
  ~MatrixProduct();

  bool run(cudaStream_t stream, const ProductArgs& args);

 private:
  struct Plan {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool found = false;
  };
  // out, tokens, in, strides of x and out, whether out is bf16, alignment of x and out in bytes.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, int, int>;

  explicit MatrixProduct(CublasLt lt) : lt_(std::move(lt)) {}
  Plan make_plan(const Key& key) const;
  void drop_plans();
  void check(cublasStatus_t status) const;

  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace octavo::cuda
