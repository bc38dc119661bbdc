#include "client/url.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(Url, WhatPeopleWrite) {
  struct Row {
    const char* text;
    const char* origin;
    const char* host_field;
    const char* prefix;
  };
  for (const Row& row : {Row{"http://127.0.0.1:8000", "http://127.0.0.1:8000", "127.0.0.1:8000", ""},
                         Row{"https://example.org", "https://example.org:443", "example.org", ""},
                         Row{"HTTP://example.org/", "http://example.org:80", "example.org", ""},
                         Row{"https://example.org:80/a/v1/", "https://example.org:80", "example.org:80", "/a/v1"},
                         Row{"localhost:9", "http://localhost:9", "localhost:9", ""},
                         Row{" http://[::1]:8443/x ", "http://[::1]:8443", "[::1]:8443", "/x"},
                         Row{"https://[fe80::1]", "https://[fe80::1]:443", "[fe80::1]", ""}}) {
    const auto url = parse_url(row.text);
    ASSERT_TRUE(url) << row.text << ": " << url.error().message();
    EXPECT_EQ(url->origin(), row.origin) << row.text;
    EXPECT_EQ(url->host_field(), row.host_field) << row.text;
    EXPECT_EQ(url->prefix, row.prefix) << row.text;
  }
}

TEST(Url, RoutesAreFoundWithAndWithoutTheVersion) {
  for (const char* text : {"http://h/a", "http://h/a/", "http://h/a/v1", "http://h/a/v1/"}) {
    const auto url = parse_url(text);
    ASSERT_TRUE(url);
    EXPECT_EQ(url->path("/v1/models"), "/a/v1/models") << text;
    EXPECT_EQ(url->path("/tokenize"), "/a/tokenize") << text;
  }
}

TEST(Url, WhatIsNoAddressIsRefused) {
  for (const char* text : {"",
                           "http://",
                           "ftp://host",
                           "http://:80",
                           "http://host:",
                           "http://host:0",
                           "http://host:65536",
                           "http://host:8o",
                           "http://[::1",
                           "http://[::1]8",
                           "http://[::1]:",
                           "http://[]",
                           "http://a b",
                           "http://host/a b",
                           "http://host/?q",
                           "http://host#x",
                           "http://me:secret@host",
                           "http://ho\nst",
                           "http://host/a\r\nX: y",
                           "/path"}) {
    const auto url = parse_url(text);
    EXPECT_FALSE(url) << text;
    if (!url) {
      EXPECT_NE(url.error().message().find("is not the address of a server"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace octavo
