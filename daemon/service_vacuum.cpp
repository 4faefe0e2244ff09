// SPDX-License-Identifier: Apache-2.0
// When the store is looked at for what is over its budget: before a snapshot is written, after it, at start, once an
// hour, and when somebody says `flightctl vacuum`. All of it runs on the store's thread.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <future>

#include "daemon/service.hpp"
#include "libcore/base/units.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::hours kVacuumEvery(1);
constexpr std::chrono::seconds kRoomWait(5);  // a snapshot is not lost because the store's thread is busy
constexpr std::size_t kMaxTold = 10;          // of the ids in a line of the log

}  // namespace

void Service::tell_vacuumed(VacuumOutcome outcome) {
  asio::post(loop_, [this, outcome = std::move(outcome)] {
    if (outcome.error) spdlog::warn("the store is not vacuumed: {}", outcome.error->what);
    if (outcome.removed.empty()) return;
    refresh_store_use();
    std::string which;
    for (std::size_t i = 0; i < std::min(outcome.removed.size(), kMaxTold); ++i)
      which += fmt::format("{}{} ({})", which.empty() ? "" : ", ", outcome.removed[i].id,
                           to_string(outcome.removed[i].reason));
    spdlog::info("vacuumed {} snapshot{}, {} freed: {}{}", outcome.removed.size(),
                 outcome.removed.size() == 1 ? "" : "s", format_bytes(outcome.freed_bytes), which,
                 outcome.removed.size() > kMaxTold ? ", …" : "");
  });
}

void Service::keep_budget() {
  asio::post(store_, [this] {
    VacuumOutcome outcome = budget_.vacuum({});
    if (!outcome.removed.empty()) drop_unneeded_kallsyms();
    if (!outcome.removed.empty() || outcome.error) tell_vacuumed(std::move(outcome));
  });
}

void Service::keep_budget_hourly() {
  keep_budget();
  asio::post(store_, [this] { give_sidecars(std::nullopt); });
  hourly_.expires_after(kVacuumEvery);
  hourly_.async_wait([this](const boost::system::error_code& error) {
    if (!error) keep_budget_hourly();
  });
}

Result<std::uint64_t> Service::make_room(const std::string& trigger, std::uint64_t most_bytes) {
  writing_ = true;
  auto made = std::make_shared<std::promise<Result<void>>>();
  auto room = made->get_future();
  asio::post(store_, [this, trigger, most_bytes, made] {
    auto outcome = budget_.make_room(trigger, most_bytes);
    made->set_value(outcome ? Result<void>() : Result<void>(pass(outcome.error())));
    if (outcome && (!outcome->removed.empty() || outcome->error)) tell_vacuumed(std::move(*outcome));
  });
  // A disk that does not answer is the writer's to find out, and to tell.
  if (room.wait_for(kRoomWait) == std::future_status::ready)
    if (auto answer = room.get(); !answer && is_full(answer.error().errno_value())) return pass(answer.error());
  return max_snapshot_bytes_.load();
}

void Service::vacuum(bool dry_run, Done done) {
  on_store(
      [this, dry_run]() -> CallResult<std::string> {
        VacuumOutcome outcome = budget_.vacuum({.dry_run = dry_run, .drop_missing = true});
        if (!dry_run) {
          outcome.freed_bytes += drop_unneeded_kallsyms();
          give_sidecars(std::nullopt);
        }
        if (outcome.error) {
          const std::string what =
              fmt::format("{}; {} snapshots were removed before that", outcome.error->what, outcome.removed.size());
          return tl::unexpected(write_failed(outcome.error->errno_value(), "", what));
        }
        std::string text = vacuum_reply(to_json(outcome.removed), outcome.freed_bytes, budget_.warnings());
        if (!dry_run) tell_vacuumed(std::move(outcome));
        return text;
      },
      std::move(done));
}

}  // namespace flight
