// SPDX-License-Identifier: Apache-2.0
// Errors as values. Nearly every failure here is a system call that will fail in normal life; it needs
// its errno for a decision and a sentence for the person at 3 a.m.: what was tried, on what, why it
// failed, what to do next. Every function that returns a Result is [[nodiscard]].
#pragma once

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace flight {

struct Error {
  std::error_code code;  // generic_category: an errno
  std::string what;      // complete sentence, ready to be shown

  // The errno behind the error, 0 if there is none.
  [[nodiscard]] int errno_value() const { return code.value(); }
};

template <typename T>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

// A system call failed with `error_number`: "WHAT: strerror".
template <typename... Args>
[[nodiscard]] Failure sys_error(int error_number, fmt::format_string<Args...> format, Args&&... args) {
  std::error_code code(error_number, std::generic_category());
  return Failure(Error{code, fmt::format(format, std::forward<Args>(args)...) + ": " + code.message()});
}

// We refuse something ourselves: the text stands alone.
template <typename... Args>
[[nodiscard]] Failure fail(std::errc code, fmt::format_string<Args...> format, Args&&... args) {
  return Failure(Error{std::make_error_code(code), fmt::format(format, std::forward<Args>(args)...)});
}

// Adds context on the way up: "CONTEXT: what".
template <typename... Args>
[[nodiscard]] Failure wrap(Error error, fmt::format_string<Args...> format, Args&&... args) {
  error.what = fmt::format(format, std::forward<Args>(args)...) + ": " + error.what;
  return Failure(std::move(error));
}

// Passes an error up unchanged, across Result types.
[[nodiscard]] inline Failure pass(Error error) { return Failure(std::move(error)); }

}  // namespace flight
