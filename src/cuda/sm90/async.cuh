// Hopper's asynchronous machinery: barriers in shared memory, bulk copies that arrive at them, registers handed between
// warpgroups. One instruction a function; addresses are 32-bit ones of shared memory.
//
// A barrier completes a phase when its count of threads has arrived and the bytes expected have come; waiters name the
// phase by its parity. What threads write to shared memory is seen by products and copies behind publish().
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/shared_address.cuh"

namespace octavo::cuda::sm90 {

// What lies there; made where it is used, so that no loop keeps a pointer's two registers.
template <class T>
__device__ __forceinline__ T* shared_pointer(std::uint32_t address) {
  return reinterpret_cast<T*>(__cvta_shared_to_generic(address));
}

constexpr int kBarrierBytes = 8;

__device__ __forceinline__ void make_barrier(std::uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// Behind the last make_barrier() and before others use them, with a __syncthreads() after it.
__device__ __forceinline__ void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Bytes and both addresses are multiples of 16.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const std::byte* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier of some warps, 1 to 4; 0 is that of __syncthreads(). A number in a register would reserve all sixteen.
__device__ __forceinline__ void meet(int number, int threads) {
  if (number == 1) {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
  } else if (number == 2) {
    asm volatile("bar.sync 2, %0;" ::"r"(threads) : "memory");
  } else if (number == 3) {
    asm volatile("bar.sync 3, %0;" ::"r"(threads) : "memory");
  } else {
    asm volatile("bar.sync 4, %0;" ::"r"(threads) : "memory");
  }
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace octavo::cuda::sm90
