// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/function_names.hpp"

#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"

namespace flight {
namespace {

constexpr std::size_t kMostMangledBytes = 1024;  // a longer name stays as it is

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

std::string demangled(std::string_view name) {
  if (!name.starts_with("_Z") || name.size() > kMostMangledBytes) return std::string(name);
  int status = 0;
  const std::unique_ptr<char, FreeText> text(abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status));
  return status == 0 && text ? std::string(text.get()) : std::string(name);
}

// Opening a device can have an effect, and opening a FIFO waits: so first without opening it (O_PATH in open(2)).
Result<UniqueFd> open_program(const std::string& path) {
  if (!path.starts_with('/')) return fail(std::errc::invalid_argument, "{} is not a path", path);
  if (const std::string type = waits_below("/", path); !type.empty())
    return fail(std::errc::operation_not_supported,
                "{} is not read, because it is on {}, whose server may never answer", path, type);
  const auto place = open_file(path, O_PATH);
  if (!place) return propagate(place.error());
  struct stat found {};
  if (::fstat(place->get(), &found) != 0 || !S_ISREG(found.st_mode))
    return fail(std::errc::invalid_argument, "{} is not a regular file", path);
  return open_file(fmt::format("/proc/self/fd/{}", place->get()), O_RDONLY);
}

bool has_build_id(const ElfImage& image, const BuildId& build_id) {
  const std::vector<std::byte> found = image.build_id();
  return found.size() == build_id.size &&
         std::equal(found.begin(), found.end(), build_id.bytes.begin(),
                    [](std::byte a, std::uint8_t b) { return std::to_integer<std::uint8_t>(a) == b; });
}

}  // namespace

std::optional<FunctionNames::Named> FunctionNames::find(const CodeObject& object, const CodeAt& at,
                                                        std::uint64_t address) {
  if (object.kind == CodeKind::generated) return Named{.offset = 0, .name = object.name};
  if (object.kind == CodeKind::kernel) {
    // The last function before a module is none of the module's.
    const auto function = kernel_.find(address);
    if (!function || function->begin < at.begin) return std::nullopt;
    return Named{.offset = function->begin - at.begin, .name = std::string(function->name)};
  }
  if (object.kind != CodeKind::file || !read_files_) return std::nullopt;
  const auto function = table_of(at.object, object).find(at.offset);
  if (!function) return std::nullopt;
  return Named{.offset = function->begin, .name = demangled(function->name)};
}

const FunctionTable& FunctionNames::table_of(std::uint32_t number, const CodeObject& object) {
  const auto known = files_.find(number);
  return known != files_.end() ? known->second : files_.emplace(number, read(object)).first->second;
}

FunctionTable FunctionNames::read(const CodeObject& object) {
  if (object.build_id.size == 0) {
    ++unnamed_.without_build_id;
    return {};
  }
  if (deadline_ && std::chrono::steady_clock::now() > *deadline_) {
    ran_out_of_time_ = true;
    return {};
  }
  const auto file = open_program(object.name);
  const auto bytes = file ? FileBytes::open(file->get()) : Result<FileBytes>(propagate(file.error()));
  const auto image = bytes ? ElfImage::parse(*bytes) : Result<ElfImage>(propagate(bytes.error()));
  if (!image) {
    ++unnamed_.absent;
    return {};
  }
  if (!has_build_id(*image, object.build_id)) {
    ++unnamed_.other;
    return {};
  }
  auto table = FunctionTable::of_elf(*image);
  if (!table || table->empty()) {
    ++unnamed_.bare;
    return {};
  }
  if (table->bytes() > kMostBytes - bytes_) {
    ++unnamed_.too_many;
    return {};
  }
  bytes_ += table->bytes();
  return std::move(*table);
}

}  // namespace flight
