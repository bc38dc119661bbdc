#include "cuda/portable/latent.cuh"

namespace octavo::cuda::portable {

namespace {

template <KvElem kElem>
constexpr LatentRow latent_row(const char* name, Phase phase) {
  const bool decodes = phase == Phase::decode;
  return {.row = {.name = name,
                  .phase = phase,
                  .width = kLatentImage,
                  .key = kElem,
                  .value = kElem,
                  .tile_rows = decodes ? kDecodeRows : kWideTileRows,
                  .threads = kWideThreads,
                  .shared_bytes = decodes ? LatentShared<kDecodeRows>::kBytes : LatentShared<kWideTileRows>::kBytes,
                  .max_splits = kMaxWideSplits,
                  .kernel = nullptr},
          .kernel = decodes ? latent_decode_kernel<kElem> : latent_prefill_kernel<kElem>};
}

using enum KvElem;
const LatentRow kLatentRows[] = {
    latent_row<bf16>("portable.latent_decode.bf16", Phase::decode),
    latent_row<e4m3>("portable.latent_decode.e4m3", Phase::decode),
    latent_row<e5m2>("portable.latent_decode.e5m2", Phase::decode),
    latent_row<int8>("portable.latent_decode.int8", Phase::decode),
    latent_row<bf16>("portable.latent_prefill.bf16", Phase::prefill),
    latent_row<e4m3>("portable.latent_prefill.e4m3", Phase::prefill),
    latent_row<e5m2>("portable.latent_prefill.e5m2", Phase::prefill),
    latent_row<int8>("portable.latent_prefill.int8", Phase::prefill),
};

}  // namespace

std::span<const LatentRow> latent_rows() { return kLatentRows; }

}  // namespace octavo::cuda::portable
