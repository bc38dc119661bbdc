#include "cuda/matrix_product.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/check.h"
#include "cuda/check.h"

namespace octavo::cuda {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what the library asks for on its largest split sums
// Of so few tokens, and where the rows alone keep all multiprocessors at work, sums that are split over blocks and added
// by a second kernel are slower, though the library takes them for faster.
constexpr std::int64_t kUnsplitTokens = 64, kUnsplitRows = 4096;
constexpr std::size_t kMaxPlans = 4096;
constexpr std::int64_t kFixedTokens = 256;      // that a deterministic product's algorithm is picked for
constexpr std::size_t kScaledVersion = 120900;  // the library's first with scales by row and by block

// Up by an eighth at most.
std::int64_t rounded_tokens(std::int64_t tokens) {
  const auto step =
      std::max<std::int64_t>(8, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens))) / 16);
  return (tokens + step - 1) / step * step;
}

bool is_scaled(ProductKind kind) { return kind == ProductKind::fp8_rows || kind == ProductKind::fp8_blocks; }

int alignment_of(const Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.raw()) |
                       static_cast<std::uintptr_t>(dtype_bytes(tensor.dtype(), tensor.stride(0)));
  return static_cast<int>(std::min<std::uintptr_t>(256, address & ~(address - 1)));
}

}  // namespace

Result<std::unique_ptr<MatrixProduct>> MatrixProduct::create(Device& device, bool deterministic) {
  OCTAVO_TRY(CublasLt lt, open_cublaslt());
  auto product = std::unique_ptr<MatrixProduct>(new MatrixProduct(std::move(lt), deterministic));
  if (const cublasStatus_t status = product->lt_.create(&product->handle_); status != CUBLAS_STATUS_SUCCESS)
    return Error(std::string("cuBLASLt does not start: ") + product->lt_.status_name(status), ErrorKind::unavailable);
  OCTAVO_TRY(product->workspace_, device.allocate(kWorkspaceBytes, "matrix products"));
  return product;
}

MatrixProduct::~MatrixProduct() {
  drop_plans();
  if (handle_ != nullptr) lt_.destroy(handle_);
}

void MatrixProduct::drop_plans() {
  for (const auto& [key, plan] : plans_) {
    lt_.desc_destroy(plan.desc);
    lt_.layout_destroy(plan.weight);
    lt_.layout_destroy(plan.x);
    lt_.layout_destroy(plan.out);
  }
  plans_.clear();
}

void MatrixProduct::check(cublasStatus_t status) const {
  if (status != CUBLAS_STATUS_SUCCESS && is_lasting(cudaPeekAtLastError())) return;  // the device tells (cuda/check.h)
  octavo::check(status == CUBLAS_STATUS_SUCCESS,
                std::string("cuBLASLt answered ") + (status == CUBLAS_STATUS_SUCCESS ? "" : lt_.status_name(status)));
}

// The library counts columns first: y^T [out, tokens] = W [out, in] x^T [in, tokens], where W is kept transposed.
MatrixProduct::Plan MatrixProduct::make_plan(const Key& key, const ProductArgs& args) {
  const ProductKind kind = std::get<0>(key);
  const cudaDataType_t input = kind == ProductKind::bf16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
  const std::int64_t out = args.out.size(1);
  const std::int64_t in = args.x.size(1);
  Plan plan;
  if (is_scaled(kind) && lt_.get_version() < kScaledVersion) return plan;
  check(lt_.desc_create(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(lt_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  set_scales(plan, args);
  check(lt_.layout_create(&plan.weight, input, static_cast<std::uint64_t>(in), static_cast<std::uint64_t>(out), in));
  lay_out(key, plan);
  const auto algorithm = algorithm_for(key, plan);
  plan.found = algorithm.has_value();
  if (plan.found) plan.algorithm = *algorithm;
  return plan;
}

void MatrixProduct::lay_out(const Key& key, Plan& plan) const {
  const auto [kind, out, tokens, in, x_stride, out_stride, bf16_out, x_alignment, out_alignment] = key;
  const cudaDataType_t input = kind == ProductKind::bf16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  check(lt_.layout_create(&plan.x, input, size(in), size(tokens), x_stride));
  check(lt_.layout_create(&plan.out, bf16_out ? CUDA_R_16BF : CUDA_R_32F, size(out), size(tokens), out_stride));
}

// The algorithm of the rounded number of tokens, if it serves this one too. A deterministic product has no other.
std::optional<cublasLtMatmulAlgo_t> MatrixProduct::algorithm_for(const Key& key, const Plan& plan) {
  Key rounded = key;
  std::get<2>(rounded) = deterministic_ ? kFixedTokens : rounded_tokens(std::get<2>(key));
  auto found = algorithms_.find(rounded);
  if (found == algorithms_.end()) {
    Plan wider = plan;
    lay_out(rounded, wider);
    found = algorithms_.emplace(rounded, pick(rounded, wider)).first;
    lt_.layout_destroy(wider.x);
    lt_.layout_destroy(wider.out);
  }
  cublasLtMatmulHeuristicResult_t result{};
  if (found->second &&
      lt_.algorithm_check(handle_, plan.desc, plan.weight, plan.x, plan.out, plan.out, &*found->second, &result) ==
          CUBLAS_STATUS_SUCCESS &&
      result.workspaceSize <= kWorkspaceBytes)
    return found->second;
  if (deterministic_) return std::nullopt;
  return pick(key, plan);
}

std::optional<cublasLtMatmulAlgo_t> MatrixProduct::pick(const Key& key, const Plan& plan) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt_.preference_create(&preference));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(lt_.preference_set(preference, attribute, &value, sizeof value));
  };
  const auto x_alignment = static_cast<std::uint32_t>(std::get<7>(key));
  const auto out_alignment = static_cast<std::uint32_t>(std::get<8>(key));
  const bool unsplit = std::get<0>(key) == ProductKind::bf16 && std::get<1>(key) >= kUnsplitRows &&
                       std::get<2>(key) <= kUnsplitTokens;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{unsplit ? 0 : kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{16});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out_alignment);
  if (deterministic_) set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status =
      lt_.heuristic(handle_, plan.desc, plan.weight, plan.x, plan.out, plan.out, preference, 1, &best, &count);
  lt_.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0 || best.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return best.algo;
}

// The scales' modes are the plan's, their addresses those of this product.
void MatrixProduct::set_scales(const Plan& plan, const ProductArgs& args) const {
  if (!is_scaled(args.kind)) return;
  const bool rows = args.kind == ProductKind::fp8_rows;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check(lt_.desc_set(plan.desc, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
      std::int32_t{rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F});
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
      std::int32_t{rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F});
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(args.weight_scale));
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(args.x_scale));
}

const MatrixProduct::Plan& MatrixProduct::plan_for(const ProductArgs& args) {
  const Key key{args.kind,
                args.out.size(1),
                args.x.size(0),
                args.x.size(1),
                args.x.stride(0),
                args.out.stride(0),
                args.out.dtype() == DType::bf16,
                alignment_of(args.x),
                alignment_of(args.out)};
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= kMaxPlans) drop_plans();
    found = plans_.emplace(key, make_plan(key, args)).first;
  }
  return found->second;
}

void MatrixProduct::run(cudaStream_t stream, const ProductArgs& args) {
  const Plan& plan = plan_for(args);
  octavo::check(plan.found, "a product that the library serves");
  set_scales(plan, args);
  const float one = 1.0f;
  const float zero = 0.0f;
  check(lt_.matmul(handle_, plan.desc, &one, args.weight, plan.weight, args.x.raw(), plan.x, &zero, args.out.raw(),
                   plan.out, args.out.raw(), plan.out, &plan.algorithm, workspace_.data(), kWorkspaceBytes, stream));
}

}  // namespace octavo::cuda
