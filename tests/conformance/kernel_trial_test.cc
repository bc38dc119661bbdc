// The trials of `bench kernels`, on wings whose arithmetic is already held to references of its own: what they find
// must be no error, and a wing that is wrong, or leaves results out, must not pass.
#include "tool/kernel_trial.h"

#include <gtest/gtest.h>

#include <functional>

#include "cpu/backend.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

// The processor's wing as a wing with a table of kernels, whose rows run its verbs.
class TableBackend final : public Backend {
 public:
  using Spoil = std::function<void(const Tensor& out)>;
  TableBackend(std::unique_ptr<Backend> inner, Spoil spoil) : inner_(std::move(inner)), spoil_(std::move(spoil)) {}
  Device& device() override { return inner_->device(); }
  Ops& ops() override { return inner_->ops(); }
  Comm& comm() override { return inner_->comm(); }
  Status supports(const AttentionShape& shape) const override { return inner_->supports(shape); }
  Status supports_compute(DType compute) const override { return inner_->supports_compute(compute); }
  int recorded_batch(int num_seqs) const override { return inner_->recorded_batch(num_seqs); }

  Result<double> run_row(const std::string&, const KernelWork& work) override {
    if (work.attention != nullptr) {
      OCTAVO_TRY(attend(*work.attention));
      spoil_(work.attention->out);
    }
    if (work.kv_write != nullptr) {
      ops().kv_write(*work.kv_write);
      spoil_(work.kv_write->query.values);
    }
    if (work.linear != nullptr) {
      ops().linear(*work.linear);
      spoil_(work.linear->out);
    }
    return 2.0;
  }

 private:
  Status attend(const AttentionWork& work) {
    AttentionShape shape;
    shape.format = work.kv.format;
    shape.q_heads = static_cast<std::int32_t>(work.query.values.size(1));
    shape.page_size = work.kv.page_size;
    OCTAVO_TRY(const auto plan, ops().make_plan(shape, work.batch.num_seqs, work.batch.num_tokens));
    ops().plan_attention({.batch = work.batch, .shape = shape, .plan = *plan});
    ops().attention(
        {.query = work.query, .kv = work.kv, .batch = work.batch, .plan = *plan, .rule = work.rule, .out = work.out});
    return {};
  }

  std::unique_ptr<Backend> inner_;
  Spoil spoil_;
};

TableBackend backend_with(TableBackend::Spoil spoil = [](const Tensor&) {}) {
  auto inner = cpu::make_backend({.num_threads = 2, .isa = cpu::best_isa(), .deterministic = false});
  EXPECT_TRUE(inner);
  return {*std::move(inner), std::move(spoil)};
}

KernelRow attention_row(KernelPhase phase, int width, KvElem key, KvElem value) {
  KernelRow row;
  row.name = "row";
  row.phase = phase;
  row.head_dim = width;
  row.key = key;
  row.value = value;
  return row;
}

constexpr TrialShape kDecode{3, 1, 333};
constexpr TrialShape kPrefill{1, 130, 130};

// bf16 results of sums in float32: three times the rounding to nearest.
constexpr double kBound = 0.006;

void scale_all(const Tensor& out, float factor) {
  auto* bits = reinterpret_cast<std::uint16_t*>(out.raw());
  for (std::int64_t i = 0; i < out.elements(); ++i) bits[i] = bf16_from_f32(f32_from_bf16(bits[i]) * factor);
}

TEST(KernelTrial, AttentionIsRightForEveryKindOfCache) {
  TableBackend backend = backend_with();
  AttentionTrials trials(backend, 5);
  const std::pair<KvElem, KvElem> kinds[] = {{KvElem::bf16, KvElem::bf16}, {KvElem::bf16, KvElem::e4m3},
                                             {KvElem::e4m3, KvElem::e4m3}, {KvElem::e5m2, KvElem::e5m2},
                                             {KvElem::int8, KvElem::e4m3}, {KvElem::int8, KvElem::int8}};
  for (const auto& [key, value] : kinds)
    for (const TrialShape& shape : {kDecode, kPrefill}) {
      const auto row = attention_row(shape.decodes() ? KernelPhase::decode : KernelPhase::prefill, 64, key, value);
      const auto trial = trials.run(row, shape);
      ASSERT_TRUE(trial) << trial.error().message();
      EXPECT_LT(trial->error, kBound) << name_of(key) << " " << name_of(value) << " " << trial->shape;
      EXPECT_GT(trial->error, 0.0);
    }
}

KernelRow latent_row(KernelPhase phase, KvElem elem) {
  KernelRow row = attention_row(phase, 64, elem, elem);
  row.rope_dim = 32;
  return row;
}

TEST(KernelTrial, LatentAttentionIsRightForEveryKindOfCache) {
  TableBackend backend = backend_with();
  AttentionTrials trials(backend, 5);
  for (const KvElem elem : {KvElem::bf16, KvElem::e4m3, KvElem::e5m2, KvElem::int8})
    for (const TrialShape& shape : {kDecode, kPrefill}) {
      const auto trial =
          trials.run(latent_row(shape.decodes() ? KernelPhase::decode : KernelPhase::prefill, elem), shape);
      ASSERT_TRUE(trial) << trial.error().message();
      EXPECT_LT(trial->error, kBound) << name_of(elem) << " " << trial->shape;
      EXPECT_GT(trial->error, 0.0);
    }
}

TEST(KernelTrial, CountsWorkAsTheFormulasSay) {
  TableBackend backend = backend_with();
  AttentionTrials trials(backend, 5);
  const auto decode = trials.run(attention_row(KernelPhase::decode, 64, KvElem::e4m3, KvElem::e4m3), kDecode);
  ASSERT_TRUE(decode);
  EXPECT_EQ(decode->shape, "3 x 333");
  // K and V of 8 heads in one byte, queries and results of 32 heads in two.
  EXPECT_EQ(decode->bytes, 3 * 333 * 2 * 8 * 64 + 3 * 2 * 32 * 64 * 2);
  const auto prefill = trials.run(attention_row(KernelPhase::prefill, 64, KvElem::bf16, KvElem::bf16), kPrefill);
  ASSERT_TRUE(prefill);
  // Each of 130 tokens sees itself and those before it; a product and a sum a number, for scores and for values.
  EXPECT_EQ(prefill->operations, 4.0 * 64 * 32 * (130 * 131 / 2));
  // Over latents a score takes the rope key too, and one record serves 16 heads.
  const auto latent = trials.run(latent_row(KernelPhase::decode, KvElem::e4m3), kDecode);
  ASSERT_TRUE(latent);
  EXPECT_EQ(latent->bytes, 3 * 333 * (64 + 2 * 32) + 3 * 2 * 16 * (96 + 64));
  EXPECT_EQ(latent->operations, 2.0 * (96 + 64) * 16 * 3 * 333);
}

TEST(KernelTrial, WritersAndProductsAreRight) {
  TableBackend backend = backend_with();
  KernelRow writer;
  writer.phase = KernelPhase::kv_write;
  writer.head_dim = 64;
  const auto written = writer_trials(backend, writer, 5);
  ASSERT_TRUE(written) << written.error().message();
  ASSERT_EQ(written->size(), 2u);
  for (const KernelTrial& trial : *written) EXPECT_LT(trial.error, kBound) << trial.shape;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::e4m3, DType::e5m2, DType::q4_0, DType::q4_1,
                            DType::q5_0, DType::q5_1, DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k}) {
    KernelRow product;
    product.phase = KernelPhase::linear;
    product.weight = dtype;
    product.max_tokens = 1;
    const auto trial = linear_trials(backend, product, 5);
    ASSERT_TRUE(trial) << trial.error().message();
    EXPECT_LT(trial->front().error, kBound) << dtype_info(dtype).name;
  }
}

TEST(KernelTrial, WrongResultsAreSeen) {
  TableBackend backend = backend_with([](const Tensor& out) { scale_all(out, 1.05f); });
  AttentionTrials trials(backend, 5);
  const KernelRow row = attention_row(KernelPhase::decode, 64, KvElem::bf16, KvElem::bf16);
  const auto trial = trials.run(row, kDecode);
  ASSERT_TRUE(trial);
  EXPECT_NEAR(trial->error, 0.05, 0.002);
  EXPECT_GT(trial->error, largest_trial_error(row));
}

TEST(KernelTrial, ResultsThatWereLeftOutAreSeen) {
  // One number of a row that is not compared: the poison that lay there before.
  TableBackend backend = backend_with(
      [](const Tensor& out) { reinterpret_cast<std::uint16_t*>(out.raw())[out.elements() / 2 + 3] = 0xFFFF; });
  AttentionTrials trials(backend, 5);
  const auto trial = trials.run(attention_row(KernelPhase::prefill, 64, KvElem::bf16, KvElem::bf16), kPrefill);
  ASSERT_TRUE(trial);
  EXPECT_TRUE(std::isnan(trial->error));
}

}  // namespace
}  // namespace octavo
