// Stream: the bytes of one connection, plain or through TLS, on a socket of either kind (TCP, Unix). One read and one
// write at a time; everything on the socket's own event loop. What waits is a coroutine; what is called `now` never
// waits. Bytes of TLS count as its text does.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "net/tls.h"

namespace octavo {

using StreamSocket = boost::asio::generic::stream_protocol::socket;
using StreamError = boost::system::error_code;
using Moved = std::tuple<StreamError, std::size_t>;

class Stream {
 public:
  explicit Stream(StreamSocket socket) : socket_(std::move(socket)) {}
  virtual ~Stream() = default;

  // How the connection begins; false: it cannot, and why() says why.
  virtual boost::asio::awaitable<bool> open() = 0;
  virtual boost::asio::awaitable<Moved> read_some(boost::asio::mutable_buffer into) = 0;
  virtual boost::asio::awaitable<Moved> write_some(boost::asio::const_buffer from) = 0;
  virtual std::size_t read_now(boost::asio::mutable_buffer into, StreamError& error) = 0;  // or would_block
  virtual void write_now(std::string_view data) = 0;  // what the socket takes at once; the rest is lost
  // Nothing more will be written: the peer sees an end that is no accident.
  virtual void end_writing() = 0;

  virtual std::string why() const { return {}; }
  virtual bool peer_speaks_http() const { return false; }  // where TLS was expected

  StreamSocket& socket() { return socket_; }
  void close();

 protected:
  StreamSocket socket_;
};

std::unique_ptr<Stream> plain_stream(StreamSocket socket);
// helper: what the sums of a handshake are done on, a millisecond each time; none: the event loop's own thread. It must
// be gone before that loop is.
std::unique_ptr<Stream> tls_stream(StreamSocket socket, TlsSession session, boost::asio::any_io_executor helper = {});

// A connection is an open file: as many as the system allows us.
void raise_file_limit();

}  // namespace octavo
