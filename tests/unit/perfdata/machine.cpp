// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/perfdata/machine.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mount.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <span>

#include "libcore/base/files.hpp"

namespace flight::test {
namespace {

std::vector<std::uint8_t> build_id_of_notes(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name = sizeof note, id = name + (note.n_namesz + 3) / 4 * 4;
    const std::size_t end = id + (note.n_descsz + 3) / 4 * 4;
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(name, 3) == "GNU")
      return {notes.begin() + static_cast<long>(id), notes.begin() + static_cast<long>(id + note.n_descsz)};
    notes.remove_prefix(end);
  }
  return {};
}

}  // namespace

Self Self::find() {
  Self found{.path = std::filesystem::read_symlink("/proc/self/exe").string()};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        Self& self = *static_cast<Self*>(to);
        for (const ElfW(Phdr) & segment : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
            self.address = info->dlpi_addr + segment.p_vaddr;
            self.bytes = (segment.p_memsz + 4095) / 4096 * 4096;
            self.offset = segment.p_offset;
          }
          if (segment.p_type == PT_NOTE && self.build_id.empty())
            self.build_id = build_id_of_notes(
                {reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_filesz});  // NOLINT
        }
        return 1;  // the first object is the executable
      },
      &found);
  return found;
}

Kernel Kernel::find() {
  Kernel found;
  found.build_id = build_id_of_notes(read_file("/sys/kernel/notes").value_or(""));
  const std::string kallsyms = read_file("/proc/kallsyms").value_or("");
  const auto address = [&](std::string_view symbol) {
    std::uint64_t value = 0;
    const std::size_t at = kallsyms.find(fmt::format(" T {}\n", symbol));
    if (at != std::string::npos && at >= 16) std::from_chars(&kallsyms[at - 16], &kallsyms[at], value, 16);
    return value;
  };
  found.text = address("_text");
  if (found.text == 0) found.text = address("_stext");
  found.end = address("_etext");
  if (found.end == 0) found.end = found.text + (64U << 20U);
  found.schedule = address("schedule");
  return found;
}

SchedSwitch SchedSwitch::find() {
  if (testing::Test::IsSkipped()) return {};  // without root
  const std::string tracefs = "/sys/kernel/tracing";
  if (!std::filesystem::exists(tracefs + "/events")) {
    EXPECT_EQ(::mount("nodev", tracefs.c_str(), "tracefs", 0, nullptr), 0) << "this test needs root and tracefs";
  }
  SchedSwitch found;
  found.format = read_file(tracefs + "/events/sched/sched_switch/format").value_or("");
  const std::string id = read_file(tracefs + "/events/sched/sched_switch/id").value_or("");
  std::from_chars(id.data(), id.data() + id.size(), found.id);
  found.tracing.header_page = read_file(tracefs + "/events/header_page").value_or("");
  found.tracing.header_event = read_file(tracefs + "/events/header_event").value_or("");
  found.tracing.systems = {{"sched", {found.format}}};
  return found;
}

std::size_t SchedSwitch::offset(std::string_view field) const {
  const std::size_t at = format.find("offset:", format.find(field));
  std::size_t value = 0;
  std::from_chars(format.data() + at + 7, format.data() + format.size(), value);
  return value;
}

Bytes SchedSwitch::raw(std::string_view previous, std::uint32_t previous_pid, std::string_view next,
                       std::uint32_t next_pid) const {
  Bytes bytes(offset(" next_prio;") + 4);
  const auto set = [&](std::string_view field, std::span<const std::byte> value) {
    std::copy(value.begin(), value.end(), bytes.begin() + static_cast<long>(offset(field)));
  };
  const auto type = static_cast<std::uint16_t>(id);
  set(" common_type;", std::as_bytes(std::span(&type, 1)));
  set(" prev_comm[", std::as_bytes(std::span(previous.data(), previous.size())));
  set(" prev_pid;", std::as_bytes(std::span(&previous_pid, 1)));
  set(" next_comm[", std::as_bytes(std::span(next.data(), next.size())));
  set(" next_pid;", std::as_bytes(std::span(&next_pid, 1)));
  return bytes;
}

}  // namespace flight::test
