// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/file_table.hpp"

#include <utility>

namespace flight::broker {

bool FileTable::is_listed(const Entry& entry) {
  const bool known = entry.state == State::known || (entry.state == State::reading && entry.read_before);
  return known || !entry.facts.host_path.empty();
}

bool FileTable::wants(const FileIdentity& file, std::string_view name, Time now) {
  const auto [at, is_new] = files_.try_emplace(file);
  Entry& entry = at->second;
  if (is_new) {
    by_use_.push_front(file);
    entry.place = by_use_.begin();
    entry.looked = now;
    if (files_.size() > most_) {
      if (is_listed(files_.at(by_use_.back()))) ++version_;
      files_.erase(by_use_.back());
      by_use_.pop_back();
    }
    return true;
  }
  by_use_.splice(by_use_.begin(), by_use_, entry.place);
  if (entry.state == State::reading || entry.state == State::ambiguous) return false;
  const auto again = entry.state == State::failed ? std::chrono::milliseconds(kRetryAfter) : kLookAgainAfter;
  // The same file has another name: perhaps in a process with another root.
  const bool other_name = entry.state == State::known && entry.name != name && now - entry.looked >= kRetryAfter;
  if (now - entry.looked < again && !other_name) return false;
  entry.looked = now;
  entry.read_before = entry.state == State::known;
  entry.state = State::reading;
  return true;
}

bool FileTable::wants_again(const FileIdentity& file, Time now) {
  const auto at = files_.find(file);
  if (at == files_.end() || at->second.state != State::failed) return false;
  at->second.looked = now;
  at->second.state = State::reading;
  return true;
}

void FileTable::put(const FileIdentity& file, const std::string& name, MappedFileFacts facts) {
  const auto at = files_.find(file);
  if (at == files_.end()) return;  // it was removed meanwhile
  Entry& entry = at->second;
  if (!facts.was_read) {
    put_failed(file);
    if (entry.read_before || entry.facts.host_path == facts.host_path) return;
    entry.facts = std::move(facts);
    entry.name = name;
    ++version_;
    return;
  }
  if (entry.read_before && entry.facts.build_id != facts.build_id) {
    entry.state = State::ambiguous;
    entry.facts = {};
    ++version_;
    return;
  }
  const bool same = entry.read_before && (entry.facts.host_path == facts.host_path || facts.host_path.empty());
  entry.state = State::known;
  if (same) return;
  entry.facts = std::move(facts);
  entry.name = name;
  entry.read_before = true;
  ++version_;
}

// A known build-id stays: the file only could not be read again.
void FileTable::put_failed(const FileIdentity& file) {
  const auto at = files_.find(file);
  if (at == files_.end()) return;
  at->second.state = at->second.read_before ? State::known : State::failed;
}

KnownFiles FileTable::known() const {
  KnownFiles out;
  for (const FileIdentity& file : by_use_) {
    const Entry& entry = files_.at(file);
    if (!is_listed(entry)) continue;
    KnownFile known{.file = file, .build_id = entry.facts.build_id, .recorded_name = {}, .host_path = {}};
    if (!entry.facts.host_path.empty()) {
      known.recorded_name = entry.name;
      known.host_path = entry.facts.host_path;
    }
    out.files.push_back(std::move(known));
  }
  return out;
}

}  // namespace flight::broker
