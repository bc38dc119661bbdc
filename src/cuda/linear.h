// Linear: the verb `linear` on the GPU. Chooses for each part of the weight: few rows straight from the packed numbers,
// otherwise a matrix product of BF16, for which packed parts are unpacked tile by tile (each number rounded once to
// BF16). Its scratch is reserved when it is made: no step allocates.
#pragma once

#include <memory>

#include "cuda/matrix_product.h"
#include "ops/ops.h"

namespace octavo::cuda {

class Linear {
 public:
  static Result<std::unique_ptr<Linear>> create(Device& device);

  void run(cudaStream_t stream, const LinearArgs& args);

 private:
  explicit Linear(std::unique_ptr<MatrixProduct> product) : product_(std::move(product)) {}
  void run_part(cudaStream_t stream, const Tensor& x, const WeightPart& part, const Tensor& bias, const Tensor& out);
  bool run_product(cudaStream_t stream, const Tensor& x, const WeightPart& part, const Tensor& bias, const Tensor& out);

  std::unique_ptr<MatrixProduct> product_;
  Buffer unpacked_;  // bf16, a tile of a weight
  Buffer sums_;      // f32, results that wait for their bias
};

}  // namespace octavo::cuda
