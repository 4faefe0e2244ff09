// SPDX-License-Identifier: Apache-2.0
// The calls that ask the store: list, describe, read, remove, pin; what is repaired there. All of it runs on the
// store's thread.
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>

#include "daemon/service.hpp"
#include "libcore/snapshot/repair.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMaxStoreCalls = 256;
constexpr std::size_t kMaxRepairs = 16;     // orphans that are read at a time: each is a whole file
constexpr std::uint64_t kBlockBytes = 512;  // of st_blocks, see stat(2)

CallError not_found(const std::string& id, const Error& error) {
  if (error.code == std::errc::no_such_file_or_directory) return no_such_snapshot(id);
  if (error.code == std::errc::invalid_argument) return invalid_parameter("id", error.what);
  // One of its two files is gone, the one that is asked for.
  if (error.code == std::errc::no_message_available) return no_such_snapshot(id, error.what);
  if (is_full(error.errno_value())) return store_full(error.what);
  return write_failed(error.errno_value(), "", error.what);
}

}  // namespace

std::optional<CallError> Service::too_many_wait() const {
  if (store_calls_ < kMaxStoreCalls) return std::nullopt;
  return write_failed(EBUSY, "",
                      fmt::format("{} calls wait for the disk of {} already: ask again when it answers", store_calls_,
                                  catalogue_.folder()));
}

void Service::on_store(std::function<CallResult<std::string>()> work, Done done) {
  if (auto busy = too_many_wait()) return done(tl::unexpected(std::move(*busy)));
  ++store_calls_;
  asio::post(store_, [this, work = std::move(work), done = std::move(done)]() mutable {
    asio::post(loop_, [this, answer = work(), done = std::move(done)]() mutable {
      --store_calls_;
      done(std::move(answer));
    });
  });
}

void Service::list_snapshots(Done done) {
  on_store(
      [this]() -> CallResult<std::string> {
        auto rows = catalogue_.list_json();
        if (!rows) return tl::unexpected(write_failed(rows.error().errno_value(), "", rows.error().what));
        return std::move(*rows);
      },
      std::move(done));
}

void Service::describe_snapshot(std::string id, Done done) {
  on_store(
      [this, id]() -> CallResult<std::string> {
        auto text = catalogue_.describe(id);
        if (!text && text.error().code == std::errc::no_message_available) {
          give_sidecars(id);
          text = catalogue_.describe(id);
        }
        if (!text) return tl::unexpected(not_found(id, text.error()));
        auto sidecar = parse_sidecar(*text);
        if (!sidecar)
          return tl::unexpected(write_failed(EIO, "",
                                             fmt::format("the sidecar of snapshot {} in {} is damaged: {}", id,
                                                         catalogue_.folder(), sidecar.error().what)));
        return to_json_line(*sidecar);
      },
      std::move(done));
}

void Service::remove_snapshot(std::string id, Done done) {
  on_store(
      [this, id]() -> CallResult<std::string> {
        auto removed = catalogue_.remove(id);
        if (!removed) return tl::unexpected(not_found(id, removed.error()));
        drop_unneeded_kallsyms();
        return "{}";
      },
      [this, done = std::move(done)](CallResult<std::string> answer) {
        refresh_store_use();
        done(std::move(answer));
      });
}

void Service::pin_snapshot(std::string id, bool pinned, Done done) {
  on_store(
      [this, id, pinned]() -> CallResult<std::string> {
        if (auto kept = catalogue_.pin(id, pinned); !kept)
          return tl::unexpected(
              not_found(id, wrap(kept.error(), "{} snapshot {}", pinned ? "pin" : "unpin", id).value()));
        return "{}";
      },
      std::move(done));
}

void Service::read_snapshot(std::string id, SnapshotFile file, Opened opened) {
  if (auto busy = too_many_wait()) return opened(tl::unexpected(std::move(*busy)));
  ++store_calls_;
  asio::post(store_, [this, id = std::move(id), file, opened = std::move(opened)]() mutable {
    auto data = file == SnapshotFile::kallsyms  ? catalogue_.open_kallsyms(id)
                : file == SnapshotFile::sidecar ? catalogue_.open_sidecar(id)
                                                : catalogue_.open_data(id);
    CallResult<OpenSnapshot> answer = tl::unexpected(CallError{});
    if (data)
      answer = OpenSnapshot{.file = std::move(data->fd), .name = std::move(data->name), .size_bytes = data->bytes};
    else
      answer = tl::unexpected(not_found(id, data.error()));
    asio::post(loop_, [this, answer = std::move(answer), opened = std::move(opened)]() mutable {
      --store_calls_;
      opened(std::move(answer));
    });
  });
}

// A boot's kernel symbols are kept while there is a snapshot of that boot.
std::uint64_t Service::drop_unneeded_kallsyms() {
  std::error_code ignored;
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(catalogue_.folder(), ignored)) {
    const std::string file = entry.path().filename().string();
    if (!is_kallsyms_file(file) || !entry.is_regular_file(ignored) || entry.is_symlink(ignored)) continue;
    auto rows = catalogue_.list();
    if (!rows) return bytes;
    const bool needed = std::any_of(rows->begin(), rows->end(), [&](const CatalogueRow& row) {
      return row.boot_id.empty() || kallsyms_file(row.boot_id) == file;  // an orphan's boot is unknown: keep
    });
    struct stat info {};
    if (needed || ::stat(entry.path().c_str(), &info) != 0) continue;
    if (std::filesystem::remove(entry.path(), ignored))
      bytes += static_cast<std::uint64_t>(info.st_blocks) * kBlockBytes;
  }
  return bytes;
}

void Service::give_sidecars(std::optional<std::string> which) {
  const auto orphans = catalogue_.orphans();
  if (!orphans) return;
  std::size_t read = 0;
  for (const SnapshotName& name : *orphans) {
    if (which && *which != fmt::format("{}", name.seq) && *which != "latest") continue;
    if (++read > kMaxRepairs) return;
    auto sidecar = sidecar_from_file(catalogue_.folder(), name);
    auto given = sidecar ? catalogue_.give_sidecar(name, to_json(*sidecar)) : pass(sidecar.error());
    asio::post(loop_, [id = name.seq, given] {
      if (given)
        spdlog::warn("snapshot {} had lost its sidecar: it has a new one, made of the file", id);
      else
        spdlog::warn("snapshot {} has lost its sidecar, and has no new one: {}", id, given.error().what);
    });
  }
}

}  // namespace flight
