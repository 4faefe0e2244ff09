// SPDX-License-Identifier: Apache-2.0
// The store's thread, the space that the store uses, and its budget. The control calls are in store_calls.cpp.
#include "daemon/store/store_service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/kallsyms_upkeep.hpp"
#include "daemon/store/sidecar_repair.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::hours kVacuumEvery(1);
constexpr std::chrono::seconds kRoomWait(5);  // a snapshot must not be lost because the store's thread is busy
constexpr std::size_t kMaxListed = 10;        // limit of ids in a line of the log

}  // namespace

StoreService::StoreService(asio::io_context& loop, std::unique_ptr<TaskThread> thread, Setup setup,
                           std::function<void()> use_changed)
    : loop_(loop),
      use_changed_(std::move(use_changed)),
      hourly_(loop),
      max_snapshot_bytes_(setup.config.max_snapshot_bytes),
      boot_id_(std::move(setup.boot_id)),
      catalogue_(setup.folder),
      budget_(
          std::move(setup.folder), setup.config, [this] { return writing_.load(); }, [this] { return store_clock(); }),
      trigger_state_(std::move(setup.state_dir), *thread),
      thread_(std::move(thread)) {
  keep_budget_hourly();
}

StoreService::~StoreService() { thread_->join(); }

void StoreService::refresh_use() {
  if (use_asked_ns_ != 0) return;
  use_asked_ns_ = monotonic_now();
  thread_->post([this] {
    const Use use{.usage = catalogue_.usage(), .max_bytes = budget_.max_use_bytes(), .warnings = budget_.warnings()};
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
  thread_->post([this] {
    VacuumOutcome outcome = budget_.vacuum({});
    if (!outcome.removed.empty()) drop_unneeded_kallsyms(catalogue_);
    if (!outcome.removed.empty() || outcome.error) log_vacuumed(std::move(outcome));
  });
}

void StoreService::keep_budget_hourly() {
  keep_budget();
  thread_->post([this] { give_sidecars(catalogue_, std::nullopt); });
  hourly_.expires_after(kVacuumEvery);
  hourly_.async_wait([this](const boost::system::error_code& error) {
    if (!error) keep_budget_hourly();
  });
}

Result<std::uint64_t> StoreService::make_room(const std::string& trigger, std::uint64_t most_bytes) {
  writing_ = true;
  auto made = std::make_shared<std::promise<Result<void>>>();
  auto room = made->get_future();
  thread_->post([this, trigger, most_bytes, made] {
    auto outcome = budget_.make_room(trigger, most_bytes);
    made->set_value(outcome ? Result<void>() : Result<void>(propagate(outcome.error())));
    if (outcome && (!outcome->removed.empty() || outcome->error)) log_vacuumed(std::move(*outcome));
  });
  if (room.wait_for(kRoomWait) == std::future_status::ready)
    if (auto answer = room.get(); !answer && is_full(answer.error().errno_value())) return propagate(answer.error());
  return max_snapshot_bytes_.load();
}

void StoreService::log_vacuumed(VacuumOutcome outcome) {
  asio::post(loop_, [this, outcome = std::move(outcome)] {
    if (outcome.error) log::warn("the store is not vacuumed: {}", outcome.error->what);
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

StoreClock StoreService::store_clock() {
  StoreClock clock = StoreClock::read(boot_at_start_);
  const auto rows = catalogue_.list();
  for (const CatalogueRow& row : rows ? *rows : std::vector<CatalogueRow>{}) {
    const auto time = parse_time(row.time, clock.now);
    if (!time || row.boot_id.empty()) continue;
    if (row.boot_id == boot_id_)
      clock.first_of_boot = std::min(clock.first_of_boot.value_or(*time), *time);
    else
      clock.last_of_others = std::max(clock.last_of_others.value_or(*time), *time);
  }
  return clock;
}

}  // namespace flight::daemon
