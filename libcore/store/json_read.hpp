// SPDX-License-Identifier: Apache-2.0
// Reading JSON that others may have written: bounded in size and depth; an unknown key is passed over, a missing one
// keeps its default, one of another type is an error with its path. The JSON library stays in the .cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxSidecarBytes = 16U << 20U;
inline constexpr std::size_t kMaxRowsBytes = 64U << 20U;
inline constexpr int kMaxJsonDepth = 16;

// JSON has no infinity and no NaN, and readers trip over the null that would stand in their place.
[[nodiscard]] inline double finite(double value) { return std::isfinite(value) ? value : 0; }

// Reads members of one object into fields. The first wrong one is kept in `error`, and the rest is read without effect.
class Members {
 public:
  void read(const char* key, bool& out) const;
  void read(const char* key, double& out) const;
  // null: it stays as it is.
  void read(const char* key, std::optional<double>& out) const;
  void read(const char* key, std::string& out) const;
  void read(const char* key, std::uint64_t& out) const;
  void read(const char* key, std::uint32_t& out) const;
  void read(const char* key, std::int32_t& out) const;
  void values(const char* key, std::vector<std::string>& out) const;
  void values(const char* key, std::vector<std::int32_t>& out) const;
  // Every member of this object is a list of numbers; null in it is NaN.
  void all_numbers(std::vector<std::pair<std::string, std::vector<double>>>& out) const;
  // It must be there and not be empty.
  void need(const char* key, std::string& out) const;
  // An object of its own; nothing happens where there is none, or null.
  void object(const char* key, const std::function<void(const Members&)>& read_object) const;
  // A list of objects.
  template <typename T, typename Read>
  void list(const char* key, std::vector<T>& out, const Read& read_item) const {
    each(key, [&](const Members& item) { read_item(item, out.emplace_back()); });
  }
  void refuse(const char* key, std::string_view right) const;

 private:
  friend class JsonText;
  // `object`: the library's value.
  Members(const void* object, std::string path, std::optional<Error>& error);
  void each(const char* key, const std::function<void(const Members&)>& read_item) const;
  std::string path_;  // with the point behind it
  const void* object_;
  std::optional<Error>* error_;
};

// A parsed text.
class JsonText {
 public:
  [[nodiscard]] static Result<JsonText> parse(std::string_view text, std::size_t max_bytes);

  // What is wrong in it, if anything: the text is one object, or an array of objects.
  [[nodiscard]] std::optional<Error> read_object(const std::function<void(const Members&)>& read) const;
  [[nodiscard]] std::optional<Error> read_array(const std::function<void(const Members&)>& read_item) const;

 private:
  explicit JsonText(std::shared_ptr<const void> root) : root_(std::move(root)) {}
  std::shared_ptr<const void> root_;  // shared only because it remembers how to delete what it does not know
};

}  // namespace flight
