// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/tracepoint_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "libcore/base/text.hpp"
#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxValueBytes = 96;  // of one field's text
constexpr std::string_view kMore = ", …";

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop == text.data()) return std::nullopt;
  return value;
}

// The text between "KEY:" and the next semicolon.
std::string_view part(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find(';'));
}

TracepointField::Kind kind_of(std::string_view type, bool is_array, std::size_t size) {
  using Kind = TracepointField::Kind;
  const bool is_text = type.find("char") != std::string_view::npos;
  if (type.find("__rel_loc") != std::string_view::npos) return is_text ? Kind::relative_text : Kind::other;
  if (type.find("__data_loc") != std::string_view::npos) return is_text ? Kind::dynamic_text : Kind::other;
  if (is_array) return is_text ? Kind::text : Kind::other;
  if (type.starts_with("dev_t") && size == sizeof(std::uint32_t)) return Kind::device;
  return size == 1 || size == 2 || size == 4 || size == 8 ? Kind::number : Kind::other;
}

// Parses "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;"
std::optional<TracepointField> parse_field(std::string_view line) {
  std::string_view declaration = part(line, "field:");
  const auto offset = number(part(line, "offset:"));
  const auto size = number(part(line, "size:"));
  if (declaration.empty() || !offset || !size || *offset > kMaxRecordBytes || *size > kMaxRecordBytes)
    return std::nullopt;
  const std::size_t bracket = declaration.back() == ']' ? declaration.rfind('[') : std::string_view::npos;
  if (bracket != std::string_view::npos) declaration = declaration.substr(0, bracket);
  const std::size_t blank = declaration.find_last_of(" *");
  if (blank == std::string_view::npos || blank + 1 == declaration.size()) return std::nullopt;
  const std::string_view type = declaration.substr(0, blank + 1);
  TracepointField field;
  field.name = printable(declaration.substr(blank + 1));
  field.offset = *offset;
  field.size = *size;
  field.is_signed = part(line, "signed:") == "1";
  field.kind = kind_of(type, bracket != std::string_view::npos, field.size);
  field.hexadecimal = type.find('*') != std::string_view::npos || field.name.find("flags") != std::string::npos ||
                      field.name.find("addr") != std::string::npos;
  return field;
}

// The text up to its NUL, or to the end.
std::string clean_text(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMaxValueBytes));
  return printable(text.substr(0, text.find('\0')));
}

std::string number_text(const TracepointField& field, const std::byte* at) {
  const auto unsigned_value = [&]() -> std::uint64_t {
    if (field.size == 1) return load<std::uint8_t>(at);
    if (field.size == 2) return load<std::uint16_t>(at);
    return field.size == 4 ? load<std::uint32_t>(at) : load<std::uint64_t>(at);
  };
  const std::uint64_t value = unsigned_value();
  if (field.hexadecimal) return fmt::format("{:#x}", value);
  if (!field.is_signed) return fmt::format("{}", value);
  const unsigned shift = 64U - 8U * static_cast<unsigned>(field.size);
  return fmt::format("{}", static_cast<std::int64_t>(value << shift) >> shift);
}

// Empty: the value is invalid. A dynamic text is a u32: the high half is its length, the low half its offset, from the
// record's beginning or from after the u32.
std::string value_text(const TracepointField& field, std::span<const std::byte> raw) {
  using Kind = TracepointField::Kind;
  if (field.offset > raw.size() || field.size > raw.size() - field.offset) return {};
  const std::span<const std::byte> bytes = raw.subspan(field.offset, field.size);
  if (field.kind == Kind::number) return number_text(field, bytes.data());
  if (field.kind == Kind::text) return clean_text(bytes);
  if (field.kind == Kind::device) {  // the kernel's own dev_t: MINORBITS in include/linux/kdev_t.h
    const auto device = load<std::uint32_t>(bytes.data());
    return fmt::format("{}:{}", device >> 20U, device & 0xfffffU);
  }
  if (field.kind == Kind::other || bytes.size() != sizeof(std::uint32_t)) return {};
  const auto place = load<std::uint32_t>(bytes.data());
  const std::size_t length = place >> 16U;
  std::size_t begin = place & 0xffffU;
  if (field.kind == Kind::relative_text) begin += field.offset + sizeof place;
  if (begin > raw.size() || length > raw.size() - begin) return {};
  return clean_text(raw.subspan(begin, length));
}

}  // namespace

TracepointFormat TracepointFormat::parse(std::string_view text) {
  TracepointFormat format;
  while (!text.empty() && format.fields.size() < kMaxTracepointFields) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("ID: ")) format.id = static_cast<std::uint32_t>(number(line.substr(4)).value_or(0));
    if (!line.starts_with("\tfield:")) continue;
    auto field = parse_field(line);
    if (field && !field->name.starts_with("common_")) format.fields.push_back(std::move(*field));
  }
  return format;
}

std::string tracepoint_text(const TracepointFormat& format, std::span<const std::byte> raw) {
  // common_type is the first field of every record.
  if (raw.size() < sizeof(std::uint16_t) || load<std::uint16_t>(raw.data()) != format.id) return {};
  std::string out;
  for (const TracepointField& field : format.fields) {
    const std::string value = value_text(field, raw);
    if (value.empty()) continue;
    const std::string part = fmt::format("{}{}={}", out.empty() ? "" : ", ", field.name, value);
    if (out.size() + part.size() + kMore.size() > kMaxTracepointTextBytes) {
      // The first field alone may be too long: the format determines its name.
      return out.empty() ? out : out.append(kMore);
    }
    out += part;
  }
  return out;
}

}  // namespace flight
