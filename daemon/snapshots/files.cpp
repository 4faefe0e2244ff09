// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/files.hpp"

#include <utility>

#include "daemon/snapshots/broker_file.hpp"
#include "daemon/snapshots/data_folder_files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/snapshot/commit.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kSpareWait(1);  // for each file
// One snapshot is written at a time; the next start removes a leftover.
constexpr const char* kSnapshotFolder = ".flightd-snapshot.partial";

}  // namespace

Result<PartialFile> SnapshotFiles::ask(std::chrono::seconds wait, bool spare) {
  return ask_broker_file(recorder_, folder(), wait, spare);
}

Result<std::uint64_t> SnapshotFiles::next_seq() {
  auto seq = catalogue_.next_seq();
  if (!seq) return wrap(seq.error(), "number the snapshot in {}", folder());
  const auto& damage = catalogue_.damaged_seq();
  if (damage && damage->what != damage_said_)
    warn_(wrap(*damage, "the number of the last snapshot is lost, and numbers of removed ones may be used again")
              .value());
  damage_said_ = damage ? damage->what : "";
  const Unsynced& unsynced = catalogue_.unsynced();
  if (unsynced && !unsynced_said_) warn_(wrap(*unsynced, "a power failure may undo the last changes").value());
  unsynced_said_ = unsynced.has_value();
  return seq;
}

Result<SnapshotOutput> SnapshotFiles::make_data(std::size_t more) {
  SnapshotOutput out;
  if (more == 0) {
    auto data = ask(BrokerThread::kFileWait, false);
    if (!data) return wrap(data.error(), "create a file in {}", folder());
    out.data = std::move(data->fd);
    out.data_name = std::move(data->name);
    return out;
  }
  out.data_name = kSnapshotFolder;
  auto files = make_data_folder(folder(), out.data_name, more, [this] { return ask(BrokerThread::kFileWait, false); });
  if (!files) return propagate(files.error());
  out.data = std::move(files->data);
  out.more = std::move(files->more);
  return out;
}

Result<SnapshotOutput> SnapshotFiles::make(std::size_t more) {
  const SpareDescriptors::Use use;
  auto out = make_data(more);
  if (!out) return out;
  PartialFiles made(folder(), {out->data_name});
  after_step(Step::data_made);
  auto sidecar = ask(BrokerThread::kFileWait, false);
  if (!sidecar) return wrap(sidecar.error(), "create a file in {}", folder());
  PartialFiles also_made(folder(), {sidecar->name});
  after_step(Step::sidecar_made);
  auto seq = next_seq();
  if (!seq) return propagate(seq.error());
  after_step(Step::numbered);
  made.keep();
  also_made.keep();
  warn_of_owner(out->data.get());
  out->sidecar = std::move(sidecar->fd);
  out->sidecar_name = std::move(sidecar->name);
  out->folder = folder();
  out->seq = *seq;
  return out;
}

void SnapshotFiles::warn_of_owner(int data) {
  const std::string owner = owner_warning(data);
  if (!owner.empty() && owner != owner_warned_)
    warn_({.code = std::make_error_code(std::errc::operation_not_permitted),
           .what = fmt::format("a snapshot in {}: {}", folder(), owner)});
  owner_warned_ = owner;
}

Result<SnapshotOutput> SnapshotFiles::take_spare() {
  const SpareDescriptors::Use use;
  auto spare = spare_.take();
  if (!spare) return spare;
  PartialFiles made(folder(), {spare->data_name, spare->sidecar_name});
  auto seq = next_seq();
  if (!seq) return propagate(seq.error());
  spare->seq = *seq;
  made.keep();
  return spare;
}

bool SnapshotFiles::fill_spare() {
  if (recorder_.broker_gone()) return true;  // broker_is_new() is called for the next broker
  Result<void> done;
  if (new_broker_) done = make_final(folder(), [this] { return ask(kSpareWait, false); });
  if (done) new_broker_ = false;
  const auto filled = spare_.fill([this] { return ask(kSpareWait, true); });
  if (done) done = filled;
  const std::string why = done ? "" : done.error().what;
  if (!done && why != warned_) warn_(done.error());
  warned_ = why;
  return done.has_value();
}

}  // namespace flight::daemon
