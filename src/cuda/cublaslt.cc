#include "cuda/cublaslt.h"

#include <dlfcn.h>

#include <string>

namespace octavo::cuda {

namespace {

constexpr std::size_t kOldestVersion = 120000;
// Where it lies when the linker was not told: the toolkit's own folder.
constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so.13",
                                  "/usr/local/cuda/lib64/libcublasLt.so"};

template <class Function>
void resolve(CublasLt& lt, Function& function, const char* name, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(lt.library.get(), name));
  if (function == nullptr) missing = name;
}

}  // namespace

Result<CublasLt> open_cublaslt() {
  CublasLt lt;
  for (const char* name : kNames) {
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    lt.library = std::shared_ptr<void>(handle, [](void* open) { dlclose(open); });
    break;
  }
  if (!lt.library)
    return Error(
        "libcublasLt.so.13 cannot be opened: install CUDA 13's libraries or name their folder in "
        "LD_LIBRARY_PATH, or use --device cpu",
        ErrorKind::unavailable);
  std::string missing;
  resolve(lt, lt.create, "cublasLtCreate", missing);
  resolve(lt, lt.destroy, "cublasLtDestroy", missing);
  resolve(lt, lt.get_version, "cublasLtGetVersion", missing);
  resolve(lt, lt.status_name, "cublasLtGetStatusName", missing);
  resolve(lt, lt.matmul, "cublasLtMatmul", missing);
  resolve(lt, lt.desc_create, "cublasLtMatmulDescCreate", missing);
  resolve(lt, lt.desc_destroy, "cublasLtMatmulDescDestroy", missing);
  resolve(lt, lt.desc_set, "cublasLtMatmulDescSetAttribute", missing);
  resolve(lt, lt.layout_create, "cublasLtMatrixLayoutCreate", missing);
  resolve(lt, lt.layout_destroy, "cublasLtMatrixLayoutDestroy", missing);
  resolve(lt, lt.preference_create, "cublasLtMatmulPreferenceCreate", missing);
  resolve(lt, lt.preference_destroy, "cublasLtMatmulPreferenceDestroy", missing);
  resolve(lt, lt.preference_set, "cublasLtMatmulPreferenceSetAttribute", missing);
  resolve(lt, lt.heuristic, "cublasLtMatmulAlgoGetHeuristic", missing);
  resolve(lt, lt.algorithm_check, "cublasLtMatmulAlgoCheck", missing);
  if (!missing.empty() || lt.get_version() < kOldestVersion)
    return Error(
        "the cuBLASLt that was found is too old" +
            (missing.empty() ? " (version " + std::to_string(lt.get_version()) + ")" : ": it lacks " + missing) +
            "; install CUDA 13's libraries, or use --device cpu",
        ErrorKind::unavailable);
  return lt;
}

}  // namespace octavo::cuda
