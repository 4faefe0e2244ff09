// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot_files.hpp"

#include <unistd.h>

#include <utility>

#include "libcore/base/steps.hpp"
#include "libcore/snapshot/commit.hpp"

namespace flight {
namespace {

constexpr std::chrono::seconds kSpareWait(1);  // for each

}  // namespace

Result<PartialFile> SnapshotFiles::ask(std::chrono::seconds wait, bool spare) {
  auto file = recorder_.file(wait, spare);
  if (!file || file->spare == spare) return file;
  // One of the other kind, which was asked for earlier and came too late.
  ::unlink((folder() + "/" + file->name).c_str());
  return recorder_.file(wait, spare);
}

Result<std::uint64_t> SnapshotFiles::next_seq() {
  auto seq = catalogue_.next_seq();
  if (!seq) return wrap(seq.error(), "number the snapshot in {}", folder());
  return seq;
}

Result<SnapshotOutput> SnapshotFiles::make() {
  auto data = ask(WallThread::kFileWait, false);
  if (!data) return wrap(data.error(), "make a file in {}", folder());
  PartialFiles made(folder(), {data->name});
  after_step(Step::data_made);
  auto sidecar = ask(WallThread::kFileWait, false);
  if (!sidecar) return wrap(sidecar.error(), "make a file in {}", folder());
  PartialFiles also_made(folder(), {sidecar->name});
  after_step(Step::sidecar_made);
  auto seq = next_seq();
  if (!seq) return pass(seq.error());
  after_step(Step::numbered);
  made.keep();
  also_made.keep();
  return SnapshotOutput{.data = std::move(data->fd),
                        .sidecar = std::move(sidecar->fd),
                        .data_name = std::move(data->name),
                        .sidecar_name = std::move(sidecar->name),
                        .folder = folder(),
                        .seq = *seq};
}

Result<SnapshotOutput> SnapshotFiles::take_spare() {
  auto spare = spare_.take();
  if (!spare) return spare;
  PartialFiles made(folder(), {spare->data_name, spare->sidecar_name});
  auto seq = next_seq();
  if (!seq) return pass(seq.error());
  spare->seq = *seq;
  made.keep();
  return spare;
}

void SnapshotFiles::fill_spare() {
  if (recorder_.broker_gone()) return;
  if (std::exchange(new_broker_, false))
    if (auto done = make_final(folder(), [this] { return ask(kSpareWait, false); }); !done) warn_(done.error());
  if (auto filled = spare_.fill([this] { return ask(kSpareWait, true); }); !filled) warn_(filled.error());
}

}  // namespace flight
