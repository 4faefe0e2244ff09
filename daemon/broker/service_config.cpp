// SPDX-License-Identifier: Apache-2.0
// The service's configuration: the start, reloads, and later attempts of a broker that cannot record. Another process
// reads the files, and nothing waits for them here, except at the start (reload_queue.hpp).
#include <poll.h>

#include <new>
#include <utility>

#include "daemon/broker/service.hpp"
#include "daemon/broker/service_status.hpp"
#include "daemon/log/log.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/broker/messages.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight::broker {
Service Service::start(BrokerOptions options, EventSources sources, FdStore store, ServiceThreads threads,
                       std::unique_ptr<SpareDescriptors> spare, std::chrono::milliseconds patience, int stop_fd) {
  Service service(std::move(options), std::move(sources), std::move(store), std::move(threads), std::move(spare));
  if (auto loaded = service.load(service.reloads_.read_at_start(patience, stop_fd)); !loaded) {
    service.error_ = loaded.error();
    pollfd stop{.fd = stop_fd, .events = POLLIN, .revents = 0};
    if (::poll(&stop, 1, 0) != 1) log::error("{}", service.error_.what);  // else it was asked to end meanwhile
  }
  return service;
}

// Out of memory is an error, whether the kernel says it (ENOMEM) or the allocator does (std::bad_alloc with RLIMIT_AS).
Result<bool> Service::load(ConfigResult<Config> config) {
  try {
    return load_now(std::move(config));
  } catch (const std::bad_alloc&) {
    return fail(std::errc::not_enough_memory, "{}", kOutOfMemory);
  }
}

Result<bool> Service::load_now(ConfigResult<Config> config) {
  bad_config_ = !config && !config.error().unread;
  if (!config) return fail(std::errc::invalid_argument, "{}", config.error().text());
  const std::uint64_t max_bytes = config->memory_max.of(HostInfo::read().total_memory_kb * 1024);
  scan_bytes_ = static_cast<std::size_t>(scan_bytes(beside_rings_bytes(max_bytes)));
  // It may have been mounted since the start.
  if (sources_.tracefs.empty())
    if (auto tracefs = find_tracefs()) sources_.tracefs = *tracefs;
  if (recording_) {
    auto changed = recording_->reload(*config, sources_);
    if (!changed) return changed;
    if (*changed) scans_.note_break();
    if (*changed) log_recording(recording_->manifest());
    keep();
    return changed;
  }
  if (auto opened = open_or_adopt(*config); !opened) return propagate(opened.error());
  log_recording(recording_->manifest());
  keep();
  return true;
}

Result<void> Service::reload(int client) {
  if (!reloads_.add_reload()) return {};
  return follow_config(client);
}

Result<void> Service::follow_config(int client) {
  while (auto read = reloads_.take())
    if (auto taken = take_config(client, std::move(*read)); !taken) return taken;
  const auto silence = recording_ ? std::nullopt : reloads_.silence();
  if (!silence) return {};
  // The reading goes on, and so does the wait for it.
  if (note_failure(fail(std::errc::timed_out, "{}", silence->text()).value())) notify_state();
  return answer_attaches(client);
}

Result<void> Service::take_config(int client, ReloadQueue::Reading read) {
  if (recording_ && read.reloads == 0) return {};  // its client has left
  const auto loaded = load(std::move(read.config));
  reloads_.note_attempt(Clock::now());
  if (read.reloads == 0) {
    if (!loaded) note_failure(loaded.error());
    notify_state();  // also the same again: the service manager may not have got it
  } else if (!loaded) {
    log::warn("reload: {}; {}", loaded.error().what,
              recording_ ? "the old configuration stays in force" : "nothing is recorded");
    if (!recording_) {
      error_ = loaded.error();
      notify_state();
    }
  }
  if (auto answered = answer_reloads(client, loaded, read.reloads); !answered) return answered;
  return answer_attaches(client);
}

// False: it is the one before.
bool Service::note_failure(const Error& error) {
  if (error.what == error_.what) return false;
  log::error("{}", error.what);
  error_ = error;
  return true;
}

Result<void> Service::answer_reloads(int client, const Result<bool>& changed, int times) {
  if (times == 0 || client < 0) return {};
  // Before the reply, so that the client knows the change when its reload is done.
  if (changed && *changed) {
    client_is_current_ = false;
    if (auto sent = send(client, header(Request::changed), {}, {}); !sent) return sent;
  }
  for (; times > 0; --times) {
    auto sent = changed ? send(client, header(Request::reload), {}, {})
                        : refuse(client, static_cast<std::uint8_t>(Request::reload), changed.error());
    if (!sent) return sent;
  }
  return {};
}

Result<void> Service::answer_attaches(int client) {
  for (int asked = reloads_.take_attaches(); asked > 0 && client >= 0; --asked) {
    auto sent = recording_ ? attach(client) : refuse(client, static_cast<std::uint8_t>(Request::attach), error_);
    if (!sent) return sent;
  }
  return {};
}

}  // namespace flight::broker
