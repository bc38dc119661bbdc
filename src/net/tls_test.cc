#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/file.h"

namespace octavo {
namespace {

using State = TlsSession::State;

void add_extension(X509* certificate, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// A key and a certificate that vouches for itself, as PEM files.
struct Identity {
  std::string cert, key;

  explicit Identity(const std::string& name, long valid_seconds = 3600, const char* passphrase = nullptr)
      : cert(testing::TempDir() + name + ".crt"), key(testing::TempDir() + name + ".key") {
    EVP_PKEY* pair = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), valid_seconds);
    X509_set_pubkey(certificate, pair);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("a test"), -1, -1,
                               0);
    X509_set_issuer_name(certificate, subject);
    add_extension(certificate, NID_subject_alt_name, "DNS:served.test,IP:127.0.0.1");
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate, pair, EVP_sha256());
    FILE* file = std::fopen(cert.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(key.c_str(), "w");
    PEM_write_PKCS8PrivateKey(file, pair, passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), passphrase,
                              passphrase == nullptr ? 0 : static_cast<int>(std::string(passphrase).size()), nullptr,
                              nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(pair);
  }
};

std::string refusal_of(const std::string& cert, const std::string& key) {
  const auto context = TlsContext::server(cert, key);
  return context ? "accepted" : context.error().message();
}

// Both ends in one thread; bytes pass in pieces of so many.
struct Pair {
  TlsSession server, client;

  void pass(TlsSession& from, TlsSession& to, std::size_t piece) {
    const std::string bytes = from.send();
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      to.receive(std::string_view(bytes).substr(i, piece));
      if (i + piece < bytes.size()) to.handshake();
    }
  }
  State agree(std::size_t piece) {
    State state = State::wants_bytes;
    for (int i = 0; i < 20 && state == State::wants_bytes; ++i) {
      state = client.handshake();
      pass(client, server, piece);
      server.handshake();
      pass(server, client, piece);
    }
    return state;
  }
};

Result<Pair> make_pair(const Identity& identity, const std::string& trusted, const std::string& host,
                       bool verify = true) {
  OCTAVO_TRY(const TlsContext server, TlsContext::server(identity.cert, identity.key));
  OCTAVO_TRY(const TlsContext client, TlsContext::client(trusted, verify));
  return Pair{TlsSession::server(server), TlsSession::client(client, host)};
}

TEST(Tls, TextComesThroughHoweverBytesAreCut) {
  const Identity identity("cut");
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += static_cast<char>(i * 31 % 251);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    auto pair = make_pair(identity, identity.cert, "served.test");
    ASSERT_TRUE(pair) << pair.error().message();
    ASSERT_EQ(pair->agree(piece), State::done) << pair->client.why();
    ASSERT_EQ(pair->client.write(text), State::done);
    const std::string bytes = pair->client.send();
    EXPECT_EQ(bytes.find(text.substr(0, 100)), std::string::npos);
    std::string heard;
    char buffer[777];
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      pair->server.receive(std::string_view(bytes).substr(i, piece));
      State state = State::done;
      for (std::size_t count = 0; state == State::done; heard.append(buffer, count))
        state = pair->server.read(buffer, sizeof buffer, count);
      ASSERT_EQ(state, State::wants_bytes);
    }
    EXPECT_TRUE(heard == text);
    pair->client.say_goodbye();
    pair->server.receive(pair->client.send());
    std::size_t count = 0;
    EXPECT_EQ(pair->server.read(buffer, sizeof buffer, count), State::closed);
  }
}

TEST(Tls, AClientBelievesTheRightServerAlone) {
  const Identity identity("right"), other("other"), old("old", -60);
  const auto verdict = [](const Identity& server, const std::string& trusted, const std::string& host, bool verify) {
    auto pair = make_pair(server, trusted, host, verify);
    EXPECT_TRUE(pair);
    return pair->agree(1 << 20) == State::done ? std::string("believed") : pair->client.why();
  };
  EXPECT_EQ(verdict(identity, identity.cert, "127.0.0.1", true), "believed");
  EXPECT_NE(verdict(identity, identity.cert, "127.0.0.2", true).find("IP address mismatch"), std::string::npos);
  EXPECT_NE(verdict(identity, identity.cert, "else.test", true).find("ostname mismatch"), std::string::npos);
  EXPECT_NE(verdict(identity, other.cert, "served.test", true).find("not believed"), std::string::npos);
  EXPECT_NE(verdict(identity, "", "served.test", true).find("not believed"), std::string::npos);
  EXPECT_NE(verdict(old, old.cert, "served.test", true).find("expired"), std::string::npos);
  EXPECT_EQ(verdict(identity, "", "else.test", false), "believed");
  EXPECT_TRUE(TlsContext::server(old.cert, old.key)->out_of_date());
  EXPECT_FALSE(TlsContext::server(identity.cert, identity.key)->out_of_date());
}

TEST(Tls, AServerTellsWhoSpeaksPlainHttp) {
  const Identity identity("plain");
  const auto context = TlsContext::server(identity.cert, identity.key);
  ASSERT_TRUE(context);
  TlsSession session = TlsSession::server(*context);
  session.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(session.handshake(), State::failed);
  EXPECT_TRUE(session.peer_speaks_http());
  TlsSession garbage = TlsSession::server(*context);
  garbage.receive("\x01\x02\x03\x04 garbage, and more of it");
  EXPECT_EQ(garbage.handshake(), State::failed);
  EXPECT_FALSE(garbage.peer_speaks_http());
}

TEST(Tls, WrongFilesAreNamed) {
  const Identity identity("one"), other("two"), guarded("three", 3600, "secret");
  const std::string both = testing::TempDir() + "both.pem", rubbish = testing::TempDir() + "rubbish.pem";
  ASSERT_TRUE(write_file(both, *read_file(identity.cert) + *read_file(identity.key)));
  ASSERT_TRUE(write_file(rubbish, "no PEM\n"));
  EXPECT_EQ(refusal_of(both, ""), "accepted");
  struct Row {
    std::string cert, key, mention, remedy;
  };
  for (const Row& row :
       {Row{"/nonexistent.crt", identity.key, "--ssl-certfile", "/nonexistent.crt"},
        Row{identity.cert, "/nonexistent.key", "--ssl-keyfile", "/nonexistent.key"},
        Row{rubbish, identity.key, rubbish, "BEGIN CERTIFICATE"},
        Row{identity.cert, rubbish, rubbish, "BEGIN PRIVATE KEY"},
        Row{identity.cert, other.key, other.key, "not the key of the certificate"},
        Row{identity.cert, "", identity.cert, "--ssl-keyfile"}, Row{"", identity.key, identity.key, "--ssl-certfile"},
        Row{guarded.cert, guarded.key, guarded.key, "passphrase"}}) {
    const std::string why = refusal_of(row.cert, row.key);
    EXPECT_NE(why.find(row.mention), std::string::npos) << why;
    EXPECT_NE(why.find(row.remedy), std::string::npos) << why;
  }
  EXPECT_FALSE(TlsContext::client(rubbish, true));
  EXPECT_FALSE(TlsContext::client("/nonexistent", true));
}

}  // namespace
}  // namespace octavo
