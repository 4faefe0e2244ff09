// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/fd_store.hpp"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <span>

#include "libcore/base/files.hpp"
#include "libcore/perf/attr.hpp"

namespace flight {
namespace {

constexpr const char* kManifestName = "flightd-kept-manifest";

std::string event_name(std::uint64_t id) { return fmt::format("e{:x}", id); }

// "m7": 7.
std::optional<std::uint64_t> manifest_number(std::string_view name) {
  std::uint64_t number = 0;
  if (name.size() < 2 || name.front() != 'm') return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// A socket unit's, and not an event. Not sd_is_socket(3), which asks more of the system calls that the unit lets
// through.
bool listens(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

Result<void> store(const std::string& name, int fd) {
  const std::string text = fmt::format("FDSTORE=1\nFDPOLL=0\nFDNAME={}", name);
  const int sent = ::sd_pid_notify_with_fds(0, 0, text.c_str(), &fd, 1);
  if (sent < 0) return sys_error(-sent, "give systemd the descriptor {} to keep", name);
  return {};
}

Result<void> remove(const std::string& name) {
  const int sent = ::sd_notify(0, fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name).c_str());
  if (sent < 0) return sys_error(-sent, "take the descriptor {} back from systemd", name);
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

std::optional<Result<FdStore::Kept>> FdStore::take_kept() {
  std::vector<Stored> taken = std::move(taken_);
  if (taken.empty()) return std::nullopt;
  const auto newest = std::find_if(taken.begin(), taken.end(), [&](const Stored& one) {
    return manifest_number(one.name) == last_manifest_ && last_manifest_ != 0;
  });
  if (newest == taken.end())
    return fail(std::errc::bad_message, "systemd kept {} events and no manifest", taken.size());
  const auto text = read_sealed_memfd(newest->fd.get(), kMaxManifestBytes);
  if (!text) return Result<Kept>(pass(text.error()));
  auto manifest = parse_manifest(*text);
  if (!manifest) return Result<Kept>(pass(manifest.error()));
  Kept kept{.manifest = std::move(*manifest), .events = {}};
  for (Stored& one : taken) {
    if (manifest_number(one.name)) continue;
    // The kernel's word, not the name.
    if (const auto id = event_id(one.fd.get())) kept.events.emplace(*id, std::move(one.fd));
  }
  return Result<Kept>(std::move(kept));
}

Result<void> FdStore::keep(const Recording& recording) {
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return {};
  const std::map<std::uint64_t, int> events = recording.events();
  if (events.size() + 2 > kMaxStored)
    return fail(std::errc::too_many_files_open,
                "{} events are more than the {} that systemd can keep: record fewer events, or the death of the broker "
                "ends the history",
                events.size(), kMaxStored);
  std::set<std::string> wanted;
  for (const auto& [id, fd] : events) {
    std::string name = event_name(id);
    if (names_.insert(name).second)
      if (auto stored = store(name, fd); !stored) return stored;
    wanted.insert(std::move(name));
  }
  const std::string text = encode(recording.manifest());
  auto manifest = sealed_memfd(kManifestName, std::as_bytes(std::span<const char>(text)));
  if (!manifest) return pass(manifest.error());
  std::string name = fmt::format("m{}", ++last_manifest_);
  if (auto stored = store(name, manifest->get()); !stored) return stored;
  names_.insert(name);
  wanted.insert(std::move(name));
  // Last, so that whenever we die there is one whole manifest with all its events.
  for (auto at = names_.begin(); at != names_.end();) {
    if (wanted.count(*at) != 0) {
      ++at;
      continue;
    }
    if (auto removed = remove(*at); !removed) return removed;
    at = names_.erase(at);
  }
  return {};
}

}  // namespace flight
