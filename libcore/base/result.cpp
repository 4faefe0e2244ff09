// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/result.hpp"

namespace flight {

Failure vsys_error(int error_number, fmt::string_view format, fmt::format_args args) {
  std::error_code code(error_number, std::generic_category());
  return Failure(Error{code, fmt::vformat(format, args) + ": " + code.message()});
}

Failure vfail(std::errc code, fmt::string_view format, fmt::format_args args) {
  return Failure(Error{std::make_error_code(code), fmt::vformat(format, args)});
}

Failure vwrap(Error error, fmt::string_view format, fmt::format_args args) {
  error.what = fmt::vformat(format, args) + ": " + error.what;
  return Failure(std::move(error));
}

}  // namespace flight
