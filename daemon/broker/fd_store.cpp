// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/fd_store.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "libcore/base/bytes.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/units.hpp"
#include "libcore/perf/attr.hpp"

namespace flight::broker {
namespace {

constexpr const char* kManifestName = "flightd-kept-manifest";

std::string event_name(std::uint64_t id) { return fmt::format("e{:x}", id); }

// Parses "m7" to 7.
std::optional<std::uint64_t> manifest_number(std::string_view name) {
  std::uint64_t number = 0;
  if (name.size() < 2 || name.front() != 'm') return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// PID 1 drops what is more, and does not tell the sender. Since version 254 it says how many it takes, as a drop-in may
// have lowered FileDescriptorStoreMax=.
std::size_t max_stored() {
  const char* const text = std::getenv("FDSTORE");
  const std::string_view limit = text == nullptr ? "" : text;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), number);
  return error == std::errc() && end == limit.data() + limit.size() ? std::min(number, kMaxStored) : kMaxStored;
}

// Those of a manifest, as Recording::events() has them.
std::set<std::uint64_t> stored_events(const Manifest& manifest) {
  std::set<std::uint64_t> out;
  for (const ManifestRing& ring : manifest.rings) {
    out.insert(ring.live_ids.begin(), ring.live_ids.end());
    out.insert(ring.owner_id);
  }
  return out;
}

// Whether it is a socket of a socket unit, not an event. sd_is_socket(3) needs system calls that the unit does not
// allow.
bool listens(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

// The limit for one keep() to wait for PID 1, all messages together: the broker answers no request meanwhile.
constexpr std::chrono::milliseconds kKeepWithin(500);
constexpr std::chrono::milliseconds kRetryWithin(20);  // once a second

std::chrono::milliseconds left_until(EventTime until_ns) {
  const EventTime now_ns = monotonic_now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::nanoseconds(until_ns > now_ns ? until_ns - now_ns : 0));
}

Result<void> store(const std::string& name, int fd, EventTime until_ns) {
  auto sent = notify_service_manager(fmt::format("FDSTORE=1\nFDPOLL=0\nFDNAME={}", name), left_until(until_ns), fd);
  if (!sent) return wrap(sent.error(), "store the descriptor {} in systemd", name);
  return {};
}

Result<void> remove(const std::string& name, EventTime until_ns) {
  auto sent = notify_service_manager(fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name), left_until(until_ns));
  if (!sent) return wrap(sent.error(), "remove the descriptor {} from systemd", name);
  return {};
}

}  // namespace

FdStore FdStore::take() {
  FdStore out;
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  for (int i = 0; i < count; ++i) {
    UniqueFd fd(SD_LISTEN_FDS_START + i);
    std::string name = names != nullptr && names[i] != nullptr ? names[i] : "";
    if (listens(fd.get())) {
      out.sockets_.push_back(std::move(fd));
      continue;
    }
    if (const auto number = manifest_number(name)) out.last_manifest_ = std::max(out.last_manifest_, *number);
    out.names_.insert(name);
    out.taken_.push_back({.name = std::move(name), .fd = std::move(fd)});
  }
  for (int i = 0; names != nullptr && i < count; ++i) ::free(names[i]);
  ::free(names);
  return out;
}

std::optional<Result<FdStore::Kept>> FdStore::kept() const {
  if (taken_.empty()) return std::nullopt;
  const auto newest = std::find_if(taken_.begin(), taken_.end(), [&](const Stored& one) {
    return manifest_number(one.name) == last_manifest_ && last_manifest_ != 0;
  });
  if (newest == taken_.end())
    return fail(std::errc::bad_message, "systemd stored {} and no manifest", counted(taken_.size(), "event"));
  const auto text = read_sealed_memfd(newest->fd.get(), kMaxManifestBytes);
  if (!text) return Result<Kept>(propagate(text.error()));
  auto manifest = parse_manifest(*text);
  if (!manifest) return Result<Kept>(propagate(manifest.error()));
  Kept kept{.manifest = std::move(*manifest), .events = {}};
  for (const Stored& one : taken_) {
    if (manifest_number(one.name)) continue;
    // The id comes from the kernel; the name is not trusted.
    const auto id = event_id(one.fd.get());
    if (!id) continue;
    UniqueFd copy(::fcntl(one.fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!copy) return Result<Kept>(sys_error(errno, "use the events that systemd stored"));
    kept.events.emplace(*id, std::move(copy));
  }
  return Result<Kept>(std::move(kept));
}

// The manifest is stored last: a store that was full has none.
std::string FdStore::missing(const Result<Kept>& kept) const {
  if (std::getenv("FDSTORE") != nullptr) return "";
  const auto likely = [](const std::string& what) {
    return fmt::format(
        "; systemd gave back {}: a drop-in has probably lowered FileDescriptorStoreMax=, set it to {}, or the end of "
        "the broker also ends the history",
        what, kMaxStored);
  };
  const bool has_manifest = std::any_of(taken_.begin(), taken_.end(),
                                        [](const Stored& one) { return manifest_number(one.name).has_value(); });
  if (!has_manifest) return likely(counted(taken_.size(), "descriptor"));
  if (!kept) return "";
  const std::set<std::uint64_t> stored = stored_events(kept->manifest);
  const auto came = static_cast<std::size_t>(
      std::count_if(stored.begin(), stored.end(), [&](std::uint64_t id) { return kept->events.contains(id); }));
  return came == stored.size() ? "" : likely(fmt::format("{} of {}", came, counted(stored.size(), "event")));
}

Result<void> FdStore::keep(const Recording& recording) {
  const auto within = std::exchange(incomplete_, false) ? kRetryWithin : kKeepWithin;
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return {};
  const std::map<std::uint64_t, int> events = recording.events();
  if (const std::size_t most = max_stored(); events.size() + 2 > most)
    return fail(
        std::errc::too_many_files_open,
        "{} events are more than the {} that systemd can store: record fewer events{}, or the end of the broker "
        "also ends the history",
        events.size(), most, most < kMaxStored ? fmt::format(", or set FileDescriptorStoreMax={}", kMaxStored) : "");
  incomplete_ = true;
  const SpareDescriptors::Use use;
  const std::string text = encode(recording.manifest());
  auto manifest = sealed_memfd(kManifestName, bytes_of(text));
  if (!manifest) return propagate(manifest.error());
  auto sent = send(events, manifest->get(), monotonic_now() + std::chrono::nanoseconds(within).count());
  incomplete_ = !sent;
  return sent;
}

// A name is added only after its message was sent, so that the next call sends exactly what is missing.
Result<void> FdStore::send(const std::map<std::uint64_t, int>& events, int manifest, EventTime until_ns) {
  std::set<std::string> wanted;
  std::size_t missing = 1;  // the manifest
  for (const auto& [id, fd] : events) {
    const auto [name, is_new] = wanted.insert(event_name(id));
    if (is_new && !names_.contains(*name)) ++missing;
  }
  // Removed last, so that whenever the broker dies, one manifest with all its events is stored; but first where old and
  // new do not fit, or the new ones would be dropped.
  if (names_.size() + missing > max_stored()) {
    if (auto removed = remove_except(wanted, until_ns); !removed) return removed;
  }
  for (const auto& [id, fd] : events) {
    std::string name = event_name(id);
    if (names_.contains(name)) continue;
    if (auto stored = store(name, fd, until_ns); !stored) return stored;
    names_.insert(std::move(name));
  }
  // The manifest is stored after all its events.
  std::string name = fmt::format("m{}", last_manifest_ + 1);
  if (auto stored = store(name, manifest, until_ns); !stored) return stored;
  ++last_manifest_;
  names_.insert(name);
  wanted.insert(std::move(name));
  return remove_except(wanted, until_ns);
}

Result<void> FdStore::remove_except(const std::set<std::string>& wanted, EventTime until_ns) {
  for (auto at = names_.begin(); at != names_.end();) {
    if (wanted.contains(*at)) {
      ++at;
      continue;
    }
    if (auto removed = remove(*at, until_ns); !removed) return removed;
    at = names_.erase(at);
  }
  return {};
}

}  // namespace flight::broker
