// SPDX-License-Identifier: Apache-2.0
// Answers a client's requests for the modules and symbols of the kernel with what KernelWatch has read. All requests
// that have come when an answer is there get it. Kallsyms is sent with the first of these replies, unless the client
// has the same already; in the others it is unchanged.
//
// KernelWatch gets one request at a time, and at most one every Document::kNewEvery. What the client has is known until
// it leaves. Main thread only; only wait_for_first() waits.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "daemon/broker/document.hpp"
#include "daemon/broker/kernel/kernel_watch.hpp"
#include "libcore/base/result.hpp"

namespace flight::broker {

class KernelAnswers {
 public:
  explicit KernelAnswers(KernelWatch watch);

  // As the functions of KernelWatch.
  void wait_for_first(std::chrono::milliseconds limit) { watch_.wait_for_first(limit); }
  void suspect() { watch_.suspect(); }

  // A request; next() will have its reply.
  void ask() { ++asked_; }
  struct Reply {
    Result<int> document;  // of encode(KernelNames)
    int kallsyms = -1;     // -1: it is not sent
  };
  // The reply to one request; its descriptors are valid until the next call. Call it until there is none, after
  // KernelWatch's `wake` was called, and at least every look_every().
  [[nodiscard]] std::optional<Reply> next();
  // The client has left, and its requests with it.
  void forget();
  [[nodiscard]] std::chrono::milliseconds look_every() const;

 private:
  using Clock = std::chrono::steady_clock;
  void follow_watch();

  KernelWatch watch_;
  Document document_{"flightd-kernel"};
  std::string client_kallsyms_;  // the digest of the kallsyms that this client has; empty: none
  int asked_ = 0;
  bool is_wanted_ = false;                             // KernelWatch has a request
  Clock::time_point wanted_;                           // when it got the last one
  std::optional<Result<KernelWatch::Answer>> answer_;  // while it is sent
};

}  // namespace flight::broker
