// SPDX-License-Identifier: Apache-2.0
// Another configuration without a restart: flightd reads its own again and checks it whole; then the broker reads its
// own again; only when both found it good is anything changed, so a bad one changes nothing on either side. Files are
// read on a thread of its own. Event loop only, `done` too.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <vector>

#include "daemon/recorder_thread.hpp"
#include "libcore/config/config.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/control/config_report.hpp"
#include "libcore/control/messages.hpp"

namespace flight {

class Reloader {
 public:
  using Done = std::function<void(const CallResult<ReloadReport>&)>;

  // `config_file`: of --config; empty: the folders. `config`: what is in force. Lives longer than `recorder`'s threads:
  // they answer to it.
  Reloader(boost::asio::io_context& loop, RecorderThread& recorder, std::string config_file, Config config)
      : loop_(loop), recorder_(recorder), config_file_(std::move(config_file)), config_(std::move(config)) {}
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;
  ~Reloader() { reading_.join(); }

  // As the constructor's `config_file`; checked as far as one can without the broker's privilege. Any thread; waits for
  // the disk.
  [[nodiscard]] static ConfigResult<Config> load(const std::string& config_file);

  // Called with each new configuration before anybody is answered; it cannot say no.
  void on_config(std::function<void(const Config&)> told) { told_ = std::move(told); }
  // Who asks while one is under way shares the next: what he wrote before he asked is in it.
  void reload(Done done);

  [[nodiscard]] const Config& config() const { return config_; }  // in force
  // What of it holds only after a restart, and where the broker's differs.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] ConfigReport report() const;

 private:
  static constexpr int kMaxReads = 3;  // where the files change under both of us
  void begin();
  void read();
  void take(ConfigResult<Config> config);
  void ask_broker();
  void answered(const Result<bool>& changed);
  [[nodiscard]] CallError refused_by_broker(const std::string& what) const;
  void put_in_force(bool changed);
  void finish(const CallResult<ReloadReport>& outcome);

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  std::string config_file_;
  Config config_, next_;
  std::vector<std::string> warnings_;
  std::function<void(const Config&)> told_ = [](const Config&) {};
  std::vector<Done> waiting_, asked_;  // for the next one, and for the one under way
  bool busy_ = false, broker_done_ = false, changed_ = false;
  int reads_ = 0;
  boost::asio::thread_pool reading_{1};
};

}  // namespace flight
