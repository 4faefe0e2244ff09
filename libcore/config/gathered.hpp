// SPDX-License-Identifier: Apache-2.0
// What another process found when it looked at the files of the configuration, as messages on a stream. The loader runs
// twice: there it looks, and each look with its result is sent; here it gets the same results, so it asks the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libcore/base/result.hpp"
#include "libcore/config/look.hpp"

namespace flight {

class Gathered {
 public:
  static constexpr std::size_t kMostBytes = 64U << 20U;  // of all messages

  // The messages: a look begins, `as`: entry_identity() if it is known; its result; all is there. `may_hang`: a file
  // lies where a server is asked for it.
  [[nodiscard]] static std::string begins(Look look, const std::string& path, const std::string& as = "");
  [[nodiscard]] static std::string found(Look look, const std::string& path, const Result<std::string>& result);
  [[nodiscard]] static std::string complete(bool may_hang);

  // The next bytes of the stream, in pieces of any size. An error: they are malformed, or too many.
  [[nodiscard]] Result<void> add(std::string_view bytes);
  [[nodiscard]] bool is_complete() const { return complete_; }
  [[nodiscard]] bool may_hang() const { return may_hang_; }
  // The file or folder that is read at the moment; empty: none.
  [[nodiscard]] const std::string& at() const { return at_; }
  // Its identity when the look began; empty: it is not known yet.
  [[nodiscard]] const std::string& as() const { return as_; }
  // The result of a look; nullopt: there was none.
  [[nodiscard]] std::optional<Result<std::string>> find(Look look, const std::string& path) const;
  // As look_up(), with the results from here. It must not outlive this object.
  [[nodiscard]] LookUp look_up() const;

 private:
  struct Message;
  [[nodiscard]] bool take(const Message& message, std::string_view path, std::string_view text);
  std::string unparsed_, at_, as_;
  std::size_t bytes_ = 0;
  std::map<std::pair<Look, std::string>, Result<std::string>> results_;
  bool complete_ = false, may_hang_ = false;
};

}  // namespace flight
