// SPDX-License-Identifier: Apache-2.0
// Reload without a restart: flightd reads and checks its configuration, then the broker does. Only if both accept it
// does anything change. Another process reads the files, and a thread waits for it. Event loop only, `done` too.
#pragma once

#include <sys/eventfd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/attached.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "libcore/base/task_thread.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/config/config.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/control/config_report.hpp"
#include "libcore/control/messages.hpp"

namespace flight::daemon {

class Reloader {
 public:
  using Done = std::function<void(const CallResult<ReloadReport>&)>;
  using FindDue = std::function<void(std::function<void(std::string)>)>;

  // `reader`: used on `reading` from now on. `config`: the configuration in force. `on_config` is
  // called with each new configuration before any caller is answered; it cannot refuse it. `on_no_broker`: a reload
  // found no broker that records. `find_due`: called after `on_config` if a limit of the store changed, with a function
  // that takes what the store will delete, for people, or nothing; empty: not needed. `says_so_after`: then those who
  // asked get the answer that the broker has not answered yet. This object must outlive `recorder`'s threads: they call
  // it.
  Reloader(boost::asio::io_context& loop, RecorderThread& recorder, EventHub& events,
           std::shared_ptr<ConfigReader> reader, Config config, std::unique_ptr<TaskThread> reading,
           std::function<void(const Config&)> on_config, std::function<void()> on_no_broker, FindDue find_due = {},
           std::chrono::milliseconds says_so_after = kSaysSoAfter)
      : loop_(loop),
        recorder_(recorder),
        events_(events),
        reader_(std::move(reader)),
        config_(std::move(config)),
        on_config_(std::move(on_config)),
        on_no_broker_(std::move(on_no_broker)),
        find_due_(std::move(find_due)),
        says_so_after_(says_so_after),
        reading_(std::move(reading)) {
    warnings_ = unread_warnings(config_);
  }
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;
  ~Reloader();

  // Checked as far as possible without the broker's privileges. `patience`, `stop_fd`: as ConfigReader::read().
  [[nodiscard]] static ConfigResult<Config> load(ConfigReader& reader, std::chrono::milliseconds patience,
                                                 int stop_fd = -1);

  // `who`: the requester for the log, a person with flightctl or "SIGHUP". A call during a reload gets the next
  // reload, which includes everything that was written before the call.
  void reload(const std::string& who, Done done);
  // flightd ends: a reload that waits for a disk is given up.
  void stop();

  [[nodiscard]] const Config& config() const { return config_; }  // the configuration in force
  // Files that are not read, settings that take effect only after a restart, and where the broker's configuration
  // differs.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] ConfigReport report() const;

 private:
  static constexpr int kMaxReads = 3;  // if the files change while both processes read them
  static constexpr std::chrono::seconds kReadWithin{5};
  // A broker with hundreds of CPUs closes and opens thousands of events, and each close waits for the kernel (RCU).
  static constexpr std::chrono::seconds kSaysSoAfter{20};
  static constexpr std::chrono::milliseconds kLastWait{400};  // for the broker's answer when flightd ends
  [[nodiscard]] static CallError stopped();
  void wake_reading() const;
  void begin();
  void read();
  void take(ConfigResult<Config> config);
  void ask_broker();
  void say_that_it_is_late();
  void answered(const Result<bool>& changed);
  [[nodiscard]] CallError refused_by_broker(const std::string& what) const;
  void put_in_force(bool changed);
  void note_rings();
  [[nodiscard]] std::vector<std::string> lost_history() const;
  void notify(std::string text);
  void finish(const CallResult<ReloadReport>& outcome);
  void report_to_all(const std::string& who, const CallResult<ReloadReport>& outcome);
  struct Asked {
    std::string who;
    Done done;  // empty: it was answered before the end
  };
  void answer(const std::vector<Asked>& all, const CallResult<ReloadReport>& outcome);

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  EventHub& events_;
  std::shared_ptr<ConfigReader> reader_;
  const std::string config_file_ = reader_->file();
  const UniqueFd stop_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // wakes a reading
  Config config_, next_;
  std::vector<std::string> warnings_;
  // When the reload began: each ring with its channel.
  std::vector<std::pair<std::weak_ptr<const Ring>, std::string>> rings_before_;
  std::function<void(const Config&)> on_config_;
  std::function<void()> on_no_broker_;
  FindDue find_due_;
  const std::chrono::milliseconds says_so_after_;
  std::vector<Asked> waiting_, asked_;  // for the next reload, and for the running one
  bool busy_ = false, broker_done_ = false, changed_ = false, stopping_ = false;
  int reads_ = 0;
  boost::asio::steady_timer last_wait_{loop_}, late_{loop_};
  std::unique_ptr<TaskThread> reading_;
};

}  // namespace flight::daemon
