// TLS as bytes in and bytes out: what an endpoint is (TlsContext) and one connection of it (TlsSession). There is no
// socket here and no waiting: who holds the socket moves the bytes. TLS 1.2 and 1.3; of HTTP only 1.1 is agreed on.
// A client believes a server whose certificate the system trusts, or --ssl-ca-certs. OpenSSL is named in net/tls.cc
// alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

// OpenSSL's own names.
struct ssl_ctx_st;
struct ssl_st;

namespace octavo {

class TlsContext {
 public:
  // PEM files. An empty key file: the key stands beside the certificate. Refuses, each in a sentence that names the
  // file, what is no certificate, no key, a key behind a passphrase, and a key of another certificate.
  static Result<TlsContext> server(const std::string& cert_file, const std::string& key_file);
  // An empty file: what the system trusts. Without `verify` everybody is believed.
  static Result<TlsContext> client(const std::string& ca_file, bool verify);

  ssl_ctx_st* get() const { return context_.get(); }
  bool out_of_date() const { return out_of_date_; }  // the server's own certificate

 private:
  explicit TlsContext(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}

  std::shared_ptr<ssl_ctx_st> context_;
  bool out_of_date_ = false;
};

class TlsSession {
 public:
  enum class State {
    done,
    wants_bytes,  // receive() more and call again
    closed,       // the peer said goodbye
    failed,       // why() says why
  };
  static TlsSession server(const TlsContext& context);
  static TlsSession client(const TlsContext& context, const std::string& host);

  State handshake();
  State read(char* data, std::size_t size, std::size_t& count);
  State write(std::string_view data);  // to send() afterwards
  void say_goodbye();                  // the same

  void receive(std::string_view bytes);  // from the peer
  std::string send();                    // what is to go to the peer; taken

  const std::string& why() const { return why_; }
  bool peer_speaks_http() const { return peer_speaks_http_; }  // to a server, and without TLS

 private:
  explicit TlsSession(const TlsContext& context);
  State state_after(int result);

  std::shared_ptr<ssl_st> session_;
  std::string why_;
  bool peer_speaks_http_ = false;
};

}  // namespace octavo
