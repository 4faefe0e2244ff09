// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/function_table.hpp"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

namespace flight {
namespace {

constexpr std::uint32_t kLocal = 1, kWeak = 0, kGlobal = 2;
constexpr std::uint64_t kLastFunctionBytes = 4096;  // the longest of a last function without a size

const ElfSection* section_with(const ElfImage& image, std::string_view name) {
  for (const ElfSection& section : image.sections())
    if (section.name == name && section.type != SHT_NOBITS && (section.flags & SHF_COMPRESSED) == 0) return &section;
  return nullptr;
}

std::string_view text_at(std::span<const std::byte> strings, std::uint32_t offset) {
  if (offset >= strings.size()) return {};
  const auto* begin = reinterpret_cast<const char*>(strings.data()) + offset;
  return {begin, ::strnlen(begin, std::min(strings.size() - offset, FunctionTable::kMostNameBytes))};
}

// As perf: functions, and labels of assembler code. st_info is binding and type, four bits each; see elf(5).
bool is_code(const Elf64_Sym& symbol) {
  const unsigned type = symbol.st_info & 0xfU;
  if (symbol.st_name == 0 || symbol.st_value == 0 || symbol.st_shndx == SHN_UNDEF) return false;
  if (type == STT_FUNC || type == STT_GNU_IFUNC) return true;
  const unsigned visibility = symbol.st_other & 3U;
  return type == STT_NOTYPE && symbol.st_shndx != SHN_ABS && visibility != STV_HIDDEN && visibility != STV_INTERNAL;
}

std::uint32_t binding_of(const Elf64_Sym& symbol) {
  const unsigned binding = symbol.st_info >> 4U;
  return binding == STB_WEAK ? kWeak : binding == STB_GLOBAL ? kGlobal : kLocal;
}

std::size_t underscores(std::string_view name) { return std::min(name.find_first_not_of('_'), name.size()); }

}  // namespace

// ffffffff81001000 T do_one_initcall<TAB>[module]
FunctionTable FunctionTable::of_kallsyms(std::string_view text) {
  FunctionTable out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::uint64_t address = 0;
    const auto [after, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
    const auto at = static_cast<std::size_t>(after - line.data());
    if (error != std::errc() || address == 0 || line.size() < at + 4 || line[at] != ' ' || line[at + 2] != ' ')
      continue;
    const char type = line[at + 1];
    if (type != 'T' && type != 't' && type != 'W' && type != 'w') continue;
    const std::string_view name = line.substr(at + 3);
    out.add(address, 0, name.substr(0, name.find_first_of("\t ")), static_cast<std::uint32_t>(out.entries_.size()));
  }
  out.finish();
  return out;
}

Result<FunctionTable> FunctionTable::of_elf(const ElfImage& image) {
  FunctionTable out;
  if (auto added = out.add_section(image, ".symtab", ".strtab"); !added) return propagate(added.error());
  if (out.entries_.empty())
    if (auto added = out.add_section(image, ".dynsym", ".dynstr"); !added) return propagate(added.error());
  out.finish();
  return out;
}

Result<void> FunctionTable::add_section(const ElfImage& image, std::string_view symbols, std::string_view strings) {
  const ElfSection* table = section_with(image, symbols);
  const ElfSection* texts = section_with(image, strings);
  if (table == nullptr || texts == nullptr) return {};
  const auto names = image.file().read(texts->offset, texts->bytes);
  if (!names) return wrap(names.error(), "section {}", strings);
  const auto bytes = image.file().read(table->offset, table->bytes);
  if (!bytes) return wrap(bytes.error(), "section {}", symbols);
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= bytes->size(); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, bytes->data() + at, sizeof symbol);
    if (!is_code(symbol)) continue;
    if (const auto offset = image.offset_of(symbol.st_value))
      add(*offset, symbol.st_size, text_at(*names, symbol.st_name), binding_of(symbol));
  }
  return {};
}

void FunctionTable::add(std::uint64_t begin, std::uint64_t bytes, std::string_view name, std::uint32_t rank) {
  // "$x" and its like mark code and data between functions, on arm64.
  if (name.empty() || name.front() == '$' || name.size() > kMostNameBytes || entries_.size() == kMostFunctions ||
      name.size() > kMostNamesBytes - names_.size() || bytes > UINT64_MAX - begin)
    return;
  entries_.push_back({.begin = begin,
                      .end = begin + bytes,
                      .name = static_cast<std::uint32_t>(names_.size()),
                      .name_bytes = static_cast<std::uint32_t>(name.size()),
                      .rank = rank});
  names_ += name;
}

bool FunctionTable::is_better(const Entry& one, const Entry& other) const {
  const bool has_size = one.end > one.begin;
  if (has_size != (other.end > other.begin)) return has_size;
  if (one.rank != other.rank) return one.rank > other.rank;
  const std::string_view name = name_of(one), other_name = name_of(other);
  if (underscores(name) != underscores(other_name)) return underscores(name) < underscores(other_name);
  return name.size() > other_name.size();
}

void FunctionTable::finish() {
  std::stable_sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : is_better(a, b);
  });
  const auto same = [](const Entry& a, const Entry& b) { return a.begin == b.begin; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.end != entry.begin) continue;
    const std::uint64_t most = UINT64_MAX - entry.begin;
    entry.end = i + 1 < entries_.size() ? entries_[i + 1].begin : entry.begin + std::min(kLastFunctionBytes, most);
  }
}

std::optional<FunctionTable::Function> FunctionTable::find(std::uint64_t at) const {
  const auto after = std::upper_bound(entries_.begin(), entries_.end(), at,
                                      [](std::uint64_t value, const Entry& entry) { return value < entry.begin; });
  if (after == entries_.begin()) return std::nullopt;
  const Entry& entry = *(after - 1);
  if (at >= entry.end) return std::nullopt;
  return Function{.begin = entry.begin, .end = entry.end, .name = name_of(entry)};
}

}  // namespace flight
