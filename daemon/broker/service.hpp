// SPDX-License-Identifier: Apache-2.0
// Answers the requests of one client at a time. It holds the recording for the life of the process. When a client
// disconnects, paused rings are resumed and disabled events are enabled. After a failed start each reply contains the
// reason, until a reload or, with keep_trying(), a later attempt succeeds.
//
// Nothing waits for a reply that is not ready: ReloadQueue, ScanAnswers and KernelAnswers know which requests wait for
// what, and this class sends what they have ready. Main thread only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/broker/blocking_threads.hpp"
#include "daemon/broker/cpu_watch.hpp"
#include "daemon/broker/document.hpp"
#include "daemon/broker/fd_store.hpp"
#include "daemon/broker/file_thread.hpp"
#include "daemon/broker/files/file_watch.hpp"
#include "daemon/broker/helpers/helpers.hpp"
#include "daemon/broker/helpers/reading.hpp"
#include "daemon/broker/kernel/kernel_answers.hpp"
#include "daemon/broker/kernel/kernel_watch.hpp"
#include "daemon/broker/listener.hpp"
#include "daemon/broker/options.hpp"
#include "daemon/broker/reload_queue.hpp"
#include "daemon/broker/scan/scan.hpp"
#include "daemon/broker/scan/scan_answers.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/perf/event_spec.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight::broker {

enum class Ended { client_left, was_stopped };

// Threads for calls that can block, made at start so that no later step needs a new one. If a thread hangs, they
// outlive the service.
struct ServiceThreads {
  BlockingThreads readers, scanners, makers, kernel;
  Helpers helpers;  // `readers` wait for their replies
  // EAGAIN if not all of them can be made.
  [[nodiscard]] static Result<ServiceThreads> start(Helpers helpers);
};

class Service {
 public:
  // Loads the configuration and adopts what `store` has of it, or opens everything; the result is in start_error().
  // Waits for the configuration for `patience`, or until `stop_fd` becomes readable.
  [[nodiscard]] static Service start(BrokerOptions options, EventSources sources, FdStore store, ServiceThreads threads,
                                     std::unique_ptr<SpareDescriptors> spare, std::chrono::milliseconds patience,
                                     int stop_fd);

  // Serves until the client disconnects or misbehaves, or `stop_fd` (a signalfd) becomes readable. Resumes every ring
  // at the end. A second client at `listener` (nullptr: none) gets EBUSY.
  [[nodiscard]] Ended serve(int client, int stop_fd, Listener* listener);
  // What serve() does between requests, for use without a client. Call it when watch_fd(), wake_fd() or config_fd() is
  // readable, and at least every look_every().
  void look() { static_cast<void>(look(-1)); }
  [[nodiscard]] std::chrono::milliseconds look_every() const;
  [[nodiscard]] int wake_fd() const { return readers_->wake_fd(); }
  // Watch it as well: -1 if no configuration is being read.
  [[nodiscard]] int config_fd() const { return reloads_.fd(); }
  // Updates `systemctl status`.
  void notify_state() const;
  [[nodiscard]] int watch_fd() const { return watch_.fd(); }
  // nullptr: it is recording.
  [[nodiscard]] const Error* start_error() const { return recording_ ? nullptr : &error_; }
  // From now on, look() and *attach* try to record again after 1, 2 and 5 s, and then every 10 s.
  void keep_trying() { reloads_.keep_trying(Clock::now()); }
  // Whether the last failure was in the configuration, before any event was opened.
  [[nodiscard]] bool bad_config() const { return bad_config_; }

 private:
  Service(BrokerOptions options, EventSources sources, FdStore store, ServiceThreads threads,
          std::unique_ptr<SpareDescriptors> spare)
      : options_(std::move(options)),
        sources_(std::move(sources)),
        store_(std::move(store)),
        spare_(std::move(spare)),
        watch_(CpuWatch::open()),
        readers_(std::make_unique<BlockingThreads>(std::move(threads.readers))),
        makers_(std::make_unique<BlockingThreads>(std::move(threads.makers))),
        helpers_(std::move(threads.helpers)),
        files_(std::make_unique<FileWatch>(*readers_, files_reader(helpers_))),
        kernel_(KernelWatch(std::move(threads.kernel), readers_->waker())),
        scans_(std::move(threads.scanners), readers_->waker(), *files_),
        reloads_(std::make_unique<ConfigReader>(options_.config, config_child_command())) {}

  // Each sends its reply; a returned error is an error of the connection.
  [[nodiscard]] Result<void> answer(int client, std::uint8_t request);
  [[nodiscard]] Result<void> attach(int client);
  [[nodiscard]] Result<void> processes(int client);
  [[nodiscard]] Result<void> build_ids(int client);
  [[nodiscard]] Result<void> kernel(int client);
  [[nodiscard]] Result<void> counts(int client);
  [[nodiscard]] Result<void> file(int client, Request request);
  [[nodiscard]] Result<void> reload(int client);
  [[nodiscard]] Result<void> enable(int client, bool on);

  [[nodiscard]] Result<void> look(int client);
  // Answers the requests that wait for the configuration, when it is there.
  [[nodiscard]] Result<void> follow_config(int client);
  [[nodiscard]] Result<void> take_config(int client, ReloadQueue::Reading read);
  [[nodiscard]] Result<void> answer_reloads(int client, const Result<bool>& changed, int times);
  [[nodiscard]] Result<void> answer_attaches(int client);
  bool note_failure(const Error& error);
  [[nodiscard]] Result<void> follow_cpus(int client);
  [[nodiscard]] Result<void> follow_delivery(int client);
  // Sends the scans and build-ids that were requested and are ready.
  [[nodiscard]] Result<void> follow_scan(int client);
  [[nodiscard]] Result<void> follow_files(int client);
  void follow_rings();
  [[nodiscard]] Result<void> follow_kernel(int client);
  [[nodiscard]] Result<void> follow_counts(int client);
  [[nodiscard]] Result<void> send_kernel(int client, const KernelAnswers::Reply& reply) const;
  [[nodiscard]] Result<void> send_scan(int client, const Result<ScanAnswer>& scan, int times) const;
  // The same document to each of `times` requests.
  [[nodiscard]] Result<void> send_document(int client, Request request, const Result<int>& memfd, int times,
                                           std::string_view text = {}) const;
  // Sent at most once per attach.
  [[nodiscard]] Result<void> notify_changed(int client);
  // Waits for a client that does not read, but not on when SIGTERM comes: ECANCELED.
  [[nodiscard]] Result<void> send(int client, const ReplyHeader& reply, std::string_view text,
                                  std::span<const int> fds) const;
  [[nodiscard]] Result<void> refuse(int client, std::uint8_t request, const Error& error) const;
  [[nodiscard]] ReplyHeader header(Request request) const;
  // Opens the rings, or reopens those that changed; true if the set of rings changed.
  [[nodiscard]] Result<bool> load(ConfigResult<Config> config);
  [[nodiscard]] Result<bool> load_now(ConfigResult<Config> config);
  [[nodiscard]] Result<void> open_or_adopt(const Config& config);
  // Call it after each change of the rings or the configuration: stores them for the next broker and updates
  // `systemctl status`.
  void keep();

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBuildIdsWait{150};
  static constexpr std::chrono::seconds kSpareAfter{3};

  BrokerOptions options_;
  EventSources sources_;
  FdStore store_;
  std::unique_ptr<SpareDescriptors> spare_;  // their numbers are given back while requests come
  Clock::time_point requested_;
  CpuWatch watch_;
  std::optional<Recording> recording_;
  std::unique_ptr<BlockingThreads> readers_, makers_;
  Helpers helpers_;
  bool helpers_gone_ = false;  // it has been said
  std::unique_ptr<FileWatch> files_;
  KernelAnswers kernel_;
  ScanAnswers scans_;
  std::size_t scan_bytes_ = 0;   // the limit of a scan by the configuration's memory.max
  bool sideband_is_new_ = true;  // nothing was recorded before files_ looked into it
  int build_ids_asked_ = 0;
  Clock::time_point build_ids_until_;
  int counts_asked_ = 0;
  Clock::time_point counts_made_, delivery_looked_;
  Document manifest_{"flightd-manifest"}, counts_{"flightd-counts"};
  int client_ = -1;                 // the current client's socket
  int stop_fd_ = -1;                // while it is served
  bool client_is_current_ = false;  // it has attached to the current set of rings
  bool disabled_ = false;           // by this client
  bool bad_config_ = false;
  std::string keep_warning_;  // why the next broker could not adopt the recording
  std::string stat_trouble_;  // why /proc/stat is not read, as it was logged
  Error error_;               // why there is no recording
  ReloadQueue reloads_;
};

}  // namespace flight::broker
