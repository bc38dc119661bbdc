#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/file.h"

namespace octavo {
namespace {

// As ALPN writes it: a length and a name.
constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// Where systems other than the one that OpenSSL was built for keep what they trust.
constexpr std::array<const char*, 4> kTrustFiles = {"/etc/ssl/certs/ca-certificates.crt",
                                                    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                                    "/etc/ssl/cert.pem"};

// The oldest reason in OpenSSL's queue, which is the cause of the others; the queue is empty afterwards.
std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

Result<std::shared_ptr<ssl_ctx_st>> new_context(const SSL_METHOD* method) {
  ERR_clear_error();
  std::shared_ptr<ssl_ctx_st> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) return Error("TLS cannot be set up: " + openssl_reason(), ErrorKind::unavailable);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);  // thousands of idle connections
  return context;
}

int choose_http11(SSL*, const unsigned char** chosen, unsigned char* length, const unsigned char* offered,
                  unsigned int offered_length, void*) {
  unsigned char* found = nullptr;
  const int outcome = SSL_select_next_proto(&found, length, kHttp11.data(), static_cast<unsigned int>(kHttp11.size()),
                                            offered, offered_length);
  *chosen = found;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// OpenSSL would ask at the terminal for a passphrase; this notes that it is needed, and gives none.
int refuse_passphrase(char*, int, int, void* needed) {
  *static_cast<bool*>(needed) = true;
  return -1;
}

Status use_key(SSL_CTX* context, const std::string& cert_file, const std::string& key_file) {
  const bool own_file = !key_file.empty();
  const std::string& path = own_file ? key_file : cert_file;
  const std::string name = own_file ? "--ssl-keyfile " + path : "--ssl-certfile " + path;
  if (own_file) OCTAVO_TRY(read_file(path).in("--ssl-keyfile"));
  bool passphrase = false;
  SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &passphrase);
  const bool used = SSL_CTX_use_PrivateKey_file(context, path.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (used && SSL_CTX_check_private_key(context) == 1) return {};
  const bool mismatch = used || ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
  ERR_clear_error();
  if (passphrase)
    return Error(name + ": the key is behind a passphrase: store it without one (openssl pkey -in OLD -out NEW)");
  if (mismatch)
    return Error(name + " is not the key of the certificate in " + cert_file + ": name the two that belong together");
  if (own_file) return Error(name + " holds no private key: PEM is expected, with a line -----BEGIN PRIVATE KEY-----");
  return Error(name + " holds no private key beside the certificate: name the key's file with --ssl-keyfile");
}

bool is_address(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

}  // namespace

Result<TlsContext> TlsContext::server(const std::string& cert_file, const std::string& key_file) {
  if (cert_file.empty())
    return Error("--ssl-keyfile " + key_file + " needs --ssl-certfile, the certificate of that key");
  OCTAVO_TRY(read_file(cert_file).in("--ssl-certfile"));
  OCTAVO_TRY(TlsContext made, [&]() -> Result<TlsContext> {
    OCTAVO_TRY(auto context, new_context(TLS_server_method()));
    return TlsContext(std::move(context));
  }());
  SSL_CTX* context = made.get();
  if (SSL_CTX_use_certificate_chain_file(context, cert_file.c_str()) != 1)
    return Error("--ssl-certfile " + cert_file + " holds no usable certificate (" + openssl_reason() +
                 "): PEM is expected, with a line -----BEGIN CERTIFICATE-----");
  OCTAVO_TRY(use_key(context, cert_file, key_file));
  SSL_CTX_set_alpn_select_cb(context, choose_http11, nullptr);
  const X509* certificate = SSL_CTX_get0_certificate(context);
  made.out_of_date_ = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
  return made;
}

Result<TlsContext> TlsContext::client(const std::string& ca_file, bool verify) {
  if (!ca_file.empty()) OCTAVO_TRY(read_file(ca_file).in("--ssl-ca-certs"));
  OCTAVO_TRY(auto context, new_context(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_alpn_protos(context.get(), kHttp11.data(), static_cast<unsigned int>(kHttp11.size()));
  if (!ca_file.empty() && SSL_CTX_load_verify_file(context.get(), ca_file.c_str()) != 1)
    return Error("--ssl-ca-certs " + ca_file + " holds no usable certificate (" + openssl_reason() +
                 "): PEM is expected");
  if (ca_file.empty()) SSL_CTX_set_default_verify_paths(context.get());
  if (ca_file.empty() && !directory_exists(X509_get_default_cert_dir()))
    for (const char* path : kTrustFiles)
      if (file_exists(path) && SSL_CTX_load_verify_file(context.get(), path) == 1) break;
  ERR_clear_error();
  return TlsContext(std::move(context));
}

TlsSession::TlsSession(const TlsContext& context) : session_(SSL_new(context.get()), SSL_free) {
  check(session_ != nullptr, "a TLS session of a context");
  SSL_set_bio(session_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
}

TlsSession TlsSession::server(const TlsContext& context) {
  TlsSession session(context);
  SSL_set_accept_state(session.session_.get());
  return session;
}

TlsSession TlsSession::client(const TlsContext& context, const std::string& host) {
  TlsSession session(context);
  SSL* ssl = session.session_.get();
  SSL_set_connect_state(ssl);
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set1_host(ssl, host.c_str());
    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, const_cast<char*>(host.c_str()));
  }
  return session;
}

TlsSession::State TlsSession::state_after(int result) {
  if (result > 0) return State::done;
  const int error = SSL_get_error(session_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return State::wants_bytes;
  if (error == SSL_ERROR_ZERO_RETURN) return State::closed;
  const long verdict = SSL_get_verify_result(session_.get());
  const int reason = ERR_GET_REASON(ERR_peek_error());
  peer_speaks_http_ = reason == SSL_R_HTTP_REQUEST;
  why_ = reason == SSL_R_WRONG_VERSION_NUMBER ? "the other side does not speak it" : openssl_reason();
  if (verdict != X509_V_OK)
    why_ = std::string("its certificate is not believed (") + X509_verify_cert_error_string(verdict) + ")";
  return State::failed;
}

TlsSession::State TlsSession::handshake() {
  ERR_clear_error();  // the queue belongs to the thread, not to us
  return state_after(SSL_do_handshake(session_.get()));
}

TlsSession::State TlsSession::read(char* data, std::size_t size, std::size_t& count) {
  ERR_clear_error();
  count = 0;
  return state_after(SSL_read_ex(session_.get(), data, size, &count));
}

TlsSession::State TlsSession::write(std::string_view data) {
  ERR_clear_error();
  std::size_t count = 0;
  return state_after(SSL_write_ex(session_.get(), data.data(), data.size(), &count));
}

void TlsSession::say_goodbye() {
  ERR_clear_error();
  if (SSL_is_init_finished(session_.get()) == 1) SSL_shutdown(session_.get());
}

void TlsSession::receive(std::string_view bytes) {
  if (bytes.empty()) return;
  const int taken = BIO_write(SSL_get_rbio(session_.get()), bytes.data(), static_cast<int>(bytes.size()));
  check(taken == static_cast<int>(bytes.size()), "memory takes what is written to it");
}

std::string TlsSession::send() {
  BIO* out = SSL_get_wbio(session_.get());
  std::string bytes(BIO_ctrl_pending(out), '\0');
  if (!bytes.empty()) BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

}  // namespace octavo
