#include "tests/golden/default_model.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace octavo::golden {

std::string default_model() {
  if (const char* given = std::getenv("OCTAVO_DEFAULT_MODEL")) return given;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string root =
      cache != nullptr && *cache != 0 ? cache : std::string(home == nullptr ? "" : home) + "/.cache";
  return root + "/octavo/SmolLM2-135M-Instruct.Q4_1.gguf";
}

void expect_greedy(Engine& engine, const Json& chats) {
  for (const Json& chat : chats) {
    Request request;
    request.prompt = chat.at("ids").get<std::vector<std::int32_t>>();
    request.sampling.temperature = 0;
    request.sampling.max_tokens = static_cast<int>(chat.at("out").size());
    request.sampling.ignore_eos = true;
    auto stream = engine.submit(request);
    ASSERT_TRUE(stream) << stream.error().message();
    std::vector<std::int32_t> tokens;
    while (const auto event = (*stream)->next())
      if (event->token) tokens.push_back(*event->token);
    ASSERT_EQ(tokens.size(), chat.at("out").size());
    for (std::size_t i = 0; i < tokens.size() && chat.at("margins")[i].get<double>() >= 0.3; ++i)
      EXPECT_EQ(tokens[i], chat.at("out")[i].get<std::int32_t>()) << "step " << i;
  }
}

}  // namespace octavo::golden
