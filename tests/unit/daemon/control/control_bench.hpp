// SPDX-License-Identifier: Apache-2.0
// The real control server on its own thread, on a real socket, with a small backend that keeps its snapshots in
// memory. For the tests of the server and of flightctl.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "daemon/control/server.hpp"
#include "daemon/notify/monitor_clients.hpp"
#include "libcore/base/data_folder.hpp"
#include "libcore/control/config_report.hpp"
#include "libcore/store/pieces.hpp"

namespace flight::test {

using namespace daemon;

// A snapshot takes `snapshot_takes`, with a progress reply after each fifth of it. `sidecar_of` makes its object.
class MemoryBackend : public ControlBackend {
 public:
  explicit MemoryBackend(boost::asio::io_context& io) : io_(io) {}

  void get_status(Done done) override {
    Status status = status_to_report;
    status.snapshots = snapshots_.size();
    done(to_json(status));
  }

  void take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) override {
    ++begun;
    last_caller = caller;
    if (refuse_snapshots) return done(tl::unexpected(*refuse_snapshots));
    step(0, std::make_shared<boost::asio::steady_timer>(io_), std::move(parameters), std::move(progress),
         std::move(done));
  }

  // A step every 20 ms until StopRecording; without a follower it ends at once.
  void record(const Caller& caller, RecordParameters parameters, Follower follower, Done done) override {
    last_caller = caller;
    last_record = std::move(parameters);
    if (refuse_recording) return done(tl::unexpected(*refuse_recording));
    if (!follower.step) return done(to_json(result_to_report));
    recorded_ = std::move(done);
    follower_ = std::move(follower);
    follower_.step(result_to_report.id, std::nullopt);
    step_of_recording(std::make_shared<boost::asio::steady_timer>(io_));
  }

  void stop_recording(std::string id, Done done) override {
    ++stops_asked;
    if (!answer_stops) return;
    if (!recorded_ || id != result_to_report.id) return done(tl::unexpected(no_such_recording(id, "none such")));
    end_recording();
    done(to_json(result_to_report));
  }

  void list_snapshots(Done done) override {
    ++lists;
    done(rows_to_report);
  }

  void describe_snapshot(std::string id, Done done) override {
    if (id == "latest" && !snapshots_.empty()) return done(snapshots_.rbegin()->second);
    const auto found = snapshots_.find(id);
    if (found == snapshots_.end()) return done(tl::unexpected(no_such_snapshot(id)));
    done(found->second);
  }

  void remove_snapshot(std::string id, Done done) override {
    if (snapshots_.erase(id) == 0) return done(tl::unexpected(no_such_snapshot(id)));
    done("{}");
  }

  void pin_snapshot(std::string id, bool pinned, Done done) override {
    if (!snapshots_.contains(id)) return done(tl::unexpected(no_such_snapshot(id)));
    if (pinned)
      pins.insert(id);
    else
      pins.erase(id);
    done("{}");
  }

  void set_recording(const Caller& caller, bool recording, Done done) override {
    last_caller = caller;
    events.publish({.event = std::string(recording ? kRecordingResumed : kRecordingPaused)});
    done("{}");
  }

  void reload(const Caller& caller, Done done) override {
    last_caller = caller;
    if (refuse_reload) return done(tl::unexpected(*refuse_reload));
    done(to_json(reload_to_report));
  }

  void get_config(Done done) override { done(to_json(config_to_report)); }

  void read_snapshot(std::string id, SnapshotFile what, Opened opened) override {
    const std::string& path = what == SnapshotFile::kallsyms ? kallsyms_to_read : file_to_read;
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found {};
    if (!file || ::fstat(file.get(), &found) != 0 || id == "99") return opened(tl::unexpected(no_such_snapshot(id)));
    if (S_ISDIR(found.st_mode)) return opened(as_tar(path));
    const auto own = names_of_ids.find(id);
    opened(OpenSnapshot{std::move(file), own == names_of_ids.end() ? name_to_read : own->second,
                        static_cast<std::uint64_t>(found.st_size) + bytes_too_many});
  }

  void list_triggers(Done done) override {
    done(to_json(std::vector<ListedTrigger>{
        {.name = "probe", .kind = "external", .condition = "", .state = "armed", .note = trigger_note}}));
  }

  // The only trigger is "probe".
  void fire_trigger(const Caller& caller, FireParameters parameters, Done done) override {
    last_caller = caller;
    last_fire = parameters;
    if (parameters.name != "probe") return done(tl::unexpected(no_such_trigger(parameters.name, "none such")));
    done("7");
  }

  void set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) override {
    last_caller = caller;
    if (parameters.name != "probe") return done(tl::unexpected(no_such_trigger(parameters.name, "none such")));
    probe_enabled = parameters.enabled;
    done("{}");
  }

  void vacuum(bool dry_run, Progress progress, Done done) override {
    if (!dry_run) ++vacuums;
    progress("deleting", 50);
    done(vacuum_reply(vacuumed_to_report, 4096, vacuum_warnings));
  }

  void monitor(Listener listener) override {
    events.add(std::move(listener), {.event = std::string(kMonitoring), .recording = true});
    ++listeners;
  }

  // Set it before the server runs, or read it after the server has stopped.
  std::string kallsyms_to_read;
  std::string vacuumed_to_report = "[]";
  std::vector<std::string> vacuum_warnings;
  std::string trigger_note;
  std::atomic<int> vacuums = 0;
  std::string file_to_read, name_to_read = "flight-web3-20261120T031204.123Z-manual-1.perf.data";
  std::map<std::string, std::string> names_of_ids;  // of those that differ from name_to_read
  std::uint64_t bytes_too_many = 0;                 // bytes that are announced for the file but do not exist
  std::set<std::string> pins;
  FireParameters last_fire;
  bool probe_enabled = true;
  MonitorClients events;
  std::atomic<int> listeners = 0;
  std::chrono::milliseconds snapshot_takes{0};
  std::function<std::string(const std::string& id, const SnapshotParameters&)> sidecar_of =
      [](const std::string& id, const SnapshotParameters& parameters) {
        return fmt::format(R"({{"id":"{}","path":"/nowhere","trigger":"manual","reason":"{}"}})", id,
                           parameters.reason);
      };
  std::optional<CallError> refuse_snapshots, refuse_reload;
  ReloadReport reload_to_report{.digest = "0123456789abcdef", .changed = true, .changes = {}, .warnings = {"careful"}};
  ConfigReport config_to_report{.values = {{"store.max_files", "7", "/etc/flightd/flightd.json", 3}},
                                .memory = {.ring_bytes = 1U << 20U, .max_bytes = 4U << 20U},
                                .digest = "d"};
  std::string rows_to_report = "[]";
  RecordParameters last_record;
  RecordResult result_to_report{.id = "7",
                                .ended = "asked",
                                .progress = {.seconds = 2, .bytes = 4096, .events = 20, .parts = 1, .finished = {"7"}},
                                .paths = {"/nowhere"},
                                .warnings = {}};
  RecordProgress progress_to_report{.seconds = 1.5, .bytes = 2048, .events = 10, .parts = 1, .finished = {}};
  std::optional<CallError> refuse_recording;
  std::atomic<int> record_steps = 0, stops_asked = 0, lists = 0;
  std::atomic<bool> answer_stops = true;  // StopRecording
  std::atomic<bool> client_left = false;  // in the middle of a recording
  Status status_to_report;
  Caller last_caller;
  std::atomic<int> begun = 0, finished = 0;

 private:
  // As the store does it.
  [[nodiscard]] CallResult<OpenSnapshot> as_tar(const std::string& path) const {
    const auto folder = DataFolder::open_at(AT_FDCWD, path, path);
    const auto name = parse_snapshot_name(name_to_read);
    if (!folder || !name) return tl::unexpected(no_such_snapshot("1"));
    auto tar = tar_of(*folder, *name);
    if (!tar) return tl::unexpected(no_such_snapshot("1"));
    const std::uint64_t bytes = tar->bytes() + bytes_too_many;
    return OpenSnapshot{UniqueFd(), name_to_read + std::string(kTarSuffix), bytes, std::move(*tar)};
  }

  void step(int number, std::shared_ptr<boost::asio::steady_timer> timer, SnapshotParameters parameters,
            Progress progress, Done done) {
    if (number == 5) {
      const std::string id = std::to_string(snapshots_.size() + 1);
      snapshots_[id] = sidecar_of(id, parameters);
      ++finished;
      return done(snapshots_[id]);
    }
    progress("writing", static_cast<unsigned>(number) * 20);
    timer->expires_after(snapshot_takes / 5);
    timer->async_wait(
        [=, this](const boost::system::error_code&) { step(number + 1, timer, parameters, progress, done); });
  }

  void step_of_recording(const std::shared_ptr<boost::asio::steady_timer>& timer) {
    timer->expires_after(std::chrono::milliseconds(20));
    timer->async_wait([this, timer](const boost::system::error_code&) {
      if (!recorded_) return;
      if (follower_.client.expired()) {
        client_left = true;
        return end_recording();
      }
      follower_.step(result_to_report.id, progress_to_report);
      ++record_steps;
      step_of_recording(timer);
    });
  }
  void end_recording() {
    if (const Done done = std::exchange(recorded_, nullptr)) done(to_json(result_to_report));
  }

  boost::asio::io_context& io_;
  std::map<std::string, std::string> snapshots_;
  Done recorded_;
  Follower follower_;
};

// Start it with run(); settings must be made before.
class ControlBench {
 public:
  ControlBench() {
    std::string pattern = (std::filesystem::temp_directory_path() / "flightd-control-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  }
  ~ControlBench() {
    if (thread_.joinable()) {
      boost::asio::post(io_, [this] {
        server_.reset();
        io_.stop();
      });
      thread_.join();
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ControlBench(const ControlBench&) = delete;
  ControlBench& operator=(const ControlBench&) = delete;

  // The user who runs the test may call all methods.
  Result<void> run(ControlLimits limits = {}, ControlAccess access = {},
                   const WaitingClock& clock = WaitingClock::monotonic()) {
    if (!access.own_uid) access.own_uid = ::geteuid();
    auto server = ControlServer::open(io_, socket(), backend, access, limits, clock);
    if (!server) return propagate(server.error());
    server_ = std::move(*server);
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  // Call before run(). Replaces the data file by a pipe, so that reads hang like those of a dead disk while the other
  // end is open.
  [[nodiscard]] UniqueFd hang_reads() {
    backend.file_to_read = folder_ + "/pipe";
    backend.bytes_too_many = 4;
    EXPECT_EQ(::mkfifo(backend.file_to_read.c_str(), 0600), 0);
    return UniqueFd(::open(backend.file_to_read.c_str(), O_RDWR | O_CLOEXEC));
  }

  // Runs `what` on the loop and waits for its value.
  template <typename What>
  auto on_loop(What what) {
    std::promise<decltype(what())> promise;
    boost::asio::post(io_, [&] { promise.set_value(what()); });
    return promise.get_future().get();
  }
  std::size_t connections() {
    return on_loop([this] { return server_->connections(); });
  }
  std::uint64_t refused_connections() {
    return on_loop([this] { return server_->refused_connections(); });
  }
  // Does what ~ControlServer does while calls are running.
  void destroy_server() {
    on_loop([this] {
      server_.reset();
      return 0;
    });
  }
  // stop(), and waits until all connections are gone.
  bool stop(std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    auto closed = std::make_shared<std::promise<void>>();
    boost::asio::post(io_, [this, closed] { server_->stop([closed] { closed->set_value(); }); });
    return closed->get_future().wait_for(patience) == std::future_status::ready;
  }

  [[nodiscard]] std::string folder() const { return folder_; }
  [[nodiscard]] std::string socket() const { return folder_ + "/io.flightd.Recorder"; }

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};

 public:
  MemoryBackend backend{io_};

 private:
  std::string folder_;
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

}  // namespace flight::test
