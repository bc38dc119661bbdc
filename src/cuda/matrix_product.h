// MatrixProduct: y = x W^T for BF16 or e4m3 x and W through cuBLASLt, sums in float32, y BF16 or float32. A plan
// (layouts and the algorithm that the library picks) is made the first time a shape is seen and kept; one algorithm
// serves neighbouring numbers of tokens, since picking takes long and chunks may have any. Refuses nothing
// by itself: serves() is false for a shape, or a kind of scale, that the library has no algorithm for on this GPU, and
// the caller takes another way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "cuda/cublaslt.h"
#include "tensor/device.h"

namespace octavo::cuda {

enum class ProductKind : std::uint8_t {
  bf16,
  fp8,         // e4m3; the caller multiplies by the scales
  fp8_rows,    // e4m3 with a scale for each row of x and of W
  fp8_blocks,  // e4m3 with scales for 128 columns of a row of x, and for 128 x 128 of W
};

struct ProductArgs {
  Tensor x;                           // bf16 or e4m3 [tokens, in], rows strided
  const std::byte* weight = nullptr;  // of the same dtype, [out, in], contiguous
  Tensor out;                         // bf16 or f32 [tokens, out], rows strided
  ProductKind kind = ProductKind::bf16;
  const float* x_scale = nullptr;       // [tokens], or of blocks [in / 128, tokens]
  const float* weight_scale = nullptr;  // [out], or of blocks [out / 128, in / 128 rounded up to four]
};

class MatrixProduct {
 public:
  static Result<std::unique_ptr<MatrixProduct>> create(Device& device, bool deterministic);
  ~MatrixProduct();

  bool serves(const ProductArgs& args) { return plan_for(args).found; }
  void run(cudaStream_t stream, const ProductArgs& args);  // what serves() has said yes to

 private:
  struct Plan {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool found = false;
  };
  // Kind, out, tokens, in, strides of x and out, whether out is bf16, alignment of x and out in bytes.
  using Key =
      std::tuple<ProductKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, int, int>;

  MatrixProduct(CublasLt lt, bool deterministic) : lt_(std::move(lt)), deterministic_(deterministic) {}
  const Plan& plan_for(const ProductArgs& args);
  Plan make_plan(const Key& key, const ProductArgs& args);
  std::optional<cublasLtMatmulAlgo_t> algorithm_for(const Key& key, const Plan& plan);
  std::optional<cublasLtMatmulAlgo_t> pick(const Key& key, const Plan& plan) const;
  void lay_out(const Key& key, Plan& plan) const;
  void set_scales(const Plan& plan, const ProductArgs& args) const;
  void drop_plans();
  void check(cublasStatus_t status) const;

  CublasLt lt_;
  const bool deterministic_;  // the algorithm does not depend on the number of tokens, and sums in one order
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::map<Key, Plan> plans_;
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms_;  // by a rounded number of tokens
};

}  // namespace octavo::cuda
