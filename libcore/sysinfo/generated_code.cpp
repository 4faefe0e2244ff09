// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/generated_code.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "libcore/base/kernel_file.hpp"
#include "libcore/sysinfo/proc_text.hpp"

namespace flight {
namespace {

constexpr std::size_t kChunkOfList = 16U << 10U;
constexpr std::size_t kMostListBytes = 64U << 20U;
constexpr std::size_t kMostModuleSymbols = 1U << 20U;

// "bpf" for a line that ends with "\t[bpf]"; empty for a symbol of the kernel itself.
std::string_view module_of(std::string_view line) {
  if (!line.ends_with(']')) return {};
  const std::size_t begin = line.rfind('\t');
  if (begin == std::string_view::npos || line.size() < begin + 3 || line[begin + 1] != '[') return {};
  return line.substr(begin + 2, line.size() - begin - 3);
}

bool is_bpf(std::string_view module) { return module == "bpf"; }
bool is_generated(std::string_view module) { return is_bpf(module) || module.starts_with("__builtin__"); }

// Calls `take` for each line with a module, in order, with the positions of its begin and its end. Only these lines end
// with a bracket, and most lines have none: so brackets are searched for, and the other lines are not looked at.
template <typename Take>
void for_lines_with_module(std::string_view text, Take take) {
  for (std::size_t at = text.find(']'); at != std::string_view::npos; at = text.find(']', at + 1)) {
    if (at + 1 < text.size() && text[at + 1] != '\n') continue;
    const std::size_t before = text.rfind('\n', at);
    take(before == std::string_view::npos ? 0 : before + 1, at + 1);
  }
}

class GeneratedCodeReader {
 public:
  // Whole lines.
  void take(std::string_view lines);
  [[nodiscard]] bool has_addresses() const { return out_.has_addresses; }
  [[nodiscard]] GeneratedCode finish();

 private:
  void take_symbol(std::string_view line);

  GeneratedCode out_;
  std::vector<std::uint64_t> others_;  // where symbols of modules begin
};

void GeneratedCodeReader::take(std::string_view lines) {
  if (!out_.has_addresses) out_.has_addresses = shows_address(lines);
  for_lines_with_module(lines,
                        [&](std::size_t begin, std::size_t end) { take_symbol(lines.substr(begin, end - begin)); });
}

// "ADDRESS TYPE NAME", and "\t[MODULE]" after the name.
void GeneratedCodeReader::take_symbol(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.size() < space + 4) return;
  const std::string_view module = module_of(line);
  if (module.empty()) return;
  std::uint64_t address = 0;
  std::from_chars(line.data(), line.data() + space, address, 16);
  if (address == 0) return;
  if (!is_generated(module)) {
    if (others_.size() < kMostModuleSymbols) others_.push_back(address);
  } else if (out_.symbols.size() < kMostGeneratedSymbols) {
    const std::string_view name = line.substr(space + 3, line.rfind('\t') - (space + 3));
    out_.symbols.push_back({.address = address, .bpf = is_bpf(module), .name = std::string(name)});
  } else {
    others_.push_back(address);
    ++out_.left_out;
  }
}

GeneratedCode GeneratedCodeReader::finish() {
  auto& symbols = out_.symbols;
  const auto earlier = [](const GeneratedSymbol& a, const GeneratedSymbol& b) { return a.address < b.address; };
  std::stable_sort(symbols.begin(), symbols.end(), earlier);
  const auto same = [](const GeneratedSymbol& a, const GeneratedSymbol& b) { return a.address == b.address; };
  symbols.erase(std::unique(symbols.begin(), symbols.end(), same), symbols.end());
  std::sort(others_.begin(), others_.end());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::uint64_t address = symbols[i].address;
    std::uint64_t bytes = std::min(kMostSymbolBytes, std::uint64_t{0} - address);
    if (i + 1 < symbols.size()) bytes = std::min(bytes, symbols[i + 1].address - address);
    const auto next = std::upper_bound(others_.begin(), others_.end(), address);
    if (next != others_.end()) bytes = std::min(bytes, *next - address);
    symbols[i].bytes = static_cast<std::uint32_t>(bytes);
  }
  return std::move(out_);
}

}  // namespace

bool shows_address(std::string_view lines) {
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos && line.find_first_not_of('0') < space) return true;
  }
  return false;
}

Result<GeneratedCode> read_generated_code(const std::string& root) {
  const std::string path = root + "/proc/kallsyms";
  const auto file = open_kernel_file(path);
  if (!file) return propagate(file.error());
  GeneratedCodeReader reader;
  std::string text;  // what follows the last whole line
  std::array<char, kChunkOfList> chunk{};
  for (std::size_t done = 0; done < kMostListBytes;) {
    const ssize_t got = ::read(file->get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_error(errno, "read {}", path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
    text.append(chunk.data(), static_cast<std::size_t>(got));
    const std::size_t whole = text.rfind('\n') + 1;
    reader.take(std::string_view(text).substr(0, whole));
    text.erase(0, whole);
    if (done >= kHiddenKallsymsBytes && !reader.has_addresses()) break;
  }
  GeneratedCode out = reader.finish();
  const auto jit = read_kernel_line(root + "/proc/sys/net/core/bpf_jit_enable");
  out.no_bpf = jit && *jit != "0" && out.has_addresses &&
               std::none_of(out.symbols.begin(), out.symbols.end(), [](const auto& symbol) { return symbol.bpf; });
  return out;
}

void drop_generated_code(std::string& kallsyms) {
  std::size_t kept = 0, next = 0;  // what is before `next` was kept or dropped
  const auto keep_until = [&](std::size_t end) {
    std::copy(kallsyms.data() + next, kallsyms.data() + end, kallsyms.data() + kept);
    kept += end - next;
  };
  for_lines_with_module(kallsyms, [&](std::size_t begin, std::size_t end) {
    if (!is_generated(module_of(std::string_view(kallsyms).substr(begin, end - begin)))) return;
    keep_until(begin);
    next = std::min(end + 1, kallsyms.size());
  });
  keep_until(kallsyms.size());
  kallsyms.resize(kept);
}

}  // namespace flight
