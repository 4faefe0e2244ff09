// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/files.hpp"

#include <unistd.h>

#include <utility>

#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/snapshot/commit.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kSpareWait(1);  // for each file

}  // namespace

Result<PartialFile> SnapshotFiles::ask(std::chrono::seconds wait, bool spare) {
  auto file = recorder_.file(wait, spare);
  if (!file || file->spare == spare) return file;
  // A file of the other kind, which was requested earlier and came too late.
  ::unlink((folder() + "/" + file->name).c_str());
  return recorder_.file(wait, spare);
}

Result<std::uint64_t> SnapshotFiles::next_seq() {
  auto seq = catalogue_.next_seq();
  if (!seq) return wrap(seq.error(), "number the snapshot in {}", folder());
  const Unsynced& unsynced = catalogue_.unsynced();
  if (unsynced && !unsynced_said_) warn_(wrap(*unsynced, "a power failure may undo the last changes").value());
  unsynced_said_ = unsynced.has_value();
  return seq;
}

Result<SnapshotOutput> SnapshotFiles::make() {
  const SpareDescriptors::Use use;
  auto data = ask(BrokerThread::kFileWait, false);
  if (!data) return wrap(data.error(), "create a file in {}", folder());
  PartialFiles made(folder(), {data->name});
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
  warn_of_owner(data->fd.get());
  return SnapshotOutput{.data = std::move(data->fd),
                        .sidecar = std::move(sidecar->fd),
                        .data_name = std::move(data->name),
                        .sidecar_name = std::move(sidecar->name),
                        .folder = folder(),
                        .seq = *seq};
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
