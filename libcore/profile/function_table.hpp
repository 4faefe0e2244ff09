// SPDX-License-Identifier: Apache-2.0
// The functions of one program file, by their offsets in the file, or of the kernel, by their addresses. Both are other
// people's input: what is invalid is left out, and every amount has a limit.
//
// Of several names at one place it has the one that perf shows: of a file, the best by choose_best_symbol() in
// tools/perf/util/symbol.c; of the kernel, the last in the list, the only one to which symbols__fixup_end() there gives
// a size. A function without a size ends where the next one begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/unwind/elf_image.hpp"

namespace flight {

class FunctionTable {
 public:
  struct Function {
    std::uint64_t begin = 0, end = 0;
    std::string_view name;  // of the table
  };
  static constexpr std::size_t kMostFunctions = 2U << 20U;
  static constexpr std::size_t kMostNamesBytes = 64U << 20U;  // of all together
  static constexpr std::size_t kMostNameBytes = 4096;

  FunctionTable() = default;
  // The text of /proc/kallsyms.
  [[nodiscard]] static FunctionTable of_kallsyms(std::string_view text);
  // Those of .symtab; of .dynsym if it has none. Errors are those of reading.
  [[nodiscard]] static Result<FunctionTable> of_elf(const ElfImage& image);

  [[nodiscard]] std::optional<Function> find(std::uint64_t at) const;
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t bytes() const { return entries_.size() * sizeof(Entry) + names_.size(); }

 private:
  struct Entry {
    std::uint64_t begin = 0, end = 0;
    std::uint32_t name = 0, name_bytes = 0;
    std::uint32_t rank = 0;  // the larger one is preferred
  };
  void add(std::uint64_t begin, std::uint64_t bytes, std::string_view name, std::uint32_t rank);
  [[nodiscard]] Result<void> add_section(const ElfImage& image, std::string_view symbols, std::string_view strings);
  void finish();
  [[nodiscard]] std::string_view name_of(const Entry& entry) const {
    return std::string_view(names_).substr(entry.name, entry.name_bytes);
  }
  [[nodiscard]] bool is_better(const Entry& one, const Entry& other) const;

  std::vector<Entry> entries_;  // ascending, distinct begins
  std::string names_;
};

}  // namespace flight
