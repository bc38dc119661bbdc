// Linear: the verb `linear` on the GPU. Few rows are computed straight from the packed numbers. More rows take a matrix
// product: of e4m3 codes where the weight is e4m3 and the GPU and the library have one for its scales (the inputs are
// then rounded too, as the checkpoint's format says), otherwise of BF16, for which packed parts are unpacked tile by
// tile (each number rounded once to BF16). Its scratch is reserved when it is made: no step allocates.
//
// Few rows keep their inputs unrounded: rounding them would take a launch more, and lose. So the same tokens as a
// prompt and as decode steps differ by what the format itself loses: 5% of the logits' norm on the tiny goldens, where
// decode steps lie within 0.6% of the exact ones.
#pragma once

#include <memory>

#include "cuda/matrix_product.h"
#include "ops/ops.h"

namespace octavo::cuda {

class Linear {
 public:
  static Result<std::unique_ptr<Linear>> create(Device& device, bool deterministic);

  void run(cudaStream_t stream, const LinearArgs& args);
  // Memory for another verb on the same stream, whose work ends before the next product begins.
  std::span<std::byte> scratch() { return {sums_.data(), sums_.size()}; }

 private:
  // Parts that one product computes: neighbours in memory, of a kind.
  struct Stack {
    std::span<const WeightPart> parts;
    Tensor values;  // [rows of all, in]
  };
  // What a product is of. Shapes: x [tokens, in], out [tokens, rows], bias f32 [rows] or empty.
  struct Work {
    cudaStream_t stream = nullptr;
    Tensor x;
    Stack stack;
    Tensor bias;
    Tensor out;
  };

  Linear(std::unique_ptr<MatrixProduct> product, bool deterministic)
      : product_(std::move(product)), deterministic_(deterministic) {}
  static std::vector<Stack> stacks(const std::vector<WeightPart>& parts);
  void run_few(cudaStream_t stream, const LinearArgs& args);
  bool run_fp8(const Work& work);
  bool run_fp8(const Work& work, ProductKind kind);
  bool run_bf16(const Work& work);

  std::unique_ptr<MatrixProduct> product_;
  const bool deterministic_;  // one algorithm for any number of rows
  Buffer numbers_;            // bf16, a tile of a weight; or the codes of inputs
  Buffer sums_;               // f32, results that wait for their scales and bias
  Buffer scales_;             // f32, of inputs, then of weights
};

}  // namespace octavo::cuda
