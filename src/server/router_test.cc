#include "server/router.h"

#include <gtest/gtest.h>

#include "server/errors.h"

namespace octavo {
namespace {

TEST(Router, TellsNoSuchPathFromNoSuchMethod) {
  Router router;
  router.add({"GET", "/v1/models", {}});
  router.add({"GET", "/v1/models/{model}", {}});
  router.add({"POST", "/v1/completions", {}});
  EXPECT_EQ(router.find("GET", "/v1/models").route->path, "/v1/models");
  EXPECT_EQ(router.find("HEAD", "/v1/models").route->path, "/v1/models");
  const auto one = router.find("GET", "/v1/models/org/name");
  ASSERT_NE(one.route, nullptr);
  EXPECT_EQ(last_part(*one.route, "/v1/models/org/name"), "org/name");
  EXPECT_EQ(router.find("GET", "/v1/models/").route, nullptr);
  EXPECT_EQ(router.find("POST", "/v1/models").route, nullptr);
  EXPECT_EQ(router.find("POST", "/v1/models").allowed, "GET, HEAD");
  EXPECT_EQ(router.find("HEAD", "/v1/completions").allowed, "POST");
  EXPECT_TRUE(router.find("GET", "/nowhere").allowed.empty());
}

TEST(HttpMessage, TargetsAreTakenApart) {
  HttpRequest request;
  set_target(request, "/v1/models/org%2Fname%zz?a=%20b");
  EXPECT_EQ(request.path, "/v1/models/org/name%zz");
  EXPECT_EQ(request.query, "a=%20b");
  set_target(request, "http://host:80/health/");
  EXPECT_EQ(request.path, "/health");
  EXPECT_NE(random_id(), random_id());
}

TEST(Errors, HaveTheShapeThatClientsRead) {
  EXPECT_EQ(
      error_json({.status = 404, .message = "The model `x` does not exist.", .param = "model"}),
      R"({"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}})");
  EXPECT_EQ(error_json({.status = 429, .message = "m"}),
            R"({"error":{"message":"m","type":"Too Many Requests","param":null,"code":429}})");
  const HttpResponse busy = error_response({.status = 429, .message = "m", .retry_after = 7});
  EXPECT_EQ(busy.headers, (HttpHeaders{{"retry-after", "7"}}));
  EXPECT_EQ(error_type(400), "BadRequestError");
  EXPECT_EQ(error_type(500), "InternalServerError");
}

}  // namespace
}  // namespace octavo
