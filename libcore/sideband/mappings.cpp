// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/mappings.hpp"

#include <algorithm>

#include "libcore/sideband/gaps.hpp"
#include "libcore/sysinfo/mapped_file.hpp"

namespace flight {
namespace {

// The approximate cost of a node of a hash table and of an allocation.
std::size_t cost(const MappedFile& file) { return sizeof(MappedFile) + file.name.capacity() + kHashNodeBytes; }

// Whether memory without a file that /proc shows as `scanned` can be the known one; or a file of which a record has the
// build-id in place of its numbers. One that was removed since then is shown as "PATH (deleted)".
bool is_named(std::string_view known, std::string_view scanned) {
  return scanned == known || (scanned.size() == known.size() + kDeleted.size() && scanned.starts_with(known) &&
                              scanned.ends_with(kDeleted));
}

constexpr std::size_t kFirstFiles = 32;  // the program, the loader and the libraries that it starts with

}  // namespace

bool is_file(const ProcessMap& map) {
  const std::string& name = map.file->name;
  return !name.empty() && name != kLostName && name != "//anon" && !name.starts_with("[anon") && name != "[heap]" &&
         name != "[stack]";
}

bool ProcessMap::is_part_of(const Mmap2Record& scanned) const {
  const bool has_numbers = file->build_id.size == 0 && scanned.build_id.size == 0;
  if (!has_numbers || (file->inode == 0 && scanned.inode == 0)) return is_named(file->name, scanned.name);
  const bool same_generation = file->inode_generation == 0 || scanned.inode_generation == 0 ||
                               file->inode_generation == scanned.inode_generation;
  return file->inode == scanned.inode && file->major == scanned.major && file->minor == scanned.minor &&
         same_generation && page_offset - address == scanned.page_offset - scanned.address;
}

MappedFile::MappedFile(const Mmap2Record& record)
    : name(record.name),
      build_id(record.build_id),
      major(record.major),
      minor(record.minor),
      inode(record.inode),
      inode_generation(record.inode_generation) {}

bool FilePool::Equal::operator()(const Mmap2Record& record, const MappedFile* file) const {
  return record.name == file->name && record.build_id == file->build_id && record.major == file->major &&
         record.minor == file->minor && record.inode == file->inode &&
         record.inode_generation == file->inode_generation;
}

std::shared_ptr<const MappedFile> FilePool::intern(const Mmap2Record& record) {
  if (const auto known = files_.find(record); known != files_.end()) return (*known)->shared_from_this();
  const std::shared_ptr<MappedFile> file(new MappedFile(record), [this](MappedFile* unused) { remove(unused); });
  files_.insert(file.get());
  bytes_ += cost(*file);
  return file;
}

void FilePool::remove(MappedFile* file) {
  files_.erase(file);
  bytes_ -= cost(*file);
  delete file;
}

void MapList::recharge() {
  const std::size_t now = sizeof(MapList) + kHashNodeBytes + maps_.capacity() * sizeof(ProcessMap);
  meter_->bytes += now - charged_;
  charged_ = now;
}

std::size_t MapList::insert(const ProcessMap& map) {
  if (map.bytes == 0 || map.end() < map.address) return 0;
  // The first mapping that overlaps the new one, and the first after it.
  auto first = std::upper_bound(maps_.begin(), maps_.end(), map.address,
                                [](std::uint64_t address, const ProcessMap& old) { return address < old.end(); });
  auto last = first;
  while (last != maps_.end() && last->address < map.end()) ++last;
  const auto replaced = std::count_if(first, last, [](const ProcessMap& old) { return old.file->name != kLostName; });
  std::vector<ProcessMap> rest;  // the remaining parts of the first and the last one
  if (first != last) {
    if (first->address < map.address) {
      rest.push_back(*first);
      rest.back().bytes = map.address - first->address;
    }
    rest.push_back(map);
    const ProcessMap& cut = *(last - 1);
    if (cut.end() > map.end()) {
      rest.push_back(cut);
      rest.back().page_offset += map.end() - cut.address;
      rest.back().bytes = cut.end() - map.end();
      rest.back().address = map.end();
    }
    first = maps_.erase(first, last);
    maps_.insert(first, rest.begin(), rest.end());
  } else {
    maps_.insert(first, map);
  }
  if (maps_.size() > kMaxMapsPerProcess) trim(kMaxMapsPerProcess * 3 / 4);
  recharge();
  return static_cast<std::size_t>(replaced);
}

bool MapList::covers(const Mmap2Record& scanned) const {
  auto at = std::upper_bound(maps_.begin(), maps_.end(), scanned.address,
                             [](std::uint64_t wanted, const ProcessMap& map) { return wanted < map.end(); });
  std::uint64_t covered = scanned.address;
  for (; at != maps_.end() && at->address <= covered && at->is_part_of(scanned); ++at) {
    covered = at->end();
    if (covered - scanned.address >= scanned.bytes) return true;
  }
  return false;
}

// Anonymous mappings go first, the oldest before the others: a JIT makes new ones for ever, and does not say when one
// is gone. Then files, from the middle: the oldest are the program and its libraries, and the newest are in use.
void MapList::trim(std::size_t most) {
  if (maps_.size() <= most) return;
  std::vector<const ProcessMap*> order;  // as they are kept
  order.reserve(maps_.size());
  for (const ProcessMap& map : maps_) order.push_back(&map);
  std::sort(order.begin(), order.end(), [](const ProcessMap* a, const ProcessMap* b) {
    const bool file = is_file(*a), other = is_file(*b);
    if (file != other) return file;
    return a->since_ns != b->since_ns ? a->since_ns > b->since_ns : a->address < b->address;
  });
  const auto files = static_cast<std::size_t>(
      std::find_if(order.begin(), order.end(), [](const ProcessMap* map) { return !is_file(*map); }) - order.begin());
  const std::size_t first = std::min({kFirstFiles, files, most / 2});
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(files - first),
              order.begin() + static_cast<std::ptrdiff_t>(files));
  forgotten_ += order.size() - most;
  order.resize(most);
  std::sort(order.begin(), order.end(),
            [](const ProcessMap* a, const ProcessMap* b) { return a->address < b->address; });
  std::vector<ProcessMap> kept;
  kept.reserve(most);
  for (const ProcessMap* map : order) kept.push_back(*map);
  maps_ = std::move(kept);
  recharge();
}

MapList& writable(SharedMaps& maps, Meter& meter) {
  if (!maps)
    maps = std::make_shared<MapList>(meter);
  else if (maps.use_count() > 1)
    maps = std::make_shared<MapList>(*maps, meter);
  return *maps;
}

}  // namespace flight
