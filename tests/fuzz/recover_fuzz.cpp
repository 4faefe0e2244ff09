// SPDX-License-Identifier: Apache-2.0
// What a recording left when it was killed: a part and its journal, cut and damaged in any way. Either the part becomes
// a whole file of what the journal states, or it stays as it was.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/stream/journal.hpp"
#include "libcore/stream/recover.hpp"
#include "tests/fuzz/input.hpp"

namespace {

flight::UniqueFd memory_file() {
  flight::UniqueFd file(::memfd_create("part", MFD_CLOEXEC));
  if (!file) std::abort();
  return file;
}

std::uint64_t size_of(const flight::UniqueFd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) std::abort();
  return static_cast<std::uint64_t>(status.st_size);
}

std::vector<flight::FileEvent> one_event() {
  flight::FileEvent event;
  event.attr.type = PERF_TYPE_SOFTWARE;
  event.attr.size = flight::kStoredAttrBytes;
  event.attr.sample_type = flight::kSidebandSampleType;
  event.name = "dummy";
  event.ids = {7};
  return {event};
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

void recover_twice(const flight::UniqueFd& file, std::span<const std::byte> journal) {
  const std::uint64_t before = size_of(file);
  const auto recovered = flight::recover(file.get(), journal);
  if (!recovered) {
    assert(!recovered.error().what.empty());
    assert(size_of(file) == before);
    return;
  }
  assert(recovered->file_bytes == size_of(file));
  assert(recovered->data_bytes <= before);
  const auto again = flight::recover(file.get(), journal);
  assert(again && again->data_bytes == recovered->data_bytes && again->rounds >= recovered->rounds);
}

// Both files as they are: bytes of the journal, then those of the part.
void any_files(flight::fuzz::Input& input) {
  const auto journal = input.take_bytes(input.take<std::uint16_t>());
  const flight::UniqueFd file = memory_file();
  if (!flight::write_all(file.get(), input.bytes())) std::abort();
  recover_twice(file, journal);
}

// A journal whose checksums are right, with up to 8 lengths; then the data behind the right attributes. What comes out
// is a file that a reader opens.
void stated_lengths(flight::fuzz::Input& input) {
  flight::Features features;
  features.compressed = flight::CompressedFeature{.level = 1, .ratio = 1, .mmap_bytes = 589'824};
  const flight::UniqueFd file = memory_file(), journal_file = memory_file();
  const flight::UniqueFd kept(::dup(journal_file.get()));
  auto journal = flight::Journal::create(flight::UniqueFd(::dup(journal_file.get())), one_event(),
                                         flight::encode_features(features, one_event()));
  auto writer = flight::FileWriter::create(file.get(), one_event());
  if (!journal || !writer) std::abort();
  for (unsigned i = input.take<std::uint8_t>() % 8U; i > 0; --i)
    if (!journal->append({.data_bytes = input.take<std::uint16_t>(),
                          .expanded_bytes = 1,
                          .first_ns = input.take<std::uint8_t>(),
                          .newest_ns = input.take<std::uint8_t>()}))
      std::abort();
  if (!writer->append(input.bytes())) std::abort();
  const auto text = flight::read_all(kept.get());
  if (!text) std::abort();
  recover_twice(file, as_bytes(*text));
  // Whole, or without a header.
  const auto bytes = flight::read_all(file.get());
  if (!bytes) std::abort();
  const bool has_header = !bytes->empty() && bytes->front() == 'P';
  assert(!has_header || flight::FileReader::parse(as_bytes(*bytes)));
}

// The same for a directory with two files beside `data`: up to 8 entries with three lengths each, then what the two
// files have, then the data.
void stated_folder(flight::fuzz::Input& input) {
  flight::Features features;
  features.compressed = flight::CompressedFeature{.level = 1, .ratio = 1, .mmap_bytes = 589'824};
  features.directory = true;
  const flight::UniqueFd data = memory_file(), journal_file = memory_file(), first = memory_file(),
                         second = memory_file();
  auto journal = flight::Journal::create(flight::UniqueFd(::dup(journal_file.get())), one_event(),
                                         flight::encode_features(features, one_event()), 2);
  auto writer = flight::FileWriter::create(data.get(), one_event());
  if (!journal || !writer) std::abort();
  for (unsigned i = input.take<std::uint8_t>() % 8U; i > 0; --i) {
    flight::JournaledRound entry{.data_bytes = input.take<std::uint16_t>(), .expanded_bytes = 1};
    for (int file = 0; file < 2; ++file) entry.more_bytes.push_back(input.take<std::uint16_t>());
    entry.newest_ns = input.take<std::uint8_t>();
    if (!journal->append(entry)) std::abort();
  }
  for (const flight::UniqueFd* file : {&first, &second})
    if (!flight::write_all(file->get(), input.take_bytes(input.take<std::uint16_t>()))) std::abort();
  if (!writer->append(input.bytes())) std::abort();
  const auto text = flight::read_all(journal_file.get());
  if (!text) std::abort();
  const std::array<int, 2> more{first.get(), second.get()};
  const auto all_bytes = [&] { return size_of(data) + size_of(first) + size_of(second); };
  const std::uint64_t before = all_bytes();
  const auto recovered = flight::recover(data.get(), as_bytes(*text), more);
  if (!recovered) {
    assert(all_bytes() == before);
    return;
  }
  assert(recovered->file_bytes == all_bytes());
  std::vector<flight::UniqueFd> others;
  for (const int file : more) others.emplace_back(::dup(file));
  assert(flight::FileReader::open_files(flight::UniqueFd(::dup(data.get())), std::move(others), "part"));
}

}  // namespace

// u8: 0: any files; 2: a directory; else lengths that a journal states.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  const auto kind = input.take<std::uint8_t>();
  if (kind == 0) {
    any_files(input);
  } else if (kind == 2) {
    stated_folder(input);
  } else {
    stated_lengths(input);
  }
  return 0;
}
