// SPDX-License-Identifier: Apache-2.0
// The store's thread, the space that the store uses, and its budget. The control calls are in store_calls.cpp, the room
// for what is being written in store_room.cpp.
#include "daemon/store/store_service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/kallsyms_upkeep.hpp"
#include "daemon/store/sidecar_repair.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/leftovers.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMaxListed = 10;  // limit of ids in a line of the log

std::string never_syncs_text(const std::string& folder) {
  return fmt::format(
      "{} cannot be synced (its file system has no fsync): after a power failure the newest snapshots may be missing, "
      "or cut",
      folder);
}

}  // namespace

StoreService::StoreService(asio::io_context& loop, std::unique_ptr<TaskThread> thread, Setup setup,
                           std::function<void()> use_changed)
    : loop_(loop),
      use_changed_(std::move(use_changed)),
      hourly_(loop),
      again_(loop),
      save_again_(loop),
      times_(setup.times),
      take_(std::move(setup.take_state)),
      opened_late_(std::move(setup.opened_late)),
      moved_(std::move(setup.moved)),
      usable_(!take_),
      max_snapshot_bytes_(setup.config.max_snapshot_bytes),
      catalogue_(setup.folder),
      age_clock_(setup.state_dir, std::move(setup.boot_id)),
      budget_(
          std::move(setup.folder), setup.config, [this] { return writing_.load(); },
          [this] { return age_clock_.look(catalogue_); },
          [this](std::uint64_t seq) {
            const std::lock_guard lock(parts_mutex_);
            return parts_.contains(seq);
          },
          setup.state_dir, [this](Inventory& inventory) { name_symbols(inventory, catalogue_); }),
      trigger_state_(std::move(setup.state_dir), *thread, usable_,
                     [this] { asio::post(loop_, [this] { save_later(); }); }),
      thread_(std::move(thread)) {
  if (!usable_)
    trouble_ = sys_error(ETIMEDOUT, "{} has not answered since flightd started", trigger_state_.folder()).value();
  keep_budget_hourly();
}

StoreService::~StoreService() { thread_->join(); }

Result<std::string> StoreService::open(std::chrono::milliseconds most) {
  thread_->post([this] { static_cast<void>(take_state()); });
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, most, [this] { return first_answer_.has_value(); });
  starting_ = false;
  if (first_answer_ && *first_answer_) trigger_state_.allow();
  if (first_answer_ && (*first_answer_ || forbids_start(first_answer_->error()))) return std::move(*first_answer_);
  try_again();
  return std::string();
}

void StoreService::take_leftovers() {
  if (const std::size_t removed = catalogue_.remove_partials(); removed > 0)
    log::warn("removed {} of an earlier flightd from {}", counted(removed, "unfinished file"), folder());
  auto parts = catalogue_.parts();
  if (!parts || parts->empty()) return;
  log::warn("{} of recordings of an earlier flightd {} not finished: it was killed", counted(parts->size(), "part"),
            was_or_were(parts->size()));
  const std::lock_guard lock(mutex_);
  left_parts_ = std::move(*parts);
}

Result<void> StoreService::take_state() {
  if (usable_) return {};
  auto taken = take_();
  std::string saved;
  if (taken) {
    lock_ = std::move(taken->lock);
    held_.hold(folder());
    for (const std::string& warning : taken->warnings) log::warn("{}", warning);
    take_leftovers();
    saved = trigger_state_.read();
  }
  const std::lock_guard lock(mutex_);
  usable_ = taken.has_value();
  if (taken) state_warnings_ = std::move(taken->warnings);
  const bool news = taken || !trouble_ || trouble_->what != taken.error().what;
  trouble_ = taken ? std::nullopt : std::optional<Error>(taken.error());
  if (starting_) {
    first_answer_ = taken ? Result<std::string>(std::move(saved)) : Result<std::string>(propagate(taken.error()));
    answered_.notify_all();
  } else if (taken) {
    asio::post(loop_, [this, saved = std::move(saved)]() mutable {
      again_.cancel();
      trigger_state_.allow();
      opened_late_(std::move(saved));
      refresh_use();
    });
  } else if (news) {
    log::warn("{}; trying again", trouble_->what);
    asio::post(loop_, [this] { use_changed_(); });
  }
  if (!taken) return propagate(taken.error());
  thread_->post([this] { tidy(); });
  return {};
}

// At most one attempt waits for the disk.
void StoreService::try_again() {
  again_.expires_after(times_.take_again);
  again_.async_wait([this](const boost::system::error_code& error) {
    if (error || usable_) return;
    if (trying_.exchange(true)) return try_again();
    thread_->post([this] {
      static_cast<void>(take_state());
      trying_ = false;
    });
    try_again();
  });
}

void StoreService::save_later() {
  save_again_.expires_after(times_.save_again);
  save_again_.async_wait([this](const boost::system::error_code& error) {
    if (!error) trigger_state_.try_again();
  });
}

std::optional<Error> StoreService::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

std::string StoreService::trouble_text() const {
  const auto why = trouble();
  if (!why) return "";
  return fmt::format("degraded (disk): no snapshot can be written: {}{}; recording continues", why->what,
                     descriptor_advice(*why));
}

std::vector<std::string> StoreService::state_warnings() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out = state_warnings_;
  if (!moved_warning_.empty()) out.push_back(moved_warning_);
  if (never_syncs_) out.push_back(never_syncs_text(folder()));
  return out;
}

void StoreService::snapshot_synced(bool synced) {
  if (!never_syncs_.exchange(!synced) && !synced) log::warn("{}", never_syncs_text(folder()));
}

void StoreService::refresh_use() {
  if (use_asked_ns_ != 0) return;
  use_asked_ns_ = monotonic_now();
  thread_->post([this] {
    Use use{.usage = catalogue_.usage(), .max_bytes = budget_.max_use_bytes(), .warnings = budget_.warnings()};
    if (unsynced_) use.warnings.push_back(unsynced_text());
    if (std::string left = remove_left_files(); !left.empty()) use.warnings.push_back(std::move(left));
    asio::post(loop_, [this, use] {
      use_ = use;
      use_asked_ns_ = 0;
      for (const auto& [number, done] : std::exchange(waiting_, {})) done();
      use_changed_();
    });
  });
}

void StoreService::refresh_use(std::chrono::milliseconds most, std::function<void()> done) {
  const std::uint64_t number = ++waiting_number_;
  waiting_[number] = std::move(done);
  auto timer = std::make_shared<asio::steady_timer>(loop_, most);
  timer->async_wait([this, number, timer](const boost::system::error_code&) {
    if (const auto late = waiting_.extract(number)) late.mapped()();
  });
  refresh_use();
}

void StoreService::configure(const StoreConfig& config) {
  max_snapshot_bytes_ = config.max_snapshot_bytes;
  thread_->post([this, config] { budget_.use(config); });
}

void StoreService::find_due(std::chrono::milliseconds most, std::function<void(std::string)> done) {
  auto timer = std::make_shared<asio::steady_timer>(loop_, most);
  auto once = std::make_shared<std::function<void(std::string)>>(std::move(done));
  const auto give = [once](std::string text) {
    if (auto call = std::exchange(*once, {})) call(std::move(text));
  };
  timer->async_wait([give, timer](const boost::system::error_code&) { give(""); });
  thread_->post([this, give, timer] {
    std::string text = due_text();
    asio::post(loop_, [give, timer, text = std::move(text)] {
      timer->cancel();
      give(text);
    });
  });
}

std::string StoreService::due_text() {
  if (!usable_) return "";
  age_clock_.look();
  const VacuumOutcome due = budget_.vacuum({.dry_run = true, .assess = true});
  if (due.removed.empty()) return "";
  const std::size_t count = due.removed.size();
  return fmt::format(
      "{} ({}) {} over the limits of the store: the next snapshot, or the hourly check, will delete {}. To keep {}, "
      "pin "
      "{} or raise the limits again",
      counted(count, "snapshot"), format_bytes(due.freed_bytes), count == 1 ? "is" : "are", count == 1 ? "it" : "them",
      count == 1 ? "it" : "some", count == 1 ? "it" : "them");
}

void StoreService::keep_budget() {
  thread_->post([this] { vacuum_now(); });
}

void StoreService::vacuum_now() {
  if (!usable_) return;  // tidy() does it later
  age_clock_.look();
  VacuumOutcome outcome = budget_.vacuum({});
  note(outcome);
  if (unsynced_) sync_again();
  if (!outcome.removed.empty()) drop_unneeded_kallsyms(catalogue_);
  if (!outcome.removed.empty() || outcome.error) log_vacuumed(std::move(outcome));
}

void StoreService::tidy() {
  if (usable_) catalogue_.remove_left();
  static_cast<void>(remove_left_files());
  vacuum_now();
  if (usable_) give_sidecars(catalogue_, std::nullopt);
}

void StoreService::keep_budget_hourly() {
  thread_->post([this] { tidy(); });
  hourly_.expires_after(times_.vacuum_every);
  hourly_.async_wait([this](const boost::system::error_code& error) {
    if (!error) keep_budget_hourly();
  });
}

std::string StoreService::remove_left_files() {
  const auto left = remove_leftovers(folder());
  const bool said = std::exchange(left_files_said_, left.has_value());
  if (!left) return "";
  std::string text = fmt::format("degraded (disk): {}", left->what);
  if (!said) log::warn("{}", text);
  return text;
}

void StoreService::report(VacuumOutcome outcome) {
  note(outcome);
  if (!outcome.removed.empty()) drop_unneeded_kallsyms(catalogue_);  // they count for store.max_use
  if (!outcome.removed.empty() || outcome.error) log_vacuumed(std::move(outcome));
}

void StoreService::note(const Unsynced& unsynced) {
  const bool said = std::exchange(unsynced_, unsynced).has_value();
  if (unsynced_ && !said) log::warn("{}", unsynced_text());
}

void StoreService::note(const VacuumOutcome& outcome) {
  if (!outcome.removed.empty()) note(outcome.unsynced);
}

void StoreService::sync_again() {
  if (const auto store = Folder::open(folder())) note(store->sync());
}

std::string StoreService::unsynced_text() const {
  return fmt::format("degraded (disk): a power failure may undo the last changes in the store: {}", unsynced_->what);
}

void StoreService::log_vacuumed(VacuumOutcome outcome) {
  asio::post(loop_, [this, outcome = std::move(outcome)] {
    if (outcome.error)
      log::warn("{}: {}", outcome.removed.empty() ? "the store is not vacuumed" : "a snapshot could not be deleted",
                outcome.error->what);
    if (outcome.removed.empty()) return;
    refresh_use();
    std::string which;
    for (std::size_t i = 0; i < std::min(outcome.removed.size(), kMaxListed); ++i)
      which += fmt::format("{}{} ({})", which.empty() ? "" : ", ", outcome.removed[i].id,
                           to_string(outcome.removed[i].reason));
    log::info("vacuumed {} snapshot{}, {} freed: {}{}", outcome.removed.size(), outcome.removed.size() == 1 ? "" : "s",
              format_bytes(outcome.freed_bytes), which, outcome.removed.size() > kMaxListed ? ", …" : "");
  });
}

}  // namespace flight::daemon
