// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/generated_code.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "libcore/base/files.hpp"

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

class GeneratedCodeReader {
 public:
  void take_line(std::string_view line);
  [[nodiscard]] GeneratedCode finish();

 private:
  GeneratedCode out_;
  std::vector<std::uint64_t> others_;  // where symbols of modules begin
};

// "ADDRESS TYPE NAME", and "\t[MODULE]" after the name.
void GeneratedCodeReader::take_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.size() < space + 4) return;
  if (!out_.has_addresses) out_.has_addresses = line.find_first_not_of('0') < space;
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

Result<GeneratedCode> read_generated_code(const std::string& root) {
  const std::string path = root + "/proc/kallsyms";
  const auto file = open_file(path, O_RDONLY);
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
    std::string_view rest = text;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      reader.take_line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    text.erase(0, text.size() - rest.size());
  }
  GeneratedCode out = reader.finish();
  const auto jit = read_line(root + "/proc/sys/net/core/bpf_jit_enable");
  out.no_bpf = jit && *jit != "0" && out.has_addresses &&
               std::none_of(out.symbols.begin(), out.symbols.end(), [](const auto& symbol) { return symbol.bpf; });
  return out;
}

void drop_generated_code(std::string& kallsyms) {
  std::size_t kept = 0;
  for (std::size_t begin = 0; begin < kallsyms.size();) {
    const std::size_t newline = kallsyms.find('\n', begin);
    const std::size_t end = newline == std::string::npos ? kallsyms.size() : newline + 1;
    const std::string_view line(kallsyms.data() + begin, (newline == std::string::npos ? end : newline) - begin);
    if (!is_generated(module_of(line))) {
      std::copy(kallsyms.data() + begin, kallsyms.data() + end, kallsyms.data() + kept);
      kept += end - begin;
    }
    begin = end;
  }
  kallsyms.resize(kept);
}

}  // namespace flight
