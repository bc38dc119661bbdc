#include "cuda/check.h"

#include <string>

#include "base/check.h"

namespace octavo::cuda {

bool is_lasting(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

void status_failed(cudaError_t status, const std::source_location& where) {
  if (is_lasting(status)) return;
  check_failed(std::string("the GPU answered ") + cudaGetErrorName(status) + ": " + cudaGetErrorString(status), where);
}

}  // namespace octavo::cuda
