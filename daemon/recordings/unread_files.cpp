// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/unread_files.hpp"

#include <algorithm>
#include <utility>

namespace flight::daemon {
namespace {

// A scan reports no generation (0): then the numbers alone decide.
bool is_same_file(const FileIdentity& one, const FileIdentity& other) {
  return numbers_of(one) == numbers_of(other) &&
         (one.generation == other.generation || one.generation == 0 || other.generation == 0);
}

}  // namespace

void UnreadFiles::note(const NamedMapping& mapping) {
  note_path(mapping);
  if (mapping.is_known) {
    if (known_.size() < kMaxFiles) known_.insert(mapping.file);
    return;
  }
  const auto of_file = by_file_.find(mapping.file);
  if (of_file != by_file_.end()) {
    for (const std::size_t i : of_file->second) {
      Unread& one = unread_[i];
      if (one.name != mapping.name || one.recorded_name != mapping.recorded_name) continue;
      one.first_ns = std::min(one.first_ns, mapping.mapped_ns);
      one.last_ns = std::max(one.last_ns, mapping.mapped_ns);
      return;
    }
  }
  if (unread_.size() >= kMaxFiles) {
    too_many_ = true;
    return;
  }
  by_file_[mapping.file].push_back(unread_.size());
  unread_.push_back({.file = mapping.file,
                     .recorded_name = std::string(mapping.recorded_name),
                     .name = std::string(mapping.name),
                     .first_ns = mapping.mapped_ns,
                     .last_ns = mapping.mapped_ns});
}

void UnreadFiles::note_path(const NamedMapping& mapping) {
  const auto found = paths_.find(mapping.name);
  if (found == paths_.end()) {
    if (paths_.size() < kMaxFiles)
      paths_.emplace(std::string(mapping.name),
                     Path{.file = mapping.file, .build_id = mapping.build_id, .is_shared = false});
    return;
  }
  Path& path = found->second;
  const bool has_another = mapping.build_id.size > 0 && path.build_id.size > 0 && mapping.build_id != path.build_id;
  if (has_another || !is_same_file(path.file, mapping.file)) path.is_shared = true;
  if (mapping.build_id.size > 0) path.build_id = mapping.build_id;
}

// A path that did not fit into paths_ may have been that of two files, so it is not listed.
bool UnreadFiles::may_list(const Unread& one, const BuildId& id) const {
  const auto path = paths_.find(one.name);
  return path != paths_.end() && !path->second.is_shared &&
         (path->second.build_id.size == 0 || path->second.build_id == id);
}

UnreadFiles::Found UnreadFiles::look_again(const KnownFiles& known) const {
  TrackerExport window;
  const auto add = [&window](const Unread& one, EventTime mapped_ns) {
    append_mmap2(window.prologue,
                 {.major = one.file.major,
                  .minor = one.file.minor,
                  .inode = one.file.inode,
                  .inode_generation = one.file.generation,
                  .name = one.recorded_name},
                 {});
    window.mapped_ns.push_back(mapped_ns);
  };
  for (const Unread& one : unread_) {
    add(one, one.first_ns);
    add(one, one.last_ns);
  }
  struct Looked {
    FileIdentity file;
    BuildId build_id;
    bool is_known = false;
  };
  std::vector<Looked> results;
  Found out;
  out.named = add_build_ids(known, window, [&results](const NamedMapping& mapping) {
    results.push_back({.file = mapping.file, .build_id = mapping.build_id, .is_known = mapping.is_known});
  });
  std::unordered_set<FileIdentity, FileIdentityHash> all = known_, without;
  for (const Looked& one : results) {
    all.insert(one.file);
    if (!one.is_known) without.insert(one.file);
  }
  for (std::size_t i = 0; i < unread_.size() && 2 * i + 1 < results.size(); ++i) {
    const Looked &first = results[2 * i], &last = results[2 * i + 1];
    if (first.build_id.size == 0 && last.build_id.size == 0) continue;
    if (first.build_id == last.build_id && may_list(unread_[i], last.build_id))
      out.build_ids.push_back({.id = last.build_id, .name = unread_[i].name});
    else if (without.insert(last.file).second)
      ++out.named.too_late;
  }
  out.named.without = without.size();
  out.named.with = all.size() - without.size();
  return out;
}

}  // namespace flight::daemon
