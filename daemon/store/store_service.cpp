// SPDX-License-Identifier: Apache-2.0
// The store's thread, the space that the store uses, and its budget. The control calls are in store_calls.cpp.
#include "daemon/store/store_service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <future>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/kallsyms_upkeep.hpp"
#include "daemon/store/sidecar_repair.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/units.hpp"
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
  return why ? fmt::format("degraded (disk): no snapshot can be written: {}; recording continues", why->what) : "";
}

std::vector<std::string> StoreService::state_warnings() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out = state_warnings_;
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
  keep_budget();
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

Result<std::uint64_t> StoreService::make_room(const std::string& trigger, std::uint64_t most_bytes) {
  writing_ = true;
  made_room_.begin();
  auto made = std::make_shared<std::promise<Result<void>>>();
  auto room = made->get_future();
  thread_->post([this, trigger, most_bytes, made] {
    const SpareDescriptors::Use use;
    if (auto taken = take_state().and_then([this] { return follow_folder(); }); !taken)
      return made->set_value(propagate(taken.error()));
    age_clock_.look();
    auto outcome = budget_.make_room(trigger, most_bytes, made_room_.in_vain());
    note_room(outcome ? std::move(*outcome) : budget_.take_deleted());
    made->set_value(outcome ? Result<void>() : Result<void>(propagate(outcome.error())));
  });
  if (room.wait_for(times_.room_wait) == std::future_status::ready) {
    const auto answer = room.get();
    const int why = answer ? 0 : answer.error().errno_value();
    if (!answer && (!usable_ || why == ESTALE || is_full(why))) return propagate(answer.error());
  }
  if (auto why = trouble()) return propagate(std::move(*why));
  return max_snapshot_bytes_.load();
}

Result<std::optional<StoreService::PartLimit>> StoreService::make_part_room(
    std::uint64_t most_bytes, std::optional<std::uint64_t> begun_free_bytes) {
  auto made = std::make_shared<std::promise<Result<std::optional<PartLimit>>>>();
  auto room = made->get_future();
  thread_->post([this, most_bytes, begun_free_bytes, made] {
    const SpareDescriptors::Use use;
    if (auto taken = take_state().and_then([this] { return follow_folder(); }); !taken)
      return made->set_value(propagate(taken.error()));
    age_clock_.look();
    auto done = budget_.make_part_room(most_bytes, begun_free_bytes, made_room_.in_vain());
    report(done ? std::move(done->outcome) : budget_.take_deleted());
    if (!done) return made->set_value(propagate(done.error()));
    made->set_value(
        PartLimit{.left_bytes = done->left_bytes, .free_bytes = done->free_bytes, .max_files = done->limits.max_files});
  });
  if (room.wait_for(times_.room_wait) == std::future_status::ready) return room.get();
  if (auto why = trouble()) return propagate(std::move(*why));
  return std::optional<PartLimit>();
}

std::vector<std::uint64_t> StoreService::take_left_parts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(left_parts_, {});
}

void StoreService::hold_part(std::uint64_t seq) {
  const std::lock_guard lock(parts_mutex_);
  parts_.insert(seq);
}

void StoreService::release_parts(const std::vector<std::uint64_t>& seqs) {
  {
    const std::lock_guard lock(parts_mutex_);
    for (const std::uint64_t seq : seqs) parts_.erase(seq);
  }
  keep_budget();
}

bool StoreService::make_more_room(const std::string& trigger, std::uint64_t needed_bytes) {
  if (made_room_.retry_in_vain() || !delete_for(trigger, needed_bytes)) return false;
  made_room_.note_retry();
  return true;
}

bool StoreService::make_more_part_room(std::uint64_t bytes) { return delete_for(std::string(kRecordTrigger), bytes); }

bool StoreService::delete_for(const std::string& trigger, std::uint64_t bytes) {
  auto made = std::make_shared<std::promise<bool>>();
  auto room = made->get_future();
  thread_->post([this, trigger, bytes, made] {
    const SpareDescriptors::Use use;
    if (made_room_.in_vain()) return made->set_value(false);
    age_clock_.look();
    VacuumOutcome outcome = budget_.make_more_room(trigger, bytes);
    const bool any = !outcome.removed.empty();
    note_room(std::move(outcome));
    made->set_value(any);
  });
  return room.wait_for(times_.room_wait) == std::future_status::ready && room.get();
}

void StoreService::writing_ended(const std::optional<Error>& error) {
  if (made_room_.end(error))
    log::warn(
        "the disk of {} stayed full although snapshots were deleted for the next one: no more are deleted for it until "
        "one can be written",
        folder());
  writing_ = false;
}

void StoreService::note_room(VacuumOutcome outcome) {
  for (const VacuumedSnapshot& one : outcome.removed)
    if (one.reason == VacuumReason::room) made_room_.note_made();
  report(std::move(outcome));
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
