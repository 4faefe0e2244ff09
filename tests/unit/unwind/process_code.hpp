// SPDX-License-Identifier: Apache-2.0
// The executable mappings of a process, each with the unwind table of its file.
#pragma once

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "libcore/base/files.hpp"
#include "libcore/unwind/code_map.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {

#if defined(__x86_64__)
inline constexpr Machine kThisMachine = Machine::x86_64;
#else
inline constexpr Machine kThisMachine = Machine::arm64;
#endif

class ProcessCode {
 public:
  explicit ProcessCode(pid_t pid = ::getpid()) {
    std::vector<CodeMapping> mappings;
    std::istringstream maps(read_file("/proc/" + std::to_string(pid) + "/maps").value_or(""));
    for (std::string line; std::getline(maps, line);) add_line(line, mappings);
    map_ = CodeMap::create(std::move(mappings));
  }
  [[nodiscard]] const CodeMap& map() const { return map_; }
  // The file that contains the code; "" if there is none.
  [[nodiscard]] std::string name_of(std::uint64_t address) const {
    const CodeMapping* mapping = map_.find(address);
    for (const auto& [name, owned] : tables_) {
      if (mapping != nullptr && mapping->table != nullptr && owned != nullptr && mapping->table == &*owned->table)
        return name;
    }
    return "";
  }

 private:
  void add_line(const std::string& line, std::vector<CodeMapping>& mappings) {
    CodeMapping mapping;
    std::uint64_t offset = 0;
    char rights[5] = {};
    int name_at = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &mapping.begin, &mapping.end,
                    rights, &offset, &name_at) < 4)
      return;
    if (rights[2] != 'x') return;
    const std::string name = line.substr(static_cast<std::size_t>(name_at));
    mapping.is_file = name.starts_with('/');
    mapping.table = table(name, mapping);
    if (mapping.table != nullptr) mapping.load_bias = mapping.table->load_bias(mapping.begin, offset).value_or(0);
    mappings.push_back(mapping);
  }
  const UnwindTable* table(const std::string& name, const CodeMapping& mapping) {
    auto& owned = tables_[name];
    if (owned == nullptr && mapping.is_file) {
      const auto text = read_file(name, 1U << 30U);
      EXPECT_TRUE(text) << text.error().what;
      if (!text) return nullptr;
      owned = std::make_unique<OwnedTable>(table_of(std::as_bytes(std::span(*text))));
    }
    if (owned == nullptr && name == "[vdso]") {
      const auto* bytes =
          reinterpret_cast<const std::byte*>(::getauxval(AT_SYSINFO_EHDR));  // it is the same in all processes
      owned = std::make_unique<OwnedTable>(table_of(std::span(bytes, mapping.end - mapping.begin)));
    }
    return owned != nullptr && owned->table ? &*owned->table : nullptr;
  }

  std::map<std::string, std::unique_ptr<OwnedTable>> tables_;
  CodeMap map_;
};

}  // namespace flight::test
