// SPDX-License-Identifier: Apache-2.0
// Pauses and resumes recording on request, and remembers the last request. Event loop only: the recorder thread and
// the broker do it, and the result is posted to the loop. The triggers are switched, and clients notified, only after
// it has succeeded.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>

#include "daemon/control/backend.hpp"
#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recorder/trigger_thread.hpp"

namespace flight::daemon {

class RecordingSwitch {
 public:
  RecordingSwitch(boost::asio::io_context& loop, RecorderThread& recorder, TriggerThread& triggers, EventHub& events,
                  std::chrono::milliseconds says_so_after = kSaysSoAfter)
      : loop_(loop), recorder_(recorder), triggers_(triggers), events_(events), says_so_after_(says_so_after) {}
  RecordingSwitch(const RecordingSwitch&) = delete;
  RecordingSwitch& operator=(const RecordingSwitch&) = delete;

  // `who`: for the log. The text is "{}"; WriteFailed: the broker could not do it, and nothing changed; with ETIMEDOUT:
  // it has not answered within `says_so_after`, and may still do it. `done` is called on the event loop.
  void set(bool recording, const std::string& who, ControlBackend::Done done);
  // The last request; each attach begins with true.
  [[nodiscard]] bool on() const { return on_; }

 private:
  static constexpr std::chrono::seconds kSaysSoAfter{8};
  struct Asked;
  void switched(bool recording, const std::string& who);

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  TriggerThread& triggers_;
  EventHub& events_;
  const std::chrono::milliseconds says_so_after_;
  bool on_ = true;
};

}  // namespace flight::daemon
