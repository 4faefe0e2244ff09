// SPDX-License-Identifier: Apache-2.0
// The names of files of which no build-id is known: perf(1) takes what a name leads to when the snapshot is read.
#include <algorithm>
#include <utility>

#include "daemon/broker/files/file_table.hpp"

namespace flight::broker {

const FileTable::Name* FileTable::Entry::renamed() const {
  const auto found = std::find_if(names.begin(), names.end(), [](const Name& one) { return !one.host_path.empty(); });
  return found != names.end() ? &*found : nullptr;
}

bool FileTable::Entry::note_name(const std::string& recorded, std::string host_path, Time now) {
  auto found = std::find_if(names.begin(), names.end(), [&](const Name& one) { return one.recorded == recorded; });
  const bool is_new = found == names.end();
  if (is_new && names.size() >= kMaxNames) names.erase(names.begin());
  if (is_new) found = names.insert(names.end(), Name{.recorded = recorded, .host_path = {}});
  found->looked = now;
  const bool is_other = found->host_path != host_path;
  if (is_other) found->is_asked = false;  // an answer about the previous path is not used
  found->host_path = std::move(host_path);
  return is_new || is_other;
}

std::size_t FileTable::Entry::bytes_of_names() const {
  std::size_t bytes = unread.name.size() + unread.host_path.size();
  for (const Name& name : names) bytes += name.recorded.size() + name.host_path.size();
  return bytes;
}

// If the owner is over the share, the names of this file are dropped: perf then reads the file that has the recorded
// name.
void FileTable::charge_names(Entry& entry) {
  const auto charge = [&] {
    const std::size_t bytes = entry.bytes_of_names();
    if (bytes == entry.charged_bytes) return std::size_t{0};
    std::size_t& own = name_bytes_[entry.owner];
    own += bytes - entry.charged_bytes;
    all_name_bytes_ += bytes - entry.charged_bytes;
    entry.charged_bytes = bytes;
    return own;
  };
  const std::size_t own = charge();  // 0: nothing has changed
  if (own == 0 || entry.owner == 0 || (own <= kMaxNameBytes / kShares && all_name_bytes_ <= kMaxNameBytes)) return;
  entry.names.clear();
  entry.names.shrink_to_fit();
  entry.unread = {};
  charge();
}

// Called when the entry leaves the table or gets another owner.
void FileTable::discharge_names(Entry& entry) {
  const auto own = name_bytes_.find(entry.owner);
  if (own != name_bytes_.end() && (own->second -= entry.charged_bytes) == 0) name_bytes_.erase(own);
  all_name_bytes_ -= entry.charged_bytes;
  entry.charged_bytes = 0;
}

void FileTable::add_checks(std::map<uid_t, ByUse>::iterator user, Time now, std::vector<Check>& out) {
  struct Candidate {
    FileIdentity numbers;
    Entry* entry;
    Name* name;
  };
  std::vector<Candidate> found;
  for (const FileIdentity& numbers : user->second) {
    Entry& entry = files_.at(numbers);
    for (Name& name : entry.names)
      if (!name.is_asked && now - name.looked >= kAskedAfter && !name.path().ends_with(kNotTheHosts) &&
          !name.path().ends_with(kNotVerified) && !name.path().ends_with(kDeleted))
        found.push_back({.numbers = numbers, .entry = &entry, .name = &name});
  }
  const std::size_t most = std::min(kMaxChecks - out.size(), user->first == 0 ? kMaxChecks / 2 : kMaxChecks / 8);
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(most, found.size()));
  std::partial_sort(found.begin(), end, found.end(),
                    [](const Candidate& a, const Candidate& b) { return a.name->looked < b.name->looked; });
  for (auto one = found.begin(); one != end; ++one) {
    one->name->is_asked = true;
    one->name->looked = now;
    Check check{.owner = user->first, .at = {.file = one->numbers, .name = one->name->path()}};
    check.at.known = one->entry->content();
    check.at.by_name = true;
    if (!one->entry->readings.empty()) check.at.file.generation = one->entry->readings.back().generation;
    out.push_back(std::move(check));
  }
}

std::vector<FileTable::Check> FileTable::to_check(Time now) {
  std::vector<Check> out;
  if (by_use_.contains(0)) add_checks(by_use_.find(0), now, out);
  auto user = by_use_.upper_bound(checked_last_);
  for (std::size_t i = 0; i < by_use_.size() && out.size() < kMaxChecks; ++i, ++user) {
    if (user == by_use_.end()) user = by_use_.begin();
    if (user->first == 0) continue;
    checked_last_ = user->first;
    add_checks(user, now, out);
  }
  return out;
}

void FileTable::put_check(const MappedAt& at, const MappedFileFacts* facts) {
  const auto found = files_.find(numbers_of(at.file));
  if (found == files_.end()) return;
  Entry& entry = found->second;
  for (Name& name : entry.names) {
    if (name.path() != at.name) continue;
    name.is_asked = false;
    // If another content was read meanwhile, these facts are about the previous one.
    if (facts == nullptr || facts->host_path.empty() || entry.content() != at.known) continue;
    name.host_path = facts->host_path;
    ++version_;
  }
  charge_names(entry);
}

bool FileTable::NameSpace::take(uid_t owner, std::size_t bytes) {
  constexpr std::size_t kMost = kMaxBuildIdsBytes * 3 / 4;
  std::size_t& own = used[owner];
  if (own + bytes > kMost / (owner == 0 ? 2 : 8) || all + bytes > kMost) return false;
  own += bytes;
  all += bytes;
  return true;
}

// Each name of a file becomes an entry of its own, with the times of its newest reading. If not all fit, those of
// root's files come first.
void FileTable::add_names(KnownFiles& out, NameSpace& space, std::size_t all) const {
  for (const auto& user : by_use_) {
    const uid_t owner = user.first;
    const std::size_t most = std::min(all, out.files.size() + kMaxKnownReadings / (owner == 0 ? 2 : 8));
    for (const FileIdentity& file : user.second) {
      const Entry& entry = files_.at(file);
      KnownFile known{.file = file};
      if (!entry.readings.empty()) {
        known.file.generation = entry.readings.back().generation;
        known.from_ns = entry.readings.back().from_ns;
        known.to_ns = entry.readings.back().to_ns;
      }
      const auto add = [&](const std::string& name, const std::string& host_path) {
        if (host_path.empty() || out.files.size() >= most || !space.take(owner, name.size() + host_path.size())) return;
        known.recorded_name = name;
        known.host_path = host_path;
        out.files.push_back(known);
      };
      if (!entry.has_one_name())
        for (const Name& name : entry.names) add(name.recorded, name.host_path);
      if (entry.readings.empty() || entry.unread.host_path.empty()) continue;
      known.file.generation = entry.unread.generation;
      known.from_ns = entry.readings.back().to_ns + 1;
      known.to_ns = UINT64_MAX;
      add(entry.unread.name, entry.unread.host_path);
    }
  }
}

}  // namespace flight::broker
