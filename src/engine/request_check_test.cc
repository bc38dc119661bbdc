#include "engine/request_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace octavo {
namespace {

constexpr RequestLimits kLimits{.vocab = 100, .max_model_len = 2048};

std::string refused(const std::function<void(Request&)>& change) {
  Request request;
  request.prompt = {1, 2, 3};
  change(request);
  const Status status = check_request(request, kLimits);
  if (status) return "";
  EXPECT_EQ(status.error().kind(), ErrorKind::invalid);
  return status.error().message();
}

std::string refused_sampling(const std::function<void(SamplingParams&)>& change) {
  return refused([&](Request& request) { change(request.sampling); });
}

TEST(RequestCheck, WhatIsInRangePasses) {
  EXPECT_EQ(refused([](Request&) {}), "");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) {
              s.temperature = 0;
              s.top_p = 1e-6f;
              s.min_p = 1;
              s.top_k = -1;
              s.presence_penalty = -2;
              s.frequency_penalty = 2;
              s.repetition_penalty = 0.01f;
              s.logprobs = 20;
              s.prompt_logprobs = 0;
              s.n = 128;
              s.max_tokens = 999999;
              s.logit_bias = {{99, -100.0f}, {0, 100.0f}};
            }),
            "");
}

TEST(RequestCheck, EachFieldIsRefusedByNameValueAndRange) {
  const float nan = std::nanf("");
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refused_sampling([](SamplingParams& s) { s.temperature = -0.5f; }),
            "temperature is -0.5: it must be a finite number that is not negative");
  EXPECT_EQ(refused_sampling([&](SamplingParams& s) { s.temperature = nan; }),
            "temperature is not a number: it must be a finite number that is not negative");
  EXPECT_NE(refused_sampling([&](SamplingParams& s) { s.temperature = infinite; }), "");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) { s.top_p = 0; }), "top_p is 0: it must be above 0 and at most 1");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.top_p = 1.5f; }), "");
  EXPECT_NE(refused_sampling([&](SamplingParams& s) { s.top_p = nan; }), "");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.min_p = 1.1f; }), "");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) { s.top_k = -2; }),
            "top_k is -2: it must be 0 or -1 (all tokens) or positive");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.presence_penalty = 2.1f; }), "");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.frequency_penalty = -2.1f; }), "");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.repetition_penalty = 0; }), "");
  EXPECT_NE(refused_sampling([&](SamplingParams& s) { s.repetition_penalty = nan; }), "");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.max_tokens = -1; }), "");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.min_tokens = -1; }), "");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) {
              s.min_tokens = 9;
              s.max_tokens = 8;
            }),
            "min_tokens is 9: it must not exceed max_tokens, which is 8");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) { s.n = 0; }), "n is 0: it must be between 1 and 128");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.n = 129; }), "");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) { s.logprobs = 21; }),
            "logprobs is 21: it must be between 0 and 20");
  EXPECT_NE(refused_sampling([](SamplingParams& s) { s.prompt_logprobs = -1; }), "");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) {
              s.stop = {"a", ""};
            }),
            "a stop string is empty: it would end every answer before its first token");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) {
              s.stop_token_ids = {5, 100};
            }),
            "entry 1 of stop_token_ids is token 100, but the vocabulary ends at 99");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) {
              s.logit_bias = {{-1, 1.0f}};
            }),
            "logit_bias names token -1, but the vocabulary ends at 99");
  EXPECT_EQ(refused_sampling([](SamplingParams& s) {
              s.logit_bias = {{4, 250.0f}};
            }),
            "logit_bias of token 4 is 250: it must be between -100 and 100");
  EXPECT_NE(refused_sampling([&](SamplingParams& s) { s.logit_bias = {{4, nan}}; }), "");
}

TEST(RequestCheck, PromptsAreRefusedWithTrueNumbers) {
  EXPECT_EQ(refused([](Request& r) { r.prompt.clear(); }), "the prompt is empty: it needs at least one token");
  EXPECT_EQ(refused([](Request& r) {
              r.prompt = {1, 100};
            }),
            "entry 1 of the prompt is token 100, but the vocabulary ends at 99");
  EXPECT_EQ(refused([](Request& r) { r.prompt = {-3}; }),
            "entry 0 of the prompt is token -3, but the vocabulary ends at 99");
  EXPECT_EQ(
      refused([](Request& r) {
        r.prompt.assign(2100, 1);
        r.sampling.max_tokens = 50;
      }),
      "This model's maximum context length is 2048 tokens, but the prompt has 2100 tokens. Please reduce the length of "
      "the prompt.");
  EXPECT_EQ(refused([](Request& r) { r.prompt.assign(2047, 1); }), "");
}

TEST(RequestCheck, TheAnswerIsClampedToWhatThePromptLeaves) {
  Request request;
  request.prompt.assign(8, 1);
  for (const auto& [asked, limit] :
       {std::pair{2040, 2040}, {2039, 2039}, {2045, 2040}, {999999, 2040}, {0, 2040}, {1, 1}}) {
    request.sampling.max_tokens = asked;
    EXPECT_EQ(answer_limit(request, 2048), limit);
  }
}

}  // namespace
}  // namespace octavo
