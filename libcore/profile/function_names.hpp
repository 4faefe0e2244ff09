// SPDX-License-Identifier: Apache-2.0
// The function at a place of a snapshot's code: of the kernel by the text of /proc/kallsyms of its boot, of a file by
// the symbols in it, if the file is there and has the build-id that the snapshot has of it. A file without a build-id
// is not read: its path may lead to another one.
//
// The paths are other people's input. A file is opened only if it is a regular one that is on no server (a FUSE or
// network file system may never answer), and read when the first of its places is asked for. The symbols of one file
// can take a large part of a second, so a deadline can be set, after which no other file is opened.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "libcore/profile/address_spaces.hpp"
#include "libcore/profile/function_table.hpp"

namespace flight {

// The number of files that were asked for, by why their functions have no names.
struct UnnamedFiles {
  std::uint64_t without_build_id = 0;
  std::uint64_t absent = 0;    // there is none at the path, or it cannot be read
  std::uint64_t other = 0;     // it has another build-id
  std::uint64_t bare = 0;      // it has no symbols
  std::uint64_t too_many = 0;  // beyond kMostBytes

  [[nodiscard]] std::uint64_t all() const { return without_build_id + absent + other + bare + too_many; }
};

class FunctionNames {
 public:
  static constexpr std::size_t kMostBytes = 96U << 20U;  // of the tables of all files

  struct Named {
    std::uint64_t offset = 0;  // of its begin, as in CodeAt
    std::string name;          // demangled
  };

  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  // `kallsyms`: empty: the kernel's functions have no names. `read_files`: false: those of files have none.
  FunctionNames(std::string_view kallsyms, bool read_files, Deadline deadline = std::nullopt)
      : kernel_(FunctionTable::of_kallsyms(kallsyms)), read_files_(read_files), deadline_(deadline) {}

  // `at` is what AddressSpaces::find() returned for `address`, and `object` its object. nullopt: it is not known.
  [[nodiscard]] std::optional<Named> find(const CodeObject& object, const CodeAt& at, std::uint64_t address);

  [[nodiscard]] bool knows_kernel() const { return !kernel_.empty(); }
  [[nodiscard]] const UnnamedFiles& unnamed() const { return unnamed_; }
  // A file was not read, because the deadline was over. It is not in unnamed().
  [[nodiscard]] bool ran_out_of_time() const { return ran_out_of_time_; }

 private:
  [[nodiscard]] const FunctionTable& table_of(std::uint32_t number, const CodeObject& object);
  [[nodiscard]] FunctionTable read(const CodeObject& object);

  FunctionTable kernel_;
  std::unordered_map<std::uint32_t, FunctionTable> files_;  // by the number of the object
  bool read_files_ = true;
  Deadline deadline_;
  bool ran_out_of_time_ = false;
  std::size_t bytes_ = 0;
  UnnamedFiles unnamed_;
};

}  // namespace flight
