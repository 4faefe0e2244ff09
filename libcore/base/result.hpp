// SPDX-License-Identifier: Apache-2.0
// Errors as values. Nearly every failure here is a system call that fails in normal operation. The caller needs its
// errno for a decision, and the person at 3 a.m. needs a sentence: what was tried, on what, why it failed, what to do
// next. Every function that returns a Result is [[nodiscard]].
#pragma once

#include <fmt/core.h>

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

// The common part of the templates below, compiled once (result.cpp): nearly every file instantiates some of them.
[[nodiscard]] Failure vsys_error(int error_number, fmt::string_view format, fmt::format_args args);
[[nodiscard]] Failure vfail(std::errc code, fmt::string_view format, fmt::format_args args);
[[nodiscard]] Failure vwrap(Error error, fmt::string_view format, fmt::format_args args);

// A system call failed with `error_number`: "WHAT: strerror".
template <typename... Args>
[[nodiscard]] Failure sys_error(int error_number, fmt::format_string<Args...> format, Args&&... args) {
  return vsys_error(error_number, format, fmt::make_format_args(args...));
}

// An error that flightd itself detects, without an errno: the text has no suffix.
template <typename... Args>
[[nodiscard]] Failure fail(std::errc code, fmt::format_string<Args...> format, Args&&... args) {
  return vfail(code, format, fmt::make_format_args(args...));
}

// Adds context on the way up: "CONTEXT: what".
template <typename... Args>
[[nodiscard]] Failure wrap(Error error, fmt::format_string<Args...> format, Args&&... args) {
  return vwrap(std::move(error), format, fmt::make_format_args(args...));
}

// Returns an error unchanged, across Result types.
[[nodiscard]] inline Failure propagate(Error error) { return Failure(std::move(error)); }

}  // namespace flight
