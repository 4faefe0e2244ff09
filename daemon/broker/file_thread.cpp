// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/file_thread.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/broker/partial_file.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/broker/messages.hpp"

namespace flight::broker {
namespace {

std::atomic<int> threads_under_way{0};

struct Order {
  UniqueFd client;
  ReplyHeader header;
  std::string state_dir;
  std::optional<gid_t> group;
  FileKind kind;
};

// Logs nothing: only the main thread logs.
void make_and_send(const Order& order) {
  // A file for a last snapshot can be requested again.
  std::optional<SpareDescriptors::Use> use;
  if (order.kind == FileKind::final) use.emplace();
  const auto made = create_partial_file(order.state_dir, order.group, order.kind);
  --threads_under_way;  // before the answer: the client may ask again at once
  if (!made) {
    ReplyHeader refusal = order.header;
    refusal.failed = 1;
    refusal.error_number = made.error().errno_value();
    const std::string why = made.error().what + descriptor_advice(made.error(), "flightd-broker");
    static_cast<void>(send_message(order.client.get(), refusal, why, {}));
    return;
  }
  const std::array fds{made->fd.get()};
  // The client may have disconnected.
  if (!send_message(order.client.get(), order.header, made->name, fds))
    remove_partial_file(order.state_dir, made->name);
}

}  // namespace

Result<void> answer_with_file(const BlockingThreads& threads, int client, const ReplyHeader& header,
                              const std::string& state_dir, std::optional<gid_t> group) {
  if (threads_under_way >= kMaxFileThreads)
    return fail(std::errc::device_or_resource_busy,
                "the disk below {}/snapshots has not created {} files that were requested before: it hangs", state_dir,
                kMaxFileThreads);
  const bool is_spare = header.request == static_cast<std::uint8_t>(Request::spare);
  std::optional<SpareDescriptors::Use> use;
  if (!is_spare) use.emplace();
  // A task must be copyable.
  auto order = std::make_shared<Order>(
      Order{.client = with_spare([&] { return ::fcntl(client, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); }),
            .header = header,
            .state_dir = state_dir,
            .group = group,
            .kind = is_spare ? FileKind::spare : FileKind::final});
  if (!order->client) return sys_error(errno, "duplicate the client's socket");
  ++threads_under_way;
  const bool posted = threads.post([order = std::move(order)] { make_and_send(*order); });
  if (posted) return {};
  --threads_under_way;
  return fail(std::errc::device_or_resource_busy, "no thread is free to make a file");
}

}  // namespace flight::broker
