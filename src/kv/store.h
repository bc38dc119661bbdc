// KvStore: the bytes of the cache on one rank: pages, scales and counters of every layer. Hands out views.
// The pool is zeroed once, so that unwritten bytes are never NaN. Refuses page sizes that are no power of two >= 8,
// scales that are not finite and positive, and a size that the device cannot give, with the bytes that were needed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/group.h"
#include "kv/scales.h"
#include "kv/view.h"
#include "tensor/device.h"

namespace octavo {

struct StoreSpec {
  std::vector<CacheGroup> groups;
  std::vector<std::int32_t> num_pages;  // per group, the sink included
  std::vector<KvScales> scales;         // per model layer; layers without a cache are ignored
  int page_size = 64;
};

class KvStore {
 public:
  static Result<std::unique_ptr<KvStore>> create(Device& device, StoreSpec spec);

  // One part of all records of a state layer: f32 [records, numbers of the part].
  Tensor state(int layer, int part) const;
  // The pages of a layer that is attended, as bytes to copy: i32 [pages, a quarter of a page's bytes].
  Tensor pages(int layer) const;
  // View of one layer with this step's page table: device memory, i32 [num_seqs, max_pages].
  KvView view(int layer, const Tensor& page_table) const;

  const StoreSpec& spec() const { return spec_; }
  int group_of(int layer) const;         // -1: the layer has no cache
  KvCounters counters(int layer) const;  // a copy, read from the device
  // Those of all layers on their way to the host, without waiting for them; then one of them, once they are there.
  std::unique_ptr<Download> begin_counters() const;
  KvCounters counters(Download& all, int layer) const;
  std::size_t bytes() const { return bytes_; }

  // Everything that decides a page's bytes besides its tokens: formats, scales, transform, page size.
  std::string identity() const;

 private:
  struct Plan;
  KvStore(Device& device, StoreSpec spec) : device_(device), spec_(std::move(spec)) {}
  static Result<Plan> make_plan(const StoreSpec& spec);
  Status allocate(std::int64_t bytes, const std::string& purpose);
  void place_layers(const Plan& plan);

  struct Layer {
    int group = -1;
    KvView view;  // without a page table; of a state layer: empty
    std::vector<Tensor> state_parts;
  };
  Device& device_;
  StoreSpec spec_;
  std::vector<Layer> layers_;    // by model layer
  std::vector<Buffer> buffers_;  // pages, scales, counters
  std::size_t bytes_ = 0;
};

}  // namespace octavo
