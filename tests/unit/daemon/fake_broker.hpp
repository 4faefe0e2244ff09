// SPDX-License-Identifier: Apache-2.0
// A broker that speaks the broker protocol over a real socket, on its own thread. The test decides whether it answers
// at once, refuses, leaves a request unanswered, or dies. It has no rings, or those of a real Recording.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/base/partial_name.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/broker/messages.hpp"
#include "libcore/recorder/recording.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight::test {

struct BrokerSetup {
  std::uint64_t recording = 1;    // as Manifest::recording
  std::uint64_t counts_time = 1;  // in its Counts, so that a test can distinguish two brokers
  std::set<Request> unanswered;
  std::map<Request, Error> refused;
  std::shared_ptr<const Recording> rings;  // nullptr: there are no rings
  std::string folder;                      // the directory of its files; empty: it makes none
  std::vector<std::byte> processes;        // the result of its scan
  std::vector<std::byte> first_processes;  // of that from before its recording, for the first request; empty: none
  std::string config_digest;
  std::vector<std::string> unseen;               // Counts::unseen
  std::optional<Delivery> delivery;              // Counts::delivery; nullopt: as the rings have it
  std::vector<std::string> missing;              // Manifest::missing
  std::string left_out;                          // a channel into which no CPU records
  KnownFiles known_files;                        // the build-ids that it knows
  std::uint64_t build_ids_waiting = 0;           // Counts::build_ids_waiting
  bool dirty_files = false;                      // its files are not empty: no file of perf begins there
  std::ptrdiff_t most_unfinished = PTRDIFF_MAX;  // with so many unfinished files it makes no more (EBUSY)
};

inline Manifest manifest_of(const BrokerSetup& setup) {
  Manifest out;
  if (setup.rings) {
    out = setup.rings->manifest();
  } else {
    out.events.resize(1);
    out.events[0].attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
    out.events[0].attr.sample_id_all = 1;
  }
  out.generation = 1;
  out.recording = setup.recording;
  out.config_digest = setup.config_digest;
  out.missing = setup.missing;
  for (ManifestEvent& event : out.events)
    if (!setup.left_out.empty() && event.channel == setup.left_out)
      for (const ManifestId& id : event.ids) event.left_out.push_back(id.cpu);
  return out;
}

// The reply to an attach.
inline Attachment attachment_of(const BrokerSetup& setup) {
  Attachment out{.manifest = manifest_of(setup), .owners = {}};
  if (!setup.rings) return out;
  for (const int fd : setup.rings->owner_fds()) out.owners.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return out;
}

class FakeBroker {
 public:
  using Setup = BrokerSetup;
  static constexpr int kPid = 4711;  // in its Counts

  FakeBroker(UniqueFd socket, Setup setup)
      : socket_(std::move(socket)), setup_(std::move(setup)), client_(socket_.get()), thread_([this] { serve(); }) {}
  // Waits for one client at `path`.
  FakeBroker(const std::string& path, Setup setup)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), setup_(std::move(setup)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
    thread_ = std::thread([this] {
      const UniqueFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) return;
      {
        const std::lock_guard lock(mutex_);
        client_ = client.get();
      }
      serve();
      const std::lock_guard lock(mutex_);
      client_ = -1;
    });
  }
  FakeBroker(const FakeBroker&) = delete;
  FakeBroker& operator=(const FakeBroker&) = delete;
  ~FakeBroker() { die(); }

  void die() {
    {
      const std::lock_guard lock(mutex_);
      ::shutdown(socket_.get(), SHUT_RDWR);
      if (client_ >= 0) ::shutdown(client_, SHUT_RDWR);
    }
    if (thread_.joinable()) thread_.join();
  }

  // The number of these requests so far.
  std::ptrdiff_t asked(Request request) {
    const std::lock_guard lock(mutex_);
    return std::count(requests_.begin(), requests_.end(), request);
  }
  // Sends a reply that was not requested, or a late one.
  void say(Request request) {
    const std::lock_guard lock(mutex_);
    if (request == Request::changed) ++generation_;
    answer(request);
  }
  // Applies to all later requests.
  template <typename Change>
  void change(Change apply) {
    const std::lock_guard lock(mutex_);
    apply(setup_);
  }
  void refuse(Request request, std::errc code, std::string text) {
    change([&](Setup& setup) { setup.refused[request] = {std::make_error_code(code), std::move(text)}; });
  }
  void leave(Request request) {
    change([&](Setup& setup) { setup.unanswered.insert(request); });
  }
  // Answers this request normally again.
  void obey(Request request) {
    change([&](Setup& setup) {
      setup.refused.erase(request);
      setup.unanswered.erase(request);
    });
  }

 private:
  struct Reply {
    UniqueFd fd;
    std::string text;
    std::optional<Error> error;
  };

  void serve() {
    int client = -1;
    {
      const std::lock_guard lock(mutex_);
      client = client_;
    }
    for (;;) {
      pollfd ready{client, POLLIN, 0};
      ::poll(&ready, 1, -1);
      const auto byte = receive_request(client);
      if (!byte && byte.error().code == std::errc::resource_unavailable_try_again) continue;
      if (!byte) return;
      const auto request = static_cast<Request>(*byte);
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      if (!setup_.unanswered.contains(request)) answer(request);
    }
  }

  // The client may have disconnected.
  void answer(Request request) {
    ReplyHeader header;
    header.request = static_cast<std::uint8_t>(request);
    header.generation = generation_;
    const auto refused = setup_.refused.find(request);
    if (request == Request::attach && refused == setup_.refused.end()) return attach(header);
    Reply reply;
    if (refused == setup_.refused.end())
      reply = reply_to(request);
    else
      reply.error = refused->second;
    if (reply.error) {
      header.failed = 1;
      header.error_number = reply.error->errno_value();
      reply.text = reply.error->what;
    }
    const std::array fds{reply.fd.get()};
    static_cast<void>(send_message(client_, header, reply.text, std::span(fds).first(reply.fd ? 1 : 0)));
  }
  void attach(ReplyHeader header) {
    Manifest manifest = manifest_of(setup_);
    manifest.generation = generation_;
    const UniqueFd text = document(encode(manifest));
    const std::vector<int> owners = setup_.rings ? setup_.rings->owner_fds() : std::vector<int>();
    header.parts = static_cast<std::uint32_t>(1 + (owners.size() + kMaxFdsPerMessage - 1) / kMaxFdsPerMessage);
    const std::array fds{text.get()};
    static_cast<void>(send_message(client_, header, {}, fds));
    for (std::size_t first = 0; first < owners.size(); first += kMaxFdsPerMessage) {
      ++header.part;
      header.first_ring = static_cast<std::uint32_t>(first);
      const auto some = std::span(owners).subspan(first, std::min(kMaxFdsPerMessage, owners.size() - first));
      static_cast<void>(send_message(client_, header, {}, some));
    }
  }
  Reply reply_to(Request request) {
    if (request == Request::counts) return {.fd = document(encode(counts())), .text = {}, .error = {}};
    if (request == Request::processes) {
      const auto first = std::exchange(setup_.first_processes, {});
      return {.fd = document(first.empty() ? setup_.processes : first), .text = {}, .error = {}};
    }
    if (request == Request::build_ids) return {.fd = document(encode(setup_.known_files)), .text = {}, .error = {}};
    if (request == Request::kernel)
      return {
          .fd = document(encode(KernelNames{.looked_ns = 1, .digest = "0123456789abcdef"})), .text = {}, .error = {}};
    if (request == Request::file || request == Request::spare) return new_file(request == Request::spare);
    if (setup_.rings && (request == Request::enable || request == Request::disable)) {
      EXPECT_TRUE(setup_.rings->enable_all(request == Request::enable));
    }
    return {};
  }
  [[nodiscard]] Counts counts() const {
    Counts out;
    if (setup_.rings) out = setup_.rings->counts();
    out.time_ns = setup_.counts_time;
    out.unseen = setup_.unseen;
    out.build_ids_waiting = setup_.build_ids_waiting;
    out.delivery = setup_.delivery.value_or(out.delivery);
    out.broker_pid = kPid;
    return out;
  }
  [[nodiscard]] Reply new_file(bool spare) const {
    if (setup_.folder.empty())
      return {.fd = UniqueFd(::memfd_create("test", MFD_CLOEXEC)), .text = "new.partial", .error = {}};
    std::error_code gone;
    const std::filesystem::directory_iterator entries(setup_.folder, gone);
    if (std::count_if(begin(entries), end(entries), [](const auto& entry) {
          return is_partial_name(entry.path().filename().native());
        }) >= setup_.most_unfinished)
      return {.fd = {},
              .text = {},
              .error = fail(std::errc::device_or_resource_busy, "too many unfinished files already").value()};
    static std::atomic<unsigned> number = 0;
    const std::string name = partial_name(++number);
    const mode_t mode = spare ? 0660 : 0640;
    UniqueFd fd(::open((setup_.folder + "/" + name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd) return {.fd = {}, .text = {}, .error = sys_error(errno, "create {}", name).value()};
    EXPECT_EQ(::fchmod(fd.get(), mode), 0);
    if (setup_.dirty_files) {
      EXPECT_EQ(::write(fd.get(), "x", 1), 1);
    }
    return {.fd = std::move(fd), .text = name, .error = {}};
  }
  static UniqueFd document(std::span<const std::byte> bytes) { return sealed_memfd("test", bytes).value(); }
  static UniqueFd document(std::string_view text) {
    return document(std::as_bytes(std::span(text.data(), text.size())));
  }

  UniqueFd socket_;  // connected to its client, or listening
  std::mutex mutex_;
  Setup setup_;
  int client_ = -1;
  std::uint64_t generation_ = 1;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace flight::test
