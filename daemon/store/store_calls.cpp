// SPDX-License-Identifier: Apache-2.0
// The control calls on the store.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/kallsyms_upkeep.hpp"
#include "daemon/store/sidecar_repair.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

}  // namespace

CallError StoreService::not_found(const std::string& id, const Error& error) const {
  if (auto trouble = not_usable()) return std::move(*trouble);
  if (error.code == std::errc::no_such_file_or_directory) return no_such_snapshot(id);
  if (error.code == std::errc::invalid_argument) return invalid_parameter("id", error.what);
  // One of the two files is missing.
  if (error.code == std::errc::no_message_available) return no_such_snapshot(id, error.what);
  if (is_full(error.errno_value())) return store_full(error.what);
  return write_failed(error.errno_value(), "", error.what);
}

std::optional<CallError> StoreService::not_usable() const {
  const auto why = trouble();
  if (!why) return std::nullopt;
  return write_failed(why->errno_value(), "", why->what);
}

std::optional<CallError> StoreService::too_many_wait() const {
  if (calls_ < kMaxCalls) return std::nullopt;
  return write_failed(
      EBUSY, "", fmt::format("{} calls already wait for the disk of {}: try again when it answers", calls_, folder()));
}

template <typename Answer>
void StoreService::ask(std::function<CallResult<Answer>()> work, std::function<void(CallResult<Answer>)> done) {
  if (auto busy = too_many_wait()) return done(tl::unexpected(std::move(*busy)));
  ++calls_;
  thread_->post([this, work = std::move(work), done = std::move(done)]() mutable {
    asio::post(loop_, [this, answer = work(), done = std::move(done)]() mutable {
      --calls_;
      done(std::move(answer));
    });
  });
}

template <typename Answer>
void StoreService::ask_in_time(std::function<CallResult<Answer>()> work, std::function<void(CallResult<Answer>)> done) {
  const auto timer = std::make_shared<asio::steady_timer>(loop_, times_.answer_within);
  const auto once = std::make_shared<std::function<void(CallResult<Answer>)>>(std::move(done));
  const auto give = [once](CallResult<Answer> answer) {
    if (const auto call = std::exchange(*once, {})) call(std::move(answer));
  };
  timer->async_wait([this, give](const boost::system::error_code& error) {
    if (error) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(times_.answer_within).count();
    give(tl::unexpected(write_failed(
        ETIMEDOUT, "",
        fmt::format("the disk of {} has not answered for {} s: its server or device hangs, or it is very slow "
                    "(`findmnt -T {}`); recording continues",
                    folder(), seconds, folder()))));
  });
  ask<Answer>(std::move(work), [give, timer](CallResult<Answer> answer) {
    timer->cancel();
    give(std::move(answer));
  });
}

void StoreService::list(Done done) {
  ask_in_time<std::string>(
      [this]() -> CallResult<std::string> {
        auto rows = catalogue_.list_json();
        if (!rows && !usable_) return "[]";  // the status has the reason
        if (!rows) return tl::unexpected(write_failed(rows.error().errno_value(), "", rows.error().what));
        return std::move(*rows);
      },
      std::move(done));
}

void StoreService::describe(std::string id, Done done) {
  ask_in_time<std::string>(
      [this, id = std::move(id)]() -> CallResult<std::string> {
        auto text = catalogue_.describe(id);
        if (!text && text.error().code == std::errc::no_message_available) {
          if (usable_) give_sidecars(catalogue_, id);
          text = catalogue_.describe(id);
        }
        if (!text) return tl::unexpected(not_found(id, text.error()));
        auto sidecar = parse_sidecar(*text);
        if (!sidecar)
          return tl::unexpected(write_failed(
              EIO, "",
              fmt::format("the sidecar of snapshot {} in {} is damaged: {}", id, folder(), sidecar.error().what)));
        return to_json_line(*sidecar);
      },
      std::move(done));
}

void StoreService::remove(std::string id, Done done) {
  ask<std::string>(
      [this, id = std::move(id)]() -> CallResult<std::string> {
        if (auto trouble = not_usable()) return tl::unexpected(std::move(*trouble));
        // A pinned snapshot is deleted as well: the user named it.
        auto removed = catalogue_.remove(id);
        if (!removed) return tl::unexpected(not_found(id, removed.error()));
        if (const auto& left = catalogue_.left_behind())
          log::warn("snapshot {} is removed, but a small file is left behind: {}; trying again every hour", id,
                    left->what);
        note(catalogue_.unsynced());
        drop_unneeded_kallsyms(catalogue_);
        return "{}";
      },
      [this, done = std::move(done)](CallResult<std::string> answer) {
        refresh_use();
        done(std::move(answer));
      });
}

void StoreService::pin(std::string id, bool pinned, Done done) {
  ask<std::string>(
      [this, id = std::move(id), pinned]() -> CallResult<std::string> {
        if (auto trouble = not_usable()) return tl::unexpected(std::move(*trouble));
        if (auto kept = catalogue_.pin(id, pinned); !kept)
          return tl::unexpected(
              not_found(id, wrap(kept.error(), "{} snapshot {}", pinned ? "pin" : "unpin", id).value()));
        note(catalogue_.unsynced());
        return "{}";
      },
      [this, done = std::move(done)](CallResult<std::string> answer) {
        refresh_use();
        done(std::move(answer));
      });
}

void StoreService::read(std::string id, SnapshotFile file, Opened opened) {
  ask_in_time<OpenSnapshot>(
      [this, id = std::move(id), file]() -> CallResult<OpenSnapshot> {
        auto data = file == SnapshotFile::kallsyms  ? catalogue_.open_kallsyms(id)
                    : file == SnapshotFile::sidecar ? catalogue_.open_sidecar(id)
                                                    : catalogue_.open_data(id);
        if (!data) return tl::unexpected(not_found(id, data.error()));
        // The reply contains the file's name: `latest` may be another snapshot by the time of a second call.
        return OpenSnapshot{.file = std::move(data->fd),
                            .name = std::move(data->name),
                            .size_bytes = data->bytes,
                            .tar = std::move(data->tar)};
      },
      std::move(opened));
}

void StoreService::vacuum(bool dry_run, ControlBackend::Progress progress, Done done) {
  // On the store's thread; each percent once.
  auto notify = [this, progress = std::move(progress), last = std::make_shared<unsigned>(UINT_MAX)](std::size_t number,
                                                                                                    std::size_t all) {
    const auto percent = static_cast<unsigned>(number * 100 / all);
    if (std::exchange(*last, percent) == percent) return;
    asio::post(loop_, [progress, percent] { progress("deleting", percent); });
  };
  ask<std::string>(
      [this, dry_run, notify = std::move(notify)]() -> CallResult<std::string> {
        if (auto trouble = not_usable()) return tl::unexpected(std::move(*trouble));
        VacuumOutcome outcome = budget_.vacuum({.dry_run = dry_run, .by_hand = true, .progress = notify});
        if (!dry_run) {
          outcome.freed_bytes += drop_unneeded_kallsyms(catalogue_);
          give_sidecars(catalogue_, std::nullopt);
        }
        if (!dry_run) note(outcome);
        if (unsynced_) outcome.warnings.push_back(unsynced_text());
        if (outcome.error) {
          const std::string what = fmt::format("{}; {} removed before that", outcome.error->what,
                                               counted(outcome.removed.size(), "snapshot"));
          return tl::unexpected(write_failed(outcome.error->errno_value(), "", what));
        }
        std::string text = vacuum_reply(to_json(outcome.removed), outcome.freed_bytes, outcome.warnings);
        if (!dry_run) log_vacuumed(std::move(outcome));
        return text;
      },
      std::move(done));
}

// Does not count as a call: flightd does this once, at start.
void StoreService::find_newest(std::function<void(Sidecar)> found) {
  thread_->post([this, found = std::move(found)] {
    const auto text = catalogue_.describe("latest");
    auto sidecar = text ? parse_sidecar(*text) : Result<Sidecar>(propagate(text.error()));
    if (sidecar) asio::post(loop_, [found, sidecar = std::move(*sidecar)]() mutable { found(std::move(sidecar)); });
  });
}

}  // namespace flight::daemon
