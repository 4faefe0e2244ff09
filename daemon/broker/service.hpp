// SPDX-License-Identifier: Apache-2.0
// Answers one client at a time. It holds the recording for as long as the process lives; a client comes and goes, and
// what it left paused is resumed, what it left disabled is enabled. Where the start failed, each answer says why, until
// a reload mends it.
#pragma once

#include <optional>
#include <string>

#include "daemon/broker/cpu_watch.hpp"
#include "daemon/broker/fd_store.hpp"
#include "daemon/broker/listener.hpp"
#include "daemon/broker/options.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/perf/event_spec.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight {

enum class Ended { client_left, told_to };

class Service {
 public:
  // Loads the configuration and takes back what `store` has of it, or opens everything; the outcome is in
  // start_error().
  [[nodiscard]] static Service start(BrokerOptions options, EventSources sources, FdStore store);

  // Until the client leaves (or misbehaves), or `stop_fd` (a signalfd) becomes readable. Every ring is resumed at the
  // end. Who knocks at `listener` (nullptr: there is none) meanwhile is turned away with EBUSY.
  [[nodiscard]] Ended serve(int client, int stop_fd, const Listener* listener);
  // For whoever waits for a client: what serve() does meanwhile. To be called when watch_fd() is readable, and at least
  // every kWatchEvery.
  void follow_cpus() { static_cast<void>(follow_cpus(-1)); }
  // For `systemctl status`; whenever it is another.
  void tell_state() const;
  [[nodiscard]] int watch_fd() const { return watch_.fd(); }
  // nullptr: it records.
  [[nodiscard]] const Error* start_error() const { return recording_ ? nullptr : &error_; }
  // Whether the configuration was what failed last, before any event was looked at.
  [[nodiscard]] bool bad_config() const { return bad_config_; }

 private:
  Service(BrokerOptions options, EventSources sources, FdStore store)
      : options_(std::move(options)),
        sources_(std::move(sources)),
        store_(std::move(store)),
        watch_(CpuWatch::open()) {}

  // Each sends its answer; an error of theirs is one of the connection.
  [[nodiscard]] Result<void> answer(int client, std::uint8_t request);
  [[nodiscard]] Result<void> attach(int client);
  [[nodiscard]] Result<void> processes(int client);
  [[nodiscard]] Result<void> counts(int client);
  [[nodiscard]] Result<void> file(int client, Request request);
  [[nodiscard]] Result<void> reload(int client);
  [[nodiscard]] Result<void> enable(int client, bool on);

  [[nodiscard]] Result<void> follow_cpus(int client);
  // Once for each attach: one that does not attach again is not told again.
  [[nodiscard]] Result<void> tell_changed(int client);
  [[nodiscard]] Result<void> refuse(int client, std::uint8_t request, const Error& error) const;
  [[nodiscard]] Result<void> reply(int client, Request request, std::span<const std::byte> document,
                                   const char* name) const;
  [[nodiscard]] ReplyHeader header(Request request) const;
  // Opens, or reopens what changed; true where the set of rings is another now.
  [[nodiscard]] Result<bool> load();
  [[nodiscard]] Result<void> open_or_take_back(const Config& config);
  // After each change of the rings or the configuration: for the next broker, and for `systemctl status`.
  void keep();

  BrokerOptions options_;
  EventSources sources_;
  FdStore store_;
  CpuWatch watch_;
  std::optional<Recording> recording_;
  std::optional<RecordBuffer> first_scan_;  // what ran before anything was recorded; for the first that asks
  int client_ = -1;                         // the socket of the one that is served
  bool client_is_current_ = false;          // it has attached to this very set of rings
  bool disabled_ = false;                   // by this client
  bool bad_config_ = false;
  Error error_;  // why there is no recording
};

}  // namespace flight
