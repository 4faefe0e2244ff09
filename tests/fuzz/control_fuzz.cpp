// SPDX-License-Identifier: Apache-2.0
// A client's bytes, through a socket, a real session and every method: framing, calls, parameters, access. All that
// comes back must be replies that a client of ours can read.
#include <sys/socket.h>
#include <unistd.h>

#include <cassert>

#include "daemon/control/session.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/daemon/control/control_bench.hpp"

namespace {

constexpr std::size_t kMaxInput = 128U << 10U;  // below what a Unix socket takes at once (wmem_default, 208 KiB)

void check_replies(std::string_view replies) {
  while (!replies.empty()) {
    const std::size_t end = replies.find('\0');
    assert(end != std::string_view::npos);
    assert(flight::parse_reply(replies.substr(0, end)).has_value());
    replies.remove_prefix(end + 1);
  }
}

std::string read_all_of(int socket) {
  std::string all;
  std::array<char, 65536> some;
  ssize_t count = 0;
  while ((count = ::recv(socket, some.data(), some.size(), MSG_DONTWAIT)) > 0)
    all.append(some.data(), static_cast<std::size_t>(count));
  return all;
}

}  // namespace

// The first byte says who asks; the rest is what they say.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using boost::asio::local::stream_protocol;
  flight::fuzz::Input input(data, std::min(size, kMaxInput));
  const uid_t uid = input.take<std::uint8_t>() % 2 == 0 ? 0 : 65534;

  static const auto reader = flight::TaskThread::start("reader").value();  // this backend has no file to read
  boost::asio::io_context loop;
  flight::test::MemoryBackend backend(loop);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
  const int room = 8 << 20;  // replies are read when all is said
  ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  if (::send(ends[1], input.text().data(), input.text().size(), MSG_DONTWAIT) < 0 && !input.text().empty())
    std::abort();
  ::shutdown(ends[1], SHUT_WR);

  std::string replies;
  const auto session = std::make_shared<flight::daemon::ControlSession>(
      stream_protocol::socket(loop, stream_protocol(), ends[0]), flight::daemon::Caller{.uid = uid, .gid = uid},
      flight::daemon::ControlAccess{}, backend, *reader, flight::daemon::SessionLimits{},
      [](flight::daemon::ControlSession*) {});
  session->start();
  // One that listens for events would wait for as long as its client is there.
  for (int idle = 0; idle < 3; loop.restart()) {
    if (loop.poll_one() == 0) ++idle;
    replies += read_all_of(ends[1]);
  }
  session->forget();
  loop.poll();
  ::close(ends[1]);
  check_replies(replies);
  return 0;
}
