// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/age_clock.hpp"

#include <algorithm>
#include <cerrno>

#include "daemon/log/log.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/store/folder.hpp"

namespace flight::daemon {

StoreClock AgeClock::look() {
  if (!loaded_) load();
  StoreClock clock = StoreClock::read();
  if (record_.look(boot_id_, clock.now, clock.since_boot) || failed_) save();
  clock.record = record_;
  return clock;
}

StoreClock AgeClock::look(Catalogue& catalogue) {
  StoreClock clock = look();
  const auto rows = catalogue.list();
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

void AgeClock::load() {
  loaded_ = true;
  const SpareDescriptors::Use use;
  const auto folder = Folder::open(state_dir_);
  const auto text = folder ? folder->read(kFile, kMaxClockRecordBytes) : Result<std::string>(propagate(folder.error()));
  auto record = text ? parse_clock_record(*text) : Result<ClockRecord>(propagate(text.error()));
  if (record)
    record_ = std::move(*record);
  else if (record.error().errno_value() != ENOENT)
    log::warn("{}/{}: {}; steps of the clock before this start are not known", state_dir_, kFile, record.error().what);
}

void AgeClock::save() {
  const SpareDescriptors::Use use;
  const auto folder = Folder::open(state_dir_);
  // Not synced is no trouble: after a power failure there is another boot.
  const auto saved = folder ? folder->replace(kFile, fmt::format("{}.partial", kFile), to_json(record_))
                            : Result<Unsynced>(propagate(folder.error()));
  if (!saved && !failed_)
    log::warn("{}; a restart of flightd forgets steps of the clock, and may delete snapshots by a wrong age",
              saved.error().what);
  failed_ = !saved;
}

}  // namespace flight::daemon
