// SPDX-License-Identifier: Apache-2.0
// Decides when flightd-broker reads its configuration, and which requests a reading answers:
//
//   reload   a reading that begins after the request: one that has begun may have read the old text. Reloads that come
//            while such a reading is under way share the next one.
//   attach   while nothing is recorded: the reading under way, if there is one and it is not late
//   none     after keep_trying(): a reading 1, 2, 5, and then every 10 s after the last attempt
//
// A reading for a reload that takes longer than kReloadWithin is dropped, and the reload gets the reason. Any other
// reading goes on, however long it takes; attempts during it look whether what it waits for was replaced. Main thread
// only; only read_at_start() waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "libcore/config/config_reader.hpp"
#include "libcore/config/parse.hpp"

namespace flight::broker {

class ReloadQueue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ReloadQueue(std::unique_ptr<ConfigReader> reader);

  // As ConfigReader::read(), before there are requests. A reading that is late goes on, for take().
  [[nodiscard]] ConfigResult<Config> read_at_start(std::chrono::milliseconds patience, int stop_fd);
  // From now on, try_again() begins readings.
  void keep_trying(Clock::time_point now);
  // Call it while nothing is recorded. `is_requested`: somebody waits for it. Not more than once a second: each attempt
  // opens events on every CPU.
  void try_again(bool is_requested, Clock::time_point now);
  // An attempt to record, or a reload, has ended.
  void note_attempt(Clock::time_point now) { tried_ = now; }

  // A request. True: its reading has begun. False: it waits for the next one.
  [[nodiscard]] bool add_reload();
  // A request without a recording. False: there is no reading that can end soon, so the request does not wait.
  [[nodiscard]] bool add_attach();
  // The client has left, and its requests with it. A reading that only its reload needed is dropped; a broker that does
  // not record still needs it.
  void forget(bool is_recording);

  struct Reading {
    ConfigResult<Config> config;
    int reloads = 0;  // the requests that it answers
  };
  // A reading that has ended. Call it until there is none: it also begins the reading for the reloads that wait.
  [[nodiscard]] std::optional<Reading> take();
  // Why the reading under way has no result yet; nullopt: it is not late, or it is for a reload.
  [[nodiscard]] std::optional<ConfigError> silence() const;
  // The number of attaches that wait. They do not wait any more.
  [[nodiscard]] int take_attaches();

  // When it is readable, call take(); -1: no reading is under way.
  [[nodiscard]] int fd() const { return reader_->fd(); }
  // Whether take() and silence() are to be called every kLookEvery.
  [[nodiscard]] bool is_awaited() const;
  static constexpr std::chrono::milliseconds kLookEvery{50};
  // flightd has just read its own configuration.
  static constexpr std::chrono::seconds kReloadWithin{3};

 private:
  std::unique_ptr<ConfigReader> reader_;
  int reloads_ = 0, next_reloads_ = 0;  // that wait for the reading under way, and for the next one
  int attaches_ = 0;
  bool keeps_trying_ = false;
  std::size_t tries_ = 0;
  Clock::time_point tried_;
};

}  // namespace flight::broker
